"""What the credits of several methods have in common: rewards by turn, returns, comparisons.

KL in the reward (`beta`): each sampled token is paid its share of the reward less

    beta * (logp - logp_base)

where both are of the policy before the update, and of the model without its adapter. A turn pays
for all of its tokens, an episode for all of its turns.

With `credit: turn` an episode's turn t is credited with its return to go,
G_t = r_t + discount * G_{t+1}. It is compared with the returns of the group's episodes that stood
in the same state, that is, had the same tokens before them; a state that only one episode reached
is compared with the whole group's returns at that turn. (Grouping by state within a group: Feng et
al. 2025, arXiv 2505.10978.) The group's spread scales all of them.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from practicum.core.sample import Episode, Estimates, Floats, Group, TurnCredit
from practicum.core.trace import StopReason, Trace

__all__ = [
    "STD_FLOOR",
    "CreditBy",
    "Precise",
    "Scale",
    "by_turn",
    "episode_advantages",
    "group_credit",
    "has_spread",
    "is_cut_off",
    "loss_lengths",
    "normalise",
    "penalties_to_go",
    "returns_to_go",
    "sampler_logprobs",
    "token_penalties",
    "turn_advantages",
    "turn_rewards",
    "whole_reward",
]

CreditBy = Literal["turn", "episode"]
Scale = Literal["std", "none"]
Precise = npt.NDArray[np.float64]

STD_FLOOR = 1e-4
"""Added to the standard deviation: keeps nearly equal scores from becoming huge advantages."""

CUT_OFF = frozenset({StopReason.MAX_TURNS, StopReason.CONTEXT_FULL})
"""Endings that are a limit's doing rather than the environment's."""


def has_spread(group: Group) -> bool:
    """Whether the group's episodes differ in what they scored."""
    return len(group.usable) > 1 and max(group.values) - min(group.values) >= 1e-9


def is_cut_off(trace: Trace, turn_limit: int = 0) -> bool:
    """Whether a limit ended the episode.

    Args:
        trace: The episode as it happened.
        turn_limit: Tokens a turn may have. A last turn that is as long was most likely cut off
            itself; 0 looks only at why the episode ended.
    """
    if trace.stop in CUT_OFF:
        return True
    last = len(trace.nodes[trace.turns[-1]].token_ids) if trace.turns else 0
    return 0 < turn_limit <= last


def turn_rewards(
    episode: Episode, estimates: Mapping[str, Estimates], beta: float
) -> tuple[float, ...]:
    """What each turn earned, less what it pays for leaving the base model.

    An episode scored only as a whole earned its score on its last turn.
    """
    turns = len(episode.trace.turns)
    values = episode.score.turn_values
    total = episode.score.value
    assert total is not None
    if not turns:
        return ()  # nothing was sampled, so there is nothing to credit
    if not values:
        values = (0.0,) * turns
    if len(values) != turns:
        raise ValueError(
            f"trace {episode.trace.id!r} has {turns} turns but {len(values)} turn values"
        )
    rest = total - sum(values)  # components that are not paid by the turn belong to the last one
    earned = (*values[:-1], values[-1] + rest)
    paid = token_penalties(episode.trace, estimates, beta)
    return tuple(reward - float(p.sum()) for reward, p in zip(earned, paid, strict=True))


def whole_reward(episode: Episode, estimates: Mapping[str, Estimates], beta: float) -> float:
    """What the episode earned, less what all of its tokens pay."""
    total = episode.score.value
    assert total is not None
    return total - sum(float(p.sum()) for p in token_penalties(episode.trace, estimates, beta))


def token_penalties(
    trace: Trace, estimates: Mapping[str, Estimates], beta: float
) -> tuple[Precise, ...]:
    """What each loss token of each turn pays: beta * (logp - logp_base)."""
    lengths = loss_lengths(trace)
    if not beta or not any(lengths):
        return tuple(np.zeros(n) for n in lengths)
    found = estimates[trace.id]
    return tuple(
        beta * (own.astype(np.float64) - base)
        for own, base in zip(found.logprobs, found.base_logprobs, strict=True)
    )


def penalties_to_go(penalties: Sequence[Precise], discount: float) -> tuple[Precise, ...]:
    """What each token and those after it pay; what a later turn pays counts `discount` of it.

    >>> [p.tolist() for p in penalties_to_go([np.array([1.0, 2.0]), np.array([4.0])], 0.5)]
    [[5.0, 4.0], [4.0]]
    """
    after = 0.0
    found: list[Precise] = []
    for turn in reversed(penalties):
        found.append(np.cumsum(turn[::-1])[::-1] + discount * after)
        after = float(turn.sum()) + discount * after
    return tuple(reversed(found))


def loss_lengths(trace: Trace) -> tuple[int, ...]:
    """How many tokens of each turn carry loss."""
    spans = (trace.nodes[turn].sampled for turn in trace.turns)
    return tuple(sum(span.loss_mask) for span in spans if span is not None)


def by_turn(trace: Trace, estimated: tuple[Floats, ...]) -> tuple[Floats, ...]:
    """An estimate's array for each turn; nobody is asked about episodes without a loss token."""
    return estimated or tuple(np.zeros(0, np.float32) for _ in trace.turns)


def sampler_logprobs(trace: Trace) -> tuple[Floats, ...]:
    """The sampler's log-probabilities of each turn's loss tokens, before top-k and top-p."""
    found = []
    for turn in trace.turns:
        span = trace.nodes[turn].sampled
        assert span is not None
        logprobs = np.asarray(span.logprobs, np.float32)
        if span.log_kept:
            logprobs = logprobs + np.asarray(span.log_kept, np.float32)
        found.append(logprobs[np.asarray(span.loss_mask, np.bool_)])
    return tuple(found)


def group_credit(
    group: Group,
    estimates: Mapping[str, Estimates],
    *,
    credit_by: CreditBy,
    discount: float,
    scale: Scale,
    kl_in_reward: float,
) -> list[TurnCredit]:
    """For each usable episode of a group, how each turn compares with the others'."""
    episodes = group.usable
    if credit_by == "episode":
        values = tuple(whole_reward(e, estimates, kl_in_reward) for e in episodes)
        per_episode = episode_advantages(values, scale)
        return [(a,) * len(e.trace.turns) for a, e in zip(per_episode, episodes, strict=True)]
    rewards = [turn_rewards(e, estimates, kl_in_reward) for e in episodes]
    returns = [returns_to_go(r, discount) for r in rewards]
    return turn_advantages(returns, [_states(e.trace) for e in episodes], scale)


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
    wholes = [values[0] for values in returns if values]
    whole = float(np.std(wholes, ddof=1)) if len(wholes) > 1 else 0.0
    turns = np.asarray([a for row in centred for a in row])
    own = float(np.sqrt(np.mean(turns**2))) if turns.size else 0.0
    return max(whole, own) + STD_FLOOR


def _states(trace: Trace) -> tuple[Hashable, ...]:
    """Where each turn was taken from: the tokens before it."""
    return tuple(
        trace.token_ids(parent) if (parent := trace.nodes[turn].parent) is not None else ()
        for turn in trace.turns
    )


def normalise(
    groups: Sequence[Sequence[Sequence[Precise]]],
) -> list[list[tuple[Floats, ...]]]:
    """Advantages with mean 0 and standard deviation 1 over all tokens of the step.

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
