"""The score that an agent gave its own work, such as a function of the user's."""

from collections.abc import Mapping
from dataclasses import dataclass

from practicum.core.interfaces import Reward
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Trace
from practicum.core.working import REPORTED

__all__ = ["ReportedScore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedScore:
    """Reads the score from the evidence, and asks another reward where there is none."""

    otherwise: Reward

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """What was reported."""
        said = outcome.evidence.get(REPORTED)
        if not isinstance(said, Mapping):
            return await self.otherwise.score(task, trace, outcome)
        components = said.get("components")
        if not components:
            return Score.unscored("the agent's report names no component")
        weights = said.get("weights")
        turn_values = said.get("turn_values")
        return Score(
            components=_numbers(components),
            weights={k: v for k, v in _numbers(weights).items() if v is not None},
            turn_values=tuple(
                float(v)
                for v in (turn_values if isinstance(turn_values, list) else ())
                if isinstance(v, int | float)
            ),
            reason=str(said.get("reason") or ""),
        )


def _numbers(value: JSON) -> dict[str, float | None]:
    if not isinstance(value, Mapping):
        return {}
    return {
        name: float(number) if isinstance(number, int | float) else None
        for name, number in value.items()
    }
