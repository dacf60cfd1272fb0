"""What a run goes through: stages of steps, each with its own method and its own material."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from practicum.core.interfaces import UpdateReport
from practicum.core.sample import Episode
from practicum.core.task import JSON, Task

__all__ = ["StepResult", "StepSource", "TrainingStage", "stage_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What learning from one step's material came to."""

    report: UpdateReport | None
    """None when there was nothing to learn from."""
    metrics: dict[str, JSON]
    episodes: tuple[Episode, ...] = ()
    """Those that were made in the step, to be kept."""
    tasks: tuple[Task, ...] = field(default=())


class StepSource(Protocol):
    """Where the material of a stage's steps comes from, and how it is learned from."""

    @property
    def episodes_expected(self) -> int:
        """About how many episodes a step makes; 0 when it makes none."""
        ...

    async def gather(self, step: int) -> Any:
        """The material of a step, counted over the whole run from 1. May be cancelled."""
        ...

    def learn(self, step: int, material: Any) -> StepResult | Awaitable[StepResult]:
        """Update the weights from it, at once or beside the event loop."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStage:
    """One method for a number of steps."""

    name: str
    first: int
    """Its first step, counted over the whole run from 1."""
    steps: int
    source: StepSource
    settings: Any
    """What the learner is tuned to when the stage begins."""

    @property
    def last(self) -> int:
        """Its last step."""
        return self.first + self.steps - 1


def stage_at(stages: Sequence[TrainingStage], step: int) -> TrainingStage:
    """The stage that a step belongs to; the last one for steps beyond all of them."""
    return next((stage for stage in stages if step <= stage.last), stages[-1])
