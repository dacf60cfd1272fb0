"""Base classes of the algorithms, and the credit assignment that several of them share.

KL in the reward (`kl_in: reward`, beta = `kl`): each sampled token's reward is reduced by

    beta * (logp - logp_base)

of the policy before the update and of the reference. A turn sums over its tokens.

Credit by turn (`credit: turn`): turn t is credited with its return G_t = r_t + discount * G_{t+1},
compared with the returns of the group's episodes that were in the same state, that is, had the same
tokens before it; a state that only one episode reached is compared with the whole group's returns
at that turn. (Grouping by state within a group: Feng et al. 2025, arXiv 2505.10978.) The group's
spread scales all of them.

Where several roles take the turns of an episode, each has a group of its own: a role's rewards are
those of its turns, its returns those of its later turns, and both are compared with the same role's
in the group's other episodes. The part of the score that is not given by turn is each role's.

Truncated importance ratios (`max_ratio`) are for tokens that earlier weights sampled. The ratio
r = p / p_old corrects for that, but it varies more the older p_old is, and a few huge ratios can
dominate the gradient. Clipping does not help: min(r A, clip(r) A) leaves r alone where A < 0 and r
is large. Truncated importance sampling (Ionides 2008, "Truncated importance sampling", J. Comput.
Graph. Stat. 17(2); for stale actors: Espeholt et al. 2018, arXiv 1802.01561) replaces r by

    w = min(r, C)                                       C = max_ratio

in value and in gradient: the loss has r * sg[w / r] (sg: no gradient), whose value is w and whose
gradient is w * grad logp. That is the ratio to a p_old raised where needed,

    logp_old'  =  max(logp_old, sg[logp] - log C)

so every method's loss, with its own clipping, is used unchanged. A ratio of a whole sequence is
made of truncated token ratios. The price is a bias towards the policy that sampled, which is 0
where no ratio exceeds C.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch

from practicum.core.interfaces import Need
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging, Credit, Episode, Estimates, Floats, Group, TurnCredit
from practicum.core.trace import StopReason, Trace
from practicum.stats.advantages import STD_FLOOR, episode_advantages
from practicum.stats.differences import differ
from practicum.training.prefix_tree import untruncated_logprobs

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import (
        AlgorithmConfig,
        GroupConfig,
        KlConfig,
        OnlineConfig,
    )

CreditBy = Literal["turn", "episode"]
Scale = Literal["std", "none"]
Floats64 = npt.NDArray[np.float64]

CUT_OFF = frozenset({StopReason.MAX_TURNS, StopReason.CONTEXT_FULL})
"""Endings by a limit (truncation) rather than by the environment (termination).

A deadline is none of them: who is late has failed."""


class Method:
    """An algorithm and its options, as a config model or by name: `Grpo(clip=0.1)`."""

    name: str
    """Its name in a config."""
    config: "AlgorithmConfig"

    def __init__(self, config: "AlgorithmConfig | None" = None, **options: Any) -> None:
        if config is None:
            # Imported here: a machine that only computes may have no pydantic.
            from practicum.core.config.algorithm_config import options_class
            from practicum.core.config.parse_config import check_own_options

            model = options_class(type(self))
            is_ours = model.model_fields["name"].default == self.name
            given = model(**options) if is_ours else check_own_options(model, self.name, options)
            config = given
        self.config = config


class ExampleMethod(Method):
    """An algorithm over recorded examples; see `OfflineMethod`."""

    kind: Literal["sft", "kto", "dpo", "grpo"]
    needs_measure: bool = True
    needs_mismatched: bool = False


class OnlineMethod(Method):
    """An algorithm over rollouts of the policy; see `Algorithm`.

    Args:
        config: Its options.
        turn_limit: See `is_cut_off`.
        options: Its options by name, in place of `config`.
    """

    config: "OnlineConfig"
    averaging: Averaging = "episode"
    by_sequence: bool = False
    from_policy: bool = True

    def __init__(
        self, config: "OnlineConfig | None" = None, *, turn_limit: int = 0, **options: Any
    ) -> None:
        super().__init__(config, **options)
        self.turn_limit = turn_limit

    @property
    def epochs(self) -> int:
        """Epochs over the same episodes."""
        return self.config.epochs

    @property
    def minibatches(self) -> int:
        """Optimizer steps per epoch."""
        return self.config.minibatches

    @property
    def loss_needs(self) -> frozenset[Need]:
        """Only the policy's log-probabilities."""
        return frozenset()

    def loss(self, terms: LossTerms) -> LossReport:
        """The method's loss, with importance ratios truncated at `max_ratio`."""
        return truncated_loss(self.own_loss, terms, self.config.max_ratio)

    @abstractmethod
    def own_loss(self, terms: LossTerms) -> LossReport:
        """The method's loss; its module has the formula."""


