"""GRPO: compare episodes of the same task with each other (Shao et al. 2024, arXiv 2402.03300).

Credit, for episode i of a group with scores R_1..R_G:

    A_i = (R_i - mean(R)) / (std(R) + 1e-4)          std with G - 1, as TRL computes it

Loss over the tokens t of each episode, with ratio r = exp(logp - logp_old):

    - min(r A, clip(r, 1 - eps, 1 + eps) A) + kl * (exp(logp_base - logp) - (logp_base - logp) - 1)

averaged over an episode's tokens, then over episodes (the weights carry both means).

With `credit: turn` an episode's turn t is credited with its return to go,
G_t = r_t + discount * G_{t+1}. It is compared with the returns of the group's episodes that stood
in the same state, that is, had the same tokens before them; a state that only one episode reached
is compared with the whole group's returns at that turn. (Grouping by state within a group: Feng et
al. 2025, arXiv 2505.10978.) The group's spread scales all of them.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from practicum.core.interfaces import Need
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging, Credit, Episode, Estimates, Group, TurnCredit
from practicum.core.trace import Trace

__all__ = ["Grpo", "episode_advantages", "grpo_loss", "returns_to_go", "turn_advantages"]

STD_FLOOR = 1e-4
"""Added to the standard deviation: keeps nearly equal scores from becoming huge advantages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grpo:
    """GRPO with its settings."""

    credit_by: Literal["turn", "episode"] = "turn"
    discount: float = 1.0
    scale: Literal["std", "none"] = "std"
    clip: float = 0.2
    kl: float = 0.0
    epochs: int = 1

    minibatches: int = 1
    averaging: Averaging = "episode"
    by_sequence: bool = False
    from_policy: bool = True

    @property
    def loss_needs(self) -> frozenset[Need]:
        """The base model's log-probabilities, where the loss keeps the policy near it."""
        return frozenset({"base"} if self.kl > 0.0 else ())

    @property
    def credit_needs(self) -> frozenset[Need]:
        """Nothing besides the scores."""
        return frozenset()

    def is_informative(self, group: Group) -> bool:
        """Whether its episodes differ in what they scored."""
        return len(group.usable) > 1 and max(group.values) - min(group.values) >= 1e-9

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """Advantages for each usable episode's turns."""
        return [[Credit(advantages=turns) for turns in self._turns(group)] for group in groups]

    def _turns(self, group: Group) -> list[TurnCredit]:
        episodes = group.usable
        if self.credit_by == "episode":
            per_episode = episode_advantages(group.values, self.scale)
            return [(a,) * len(e.trace.turns) for a, e in zip(per_episode, episodes, strict=True)]
        returns = [returns_to_go(_turn_values(e), self.discount) for e in episodes]
        return turn_advantages(returns, [_states(e.trace) for e in episodes], self.scale)

    def loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective; see the module's formula."""
        return grpo_loss(terms, clip=self.clip, kl=self.kl)


def episode_advantages(values: tuple[float, ...], scale: str) -> list[float]:
    """Scores compared with their group's mean.

    >>> [round(a, 3) for a in episode_advantages((1.0, 0.0, 0.0, 1.0), "std")]
    [0.866, -0.866, -0.866, 0.866]
    """
    scores = np.asarray(values, np.float64)
    centred = scores - scores.mean()
    if scale == "std":
        centred = centred / (scores.std(ddof=1) + STD_FLOOR)
    return [float(a) for a in centred]


def returns_to_go(rewards: tuple[float, ...], discount: float) -> tuple[float, ...]:
    """What each turn and the ones after it earned.

    >>> returns_to_go((1.5, 2.0, 3.0), 1.0)
    (6.5, 5.0, 3.0)
    """
    returns: list[float] = []
    running = 0.0
    for reward in reversed(rewards):
        running = reward + discount * running
        returns.append(running)
    return tuple(reversed(returns))


def turn_advantages(
    returns: Sequence[tuple[float, ...]], states: Sequence[tuple[Hashable, ...]], scale: str
) -> list[TurnCredit]:
    """Returns compared with those from the same state, or else at the same turn.

    An episode that ended before turn t earned 0 from there on, and counts in turn t's mean as such:
    otherwise a turn that only one episode reached could never be told good from bad.

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
    """The spread of whole returns, or of the turns' own differences where that is larger.

    Episodes that end up with nearly the same score can differ by much on the way: divided by the
    spread of their scores alone, those turns would get huge advantages.
    """
    whole = float(np.std([values[0] for values in returns if values], ddof=1))
    turns = np.asarray([a for row in centred for a in row])
    return max(whole, float(np.sqrt(np.mean(turns**2)))) + STD_FLOOR


def _states(trace: Trace) -> tuple[Hashable, ...]:
    """Where each turn was taken from: the tokens before it."""
    return tuple(
        trace.token_ids(parent) if (parent := trace.nodes[turn].parent) is not None else ()
        for turn in trace.turns
    )


def _turn_values(episode: Episode) -> tuple[float, ...]:
    """What each turn earned; an episode scored only as a whole earned it on its last turn."""
    turns = len(episode.trace.turns)
    values = episode.score.turn_values
    total = episode.score.value
    assert total is not None
    if not turns:
        return ()  # nothing was sampled, so there is nothing to credit
    if not values:
        return (0.0,) * (turns - 1) + (total,)
    if len(values) != turns:
        raise ValueError(
            f"trace {episode.trace.id!r} has {turns} turns but {len(values)} turn values"
        )
    rest = total - sum(values)  # components that are not paid by the turn belong to the last one
    return (*values[:-1], values[-1] + rest)


def grpo_loss(terms: LossTerms, *, clip: float, kl: float) -> LossReport:
    """Clipped policy gradient with an optional distance to the base model."""
    ratio = torch.exp(terms.logprobs - terms.old_logprobs)
    bounded = ratio.clamp(1.0 - clip, 1.0 + clip)
    gain = torch.minimum(ratio * terms.advantages, bounded * terms.advantages)
    per_term = -gain
    if kl > 0.0:
        assert terms.base_logprobs is not None
        log_ratio = terms.base_logprobs - terms.logprobs
        per_term = per_term + kl * (torch.exp(log_ratio) - log_ratio - 1.0)
    clipped = ((ratio < 1.0 - clip) & (terms.advantages < 0)) | (
        (ratio > 1.0 + clip) & (terms.advantages > 0)
    )
    return LossReport(
        loss=(terms.weights * per_term).sum(), clipped=(terms.weights * clipped).sum().detach()
    )
