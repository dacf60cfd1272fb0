"""A stage (`TrainingStage`), who does the work of its steps (`StepSource`), what a step gives."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from practicum.core.errors import EpisodesFailed
from practicum.core.interfaces import UpdateReport
from practicum.core.sample import Episode
from practicum.core.task import JSON, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of one training step."""

    report: UpdateReport | None
    """None when no group was informative, so there was no update."""
    metrics: dict[str, JSON]
    episodes: tuple[Episode, ...] = ()
    """Episodes of the step, to be stored."""
    tasks: tuple[Task, ...] = field(default=())


class StepFailed(EpisodesFailed):
    """Every episode of a step failed; they are here, to be stored."""

    def __init__(self, told: str, episodes: Sequence[Episode], tasks: Sequence[Task]) -> None:
        super().__init__(told)
        self.episodes = episodes
        self.tasks = tasks


def update_metrics(report: UpdateReport) -> dict[str, JSON]:
    """Metrics of the update."""
    return {
        "applied": report.applied,
        "loss": report.loss,
        "grad_norm": report.grad_norm,
        "entropy": report.entropy,
        "clip_share": report.clip_share,
        "value_loss": report.value_loss,
        "kl_to_base": report.kl_to_base,
        "logprob_gap": report.logprob_gap,
        "largest_gap": report.largest_gap,
        "update_tokens": report.tokens,
        "row_tokens": report.row_tokens,
        "fingerprint": report.fingerprint,
        "out_of_memory": report.out_of_memory,
        "micro_batch_splits": report.micro_batch_splits,
        "gradient_checkpointing": report.gradient_checkpointing,
        **({} if report.truncated_share is None else {"truncated_share": report.truncated_share}),
    }


class StepSource(Protocol):
    """Gathers the training data of a step and updates the weights from it."""

    @property
    def episodes_expected(self) -> int:
        """About how many episodes a step rolls out; 0 for recorded examples."""

    async def gather(self, step: int) -> Any:
        """The data of a step (counted over the whole run, from 1). May be cancelled."""

    def learn(self, step: int, material: Any) -> StepResult | Awaitable[StepResult]:
        """Update the weights; an awaitable where the update runs beside the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStage:
    """One algorithm for a number of steps."""

    name: str
    first: int
    """Its first step, counted over the whole run from 1."""
    steps: int
    source: StepSource
    settings: Any
    """Passed to `Learner.retune` when the stage starts."""
    rate_share: Callable[[int, int], float] = lambda done, steps: 1.0
    """What the learning rate is multiplied by after so many of so many steps."""

    @property
    def last(self) -> int:
        """Its last step."""
        return self.first + self.steps - 1


def stage_at(stages: Sequence[TrainingStage], step: int) -> TrainingStage:
    """The stage that a step belongs to; the last one for steps beyond all of them."""
    return next((stage for stage in stages if step <= stage.last), stages[-1])