class KlMethod(OnlineMethod):
    """An algorithm with an optional KL penalty, in the loss or in the reward."""

    config: "KlConfig"

    @property
    def kl(self) -> float:
        """KL coefficient in the loss."""
        return self.config.kl if self.config.kl_in == "loss" else 0.0

    @property
    def kl_in_reward(self) -> float:
        """KL coefficient in the reward."""
        return self.config.kl if self.config.kl_in == "reward" else 0.0

    @property
    def loss_needs(self) -> frozenset[Need]:
        """The reference's log-probabilities, with KL in the loss."""
        return frozenset({"base"} if self.kl > 0.0 else ())

    @property
    def credit_needs(self) -> frozenset[Need]:
        """The reference's log-probabilities, with KL in the reward."""
        return frozenset({"base"} if self.kl_in_reward > 0.0 else ())

    def is_informative(self, group: Group) -> bool:
        """Whether its scores differ, or may differ by their KL penalties."""
        return has_spread(group) or (self.kl_in_reward > 0.0 and len(group.usable) > 1)


class GroupMethod(KlMethod):
    """An algorithm with group-relative advantages (GRPO and relatives)."""

    config: "GroupConfig"
    credits_roles: ClassVar[Literal[True]] = True

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """Advantages for each usable episode's turns."""
        return [
            [
                Credit(advantages=turns)
                for turns in group_credit(
                    group,
                    estimates,
                    credit_by=self.config.credit,
                    discount=self.config.discount,
                    scale=self.config.scale,
                    kl_in_reward=self.kl_in_reward,
                )
            ]
            for group in groups
        ]


def truncated_loss(
    loss_of: Callable[[LossTerms], LossReport], terms: LossTerms, max_ratio: float | None
) -> LossReport:
    """A loss of terms whose importance ratios count at most `max_ratio`; None is no limit."""
    if max_ratio is None:
        return loss_of(terms)
    truncated, exceeded = truncate(terms, max_ratio)
    report = loss_of(truncated)
    return replace(report, truncated=(terms.weights * exceeded).sum().detach())


def truncate(terms: LossTerms, max_ratio: float) -> tuple[LossTerms, torch.Tensor]:
    """Terms with ratios of at most `max_ratio`, and which of them exceeded it, (M,).

    >>> old, now = torch.tensor([0.1, 0.5]).log(), torch.tensor([0.5, 0.5]).log()
    >>> terms = LossTerms(logprobs=now, old_logprobs=old, advantages=None, weights=None)
    >>> found, which = truncate(terms, 2.0)
    >>> [round(float(r), 3) for r in (now - found.old_logprobs).exp()], which.tolist()
    ([2.0, 1.0], [True, False])
    """
    lowest = terms.logprobs.detach() - math.log(max_ratio)
    raised = torch.maximum(terms.old_logprobs, lowest)
    return replace(terms, old_logprobs=raised), terms.old_logprobs < lowest


def group_credit(
    group: Group,
    estimates: Mapping[str, Estimates],
    *,
    credit_by: CreditBy,
    discount: float,
    scale: Scale,
    kl_in_reward: float,
) -> list[TurnCredit]:
    """GRPO advantages: one for each turn of each usable episode of a group."""
    episodes = group.usable
    if len(group.roles) > 1:
        paid = [turn_rewards(e, estimates, kl_in_reward) for e in episodes]
        return role_credit(group, paid, credit_by=credit_by, discount=discount, scale=scale)
    if credit_by == "episode":
        values = tuple(whole_reward(e, estimates, kl_in_reward) for e in episodes)
        per_episode = episode_advantages(values, scale)
        return [(a,) * len(e.trace.turns) for a, e in zip(per_episode, episodes, strict=True)]
    rewards = [turn_rewards(e, estimates, kl_in_reward) for e in episodes]
    returns = [returns_to_go(r, discount) for r in rewards]
    return turn_advantages(returns, [_states(e.trace) for e in episodes], scale)


