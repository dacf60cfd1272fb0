"""Several rewards with weights, as one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from practicum.core.interfaces import Reward
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace

__all__ = ["CompositeReward", "RewardPart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPart:
    """One reward of several."""

    label: str
    """Its key among the components."""
    reward: Reward
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeReward:
    """The weighted sum of its parts; each stays visible as a component of the score.

    A part that could not be scored leaves the whole unscored, with that part's reason.

    >>> import asyncio
    >>> from practicum.rewards.function import FunctionReward
    >>> good = RewardPart(label="good", reward=FunctionReward(name="x", function=lambda *_: 1.0))
    >>> slow = FunctionReward(name="y", function=lambda *_: 0.5)
    >>> reward = CompositeReward(parts=(good, RewardPart(label="slow", reward=slow, weight=-0.2)))
    >>> nothing = Trace(id="t", task_id="a", env="math")
    >>> task = Task(id="a", env="math", split="train")
    >>> asyncio.run(reward.score(task, nothing, Outcome(success=True))).value
    0.9
    """

    parts: tuple[RewardPart, ...]
    judged_later: tuple[tuple[str, float], ...] = ()
    """Labels and weights of parts that are scored once the whole group is there; until then the
    score has no value."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """The components of every part, under its label."""
        found = [await part.reward.score(task, trace, outcome) for part in self.parts]
        values = {
            part.label: _finite(score.value) for part, score in zip(self.parts, found, strict=True)
        }
        later: dict[str, float | None] = {label: None for label, _ in self.judged_later}
        weights = {part.label: part.weight for part in self.parts} | dict(self.judged_later)
        return Score(
            components={**values, **later},
            weights=weights,
            turn_values=self._turn_values(found),
            reason="; ".join(
                f"{part.label}: {score.reason}"
                for part, score in zip(self.parts, found, strict=True)
                if score.reason
            ),
        )

    def _turn_values(self, found: Sequence[Score]) -> tuple[float, ...]:
        """What turns were paid, by weight. What is paid for the whole belongs to no turn."""
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
