"""Combining rewards: a weighted sum, normalisation within a group, one after another."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev

from practicum.core.interfaces import GroupReward, Reward
from practicum.core.sample import Episode, Group
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardByEnvironment:
    """Each task's score is that of its own environment's reward."""

    rewards: Mapping[str, Reward]

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """The score by the reward of the task's environment."""
        return await self.rewards[task.env].score(task, trace, outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPart:
    """One component of a `CompositeReward`."""

    label: str
    """Its key in `Score.components`."""
    reward: Reward
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeReward:
    """The weighted sum of its parts, each of them a component of the score.

    A part that cannot be scored leaves the whole unscored, with that part's reason; unless it is
    their mean by weight, which is that of the others.

    >>> import asyncio
    >>> from practicum.rewards.verifiable import FunctionReward
    >>> good = RewardPart(label="good", reward=FunctionReward(name="x", function=lambda *_: 1.0))
    >>> slow = FunctionReward(name="y", function=lambda *_: 0.5)
    >>> reward = CompositeReward(parts=(good, RewardPart(label="slow", reward=slow, weight=-0.2)))
    >>> nothing = Trace(id="t", task_id="a", env="math")
    >>> task = Task(id="a", env="math", split="train")
    >>> asyncio.run(reward.score(task, nothing, Outcome(success=True))).value
    0.9
    """

    parts: tuple[RewardPart, ...]
    is_mean: bool = False
    judged_later: tuple[tuple[str, float], ...] = ()
    """Labels and weights of the parts that a `GroupReward` scores later; None until then."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """The components of every part, under its label."""
        found = [await part.reward.score(task, trace, outcome) for part in self.parts]
        values = {
            part.label: _finite(score.value) for part, score in zip(self.parts, found, strict=True)
        }
        later: dict[str, float | None] = {label: None for label, _ in self.judged_later}
        weights = {part.label: part.weight for part in self.parts} | dict(self.judged_later)
        if self.is_mean:
            values = {label: value for label, value in values.items() if value is not None}
            total = sum(weights[label] for label in values)
            weights = {label: weights[label] / total for label in values} if total else {}
        if not values and not later:
            return Score.unscored("no part of the reward can say anything")
        return Score(
            components={**values, **later},
            weights=weights,
            turn_values=() if self.is_mean else self._turn_values(found),
            reason="; ".join(
                f"{part.label}: {score.reason}"
                for part, score in zip(self.parts, found, strict=True)
                if score.reason
            ),
        )

    def _turn_values(self, found: Sequence[Score]) -> tuple[float, ...]:
        """The weighted sum of the parts' turn values, where they have any."""
        paid = [
            tuple(part.weight * value for value in score.turn_values)
            for part, score in zip(self.parts, found, strict=True)
            if score.turn_values
        ]
        if not paid or any(len(values) != len(paid[0]) for values in paid):
            return ()
        return tuple(sum(values) for values in zip(*paid, strict=True))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


FLAT = 1e-9
"""Standard deviation below which values count as equal: rounding errors stay below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalisedComponents:
    """Divides each component's weight by the component's standard deviation (n - 1) in the group.

    Components themselves do not change; one that is equal for all episodes gets weight 0. Turn
    values are scaled like `turns`, the component they sum to. A group with fewer than two usable
    episodes stays unchanged.
    """

    turns: str = ""

    async def rescore(self, group: Group) -> Group:
        """The group with new weights."""
        usable = group.usable
        if len(usable) < 2:
            return group
        labels = list(usable[0].score.components)
        scale = {label: _inverse_spread(usable, label) for label in labels}
        episodes = [self._scaled(e, scale) if e.is_usable else e for e in group.episodes]
        return replace(group, episodes=tuple(episodes))

    def _scaled(self, episode: Episode, scale: Mapping[str, float]) -> Episode:
        score = episode.score
        weights = {
            label: score.weights.get(label, 1.0) * scale.get(label, 0.0)
            for label in score.components
        }
        by_turn = scale.get(self.turns, 0.0)
        turn_values = tuple(value * by_turn for value in score.turn_values) if by_turn else ()
        return replace(episode, score=replace(score, weights=weights, turn_values=turn_values))


def _inverse_spread(episodes: Sequence[Episode], label: str) -> float:
    values = [v for e in episodes if (v := e.score.components.get(label)) is not None]
    spread = stdev(values) if len(values) > 1 else 0.0
    return 1.0 / spread if spread > FLAT else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InOrder:
    """Applies several group rewards one after another."""

    rewards: tuple[GroupReward, ...]

    async def rescore(self, group: Group) -> Group:
        """See `GroupReward`."""
        for reward in self.rewards:
            group = await reward.rescore(group)
        return group