def role_credit(
    group: Group,
    rewards: Sequence[tuple[float, ...]],
    *,
    credit_by: CreditBy,
    discount: float,
    scale: Scale,
) -> list[TurnCredit]:
    """Advantages of turns that several roles took, each role's among its own; 0 without peers."""
    episodes = group.usable
    found = [[0.0] * len(paid) for paid in rewards]
    for role in group.roles:
        took = {at: turns for at, e in enumerate(episodes) if (turns := turns_of(e, role))}
        if len(took) < 2:
            continue
        own = [tuple(rewards[at][turn] for turn in turns) for at, turns in took.items()]
        if credit_by == "episode":
            whole = episode_advantages(tuple(sum(paid) for paid in own), scale)
            credited = [(a,) * len(paid) for a, paid in zip(whole, own, strict=True)]
        else:
            states = [_states(episodes[at].trace) for at in took]
            visited = [
                tuple(state[turn] for turn in turns)
                for state, turns in zip(states, took.values(), strict=True)
            ]
            credited = turn_advantages([returns_to_go(r, discount) for r in own], visited, scale)
        for (at, turns), advantages in zip(took.items(), credited, strict=True):
            for turn, advantage in zip(turns, advantages, strict=True):
                found[at][turn] = advantage
    return [tuple(advantages) for advantages in found]


def turns_of(episode: Episode, role: str) -> list[int]:
    """Which turns of an episode a role took."""
    return [turn for turn, name in enumerate(episode.turn_roles) if name == role]


def turn_advantages(
    returns: Sequence[tuple[float, ...]], states: Sequence[tuple[Hashable, ...]], scale: str
) -> list[TurnCredit]:
    """Returns minus the mean return from the same state, or else at the same turn.

    An episode that ended before turn t counts with a return of 0 in turn t's mean: otherwise a turn
    that only one episode reached would always have advantage 0.

    >>> turn_advantages([(3.0, 3.0), (-1.0,)], [("start", "moved"), ("start",)], "none")
    [(2.0, 1.5), (-2.0,)]
    >>> turn_advantages([(4.0, 3.0), (2.0, 1.0)], [("start", "moved"), ("start", "moved")], "none")
    [(1.0, 1.0), (-1.0, -1.0)]
    """
    by_state: dict[Hashable, list[float]] = {}
    for values, visited in zip(returns, states, strict=True):
        for value, state in zip(values, visited, strict=True):
            by_state.setdefault(state, []).append(value)

    def baseline(turn: int, state: Hashable) -> float:
        peers = by_state[state]
        if len(peers) < 2:
            peers = [values[turn] if turn < len(values) else 0.0 for values in returns]
        return sum(peers) / len(peers)

    centred = [
        [
            value - baseline(turn, state)
            for turn, (value, state) in enumerate(zip(values, visited, strict=True))
        ]
        for values, visited in zip(returns, states, strict=True)
    ]
    spread = _spread(returns, centred) if scale == "std" else 1.0
    return [tuple(a / spread for a in turns) for turns in centred]


def _spread(returns: Sequence[tuple[float, ...]], centred: Sequence[Sequence[float]]) -> float:
    """Standard deviation of the episodes' returns, or the advantages' RMS where that is larger.

    Episodes with nearly the same score can differ much between turns: divided by the spread of the
    scores alone, those turns would get huge advantages.
    """
    wholes = [values[0] for values in returns if values]
    whole = float(np.std(wholes, ddof=1)) if len(wholes) > 1 else 0.0
    turns = np.asarray([a for row in centred for a in row])
    own = float(np.sqrt(np.mean(turns**2))) if turns.size else 0.0
    return max(whole, own) + STD_FLOOR


def _states(trace: Trace) -> tuple[Hashable, ...]:
    """The state of each turn: the tokens before it."""
    return tuple(
        trace.token_ids(parent) if (parent := trace.nodes[turn].parent) is not None else ()
        for turn in trace.turns
    )


def returns_to_go(rewards: tuple[float, ...], discount: float) -> tuple[float, ...]:
    """The discounted return from each turn on.

    >>> returns_to_go((1.5, 2.0, 3.0), 1.0)
    (6.5, 5.0, 3.0)
    """
    returns: list[float] = []
    running = 0.0
    for reward in reversed(rewards):
        running = reward + discount * running
        returns.append(running)
    return tuple(reversed(returns))


def turn_rewards(
    episode: Episode, estimates: Mapping[str, Estimates], beta: float
) -> tuple[float, ...]:
    """Each turn's reward minus its KL penalty.

    The part of the score that is not given by turn is added to the last turn, of each role.
    """
    turns = len(episode.trace.turns)
    values = episode.score.turn_values
    total = episode.score.value
    assert total is not None
    if not turns:
        return ()
    if not values:
        values = (0.0,) * turns
    if len(values) != turns:
        raise ValueError(
            f"trace {episode.trace.id!r} has {turns} turns but {len(values)} turn values"
        )
    rest = total - sum(values)
    roles = episode.turn_roles or ("",) * turns
    last = {role: turn for turn, role in enumerate(roles)}.values()
    earned = [value + rest * (turn in last) for turn, value in enumerate(values)]
    paid = token_penalties(episode.trace, estimates, beta)
    return tuple(reward - float(p.sum()) for reward, p in zip(earned, paid, strict=True))


def whole_reward(episode: Episode, estimates: Mapping[str, Estimates], beta: float) -> float:
    """The episode's score minus the KL penalty of all its tokens."""
    total = episode.score.value
    assert total is not None
    return total - sum(float(p.sum()) for p in token_penalties(episode.trace, estimates, beta))


def token_penalties(
    trace: Trace, estimates: Mapping[str, Estimates], beta: float
) -> tuple[Floats64, ...]:
    """KL penalty of each loss token, by turn: beta * (logp - logp_base)."""
    lengths = loss_lengths(trace)
    if not beta or not any(lengths):
        return tuple(np.zeros(n) for n in lengths)
    found = estimates[trace.id]
    return tuple(
        beta * (own.astype(np.float64) - base)
        for own, base in zip(found.logprobs, found.base_logprobs, strict=True)
    )


def penalties_to_go(penalties: Sequence[Floats64], discount: float) -> tuple[Floats64, ...]:
    """Each token's penalty plus those of later tokens, discounted once per turn.

    >>> [p.tolist() for p in penalties_to_go([np.array([1.0, 2.0]), np.array([4.0])], 0.5)]
    [[5.0, 4.0], [4.0]]
    """
    after = 0.0
    found: list[Floats64] = []
    for turn in reversed(penalties):
        found.append(np.cumsum(turn[::-1])[::-1] + discount * after)
        after = float(turn.sum()) + discount * after
    return tuple(reversed(found))


def normalise(
    groups: Sequence[Sequence[Sequence[Floats64]]],
) -> list[list[tuple[Floats, ...]]]:
    """Normalise advantages to mean 0 and standard deviation 1 over all tokens of the step.

    Args:
        groups: For each group, episode and turn, an entry for each token.

    >>> [[turns]] = normalise([[[np.array([1.0, 2.0]), np.array([3.0])]]])
    >>> [[round(float(a), 3) for a in turn] for turn in turns]
    [[-1.225, 0.0], [1.225]]
    """
    flat = [turn for group in groups for episode in group for turn in episode]
    tokens = np.concatenate([np.zeros(0), *flat])
    mean, deviation = (tokens.mean(), tokens.std() + STD_FLOOR) if tokens.size else (0.0, 1.0)
    return [
        [tuple(((t - mean) / deviation).astype(np.float32) for t in e) for e in group]
        for group in groups
    ]


def has_spread(group: Group) -> bool:
    """Whether the scores of the group's episodes differ, or what a role of them earned."""
    if len(group.roles) < 2:
        return differ(group.values)
    rewards = [turn_rewards(episode, {}, 0.0) for episode in group.usable]
    return any(
        differ(
            [
                sum(paid[turn] for turn in turns)
                for paid, episode in zip(rewards, group.usable, strict=True)
                if (turns := turns_of(episode, role))
            ]
        )
        for role in group.roles
    )


def is_cut_off(trace: Trace, turn_limit: int = 0) -> bool:
    """Whether a limit ended the episode.

    Args:
        trace: The episode as it happened.
        turn_limit: Most tokens of a turn: a last turn as long was most likely cut off itself. 0
            looks only at the stop reason.
    """
    if trace.stop in CUT_OFF:
        return True
    last = len(trace.nodes[trace.turns[-1]].token_ids) if trace.turns else 0
    return 0 < turn_limit <= last


def loss_lengths(trace: Trace) -> tuple[int, ...]:
    """Number of loss tokens of each turn."""
    spans = (trace.nodes[turn].sampled for turn in trace.turns)
    return tuple(sum(span.loss_mask) for span in spans if span is not None)


def by_turn(trace: Trace, estimated: tuple[Floats, ...]) -> tuple[Floats, ...]:
    """The arrays of an estimate; empty ones for an episode without loss tokens, which has none."""
    return estimated or tuple(np.zeros(0, np.float32) for _ in trace.turns)


def sampler_logprobs(trace: Trace) -> tuple[Floats, ...]:
    """The sampler's log-probabilities of each turn's loss tokens, before top-k and top-p."""
    spans = (trace.nodes[turn].sampled for turn in trace.turns)
    return tuple(
        untruncated_logprobs(span)[np.asarray(span.loss_mask, np.bool_)]
        for span in spans
        if span is not None
    )
