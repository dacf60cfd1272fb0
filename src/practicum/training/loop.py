"""The loop: act, score, update, save, evaluate, again.

Each stage is a function over named types; this file only calls them in order. Components do not
know the loop, and the two closed circles (weights to the sampler, scores to the curriculum) run
through objects it was given.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from practicum.core.checkpoint import LoopState
from practicum.core.config import RunConfig
from practicum.core.errors import PracticumError
from practicum.core.interfaces import Curriculum, Learner, Sampler, TraceStore, UpdateReport
from practicum.core.report import EvalReport
from practicum.core.sample import Episode
from practicum.core.task import JSON
from practicum.store import CheckpointStore, EventLog
from practicum.training import checkpointing
from practicum.training.interrupt import Interrupted, InterruptGate
from practicum.training.overlapped_steps import OverlappedSteps
from practicum.training.stages import StepResult, TrainingStage, stage_at

__all__ = ["Trainer", "TrainingObserver", "TrainingParts", "TrainingResult"]

MAX_SKIPPED_UPDATES = 3
"""Updates in a row that may be refused for a non-finite loss or gradient before the run stops."""


class TrainingObserver(Protocol):
    """Told how the run goes on; a progress bar, usually."""

    def step_started(self, step: int, episodes: int) -> None:
        """A step begins and will roll out about this many episodes."""
        ...

    def episode_done(self, episode: Episode) -> None:
        """One more episode."""
        ...

    def step_done(self, step: int, metrics: dict[str, JSON]) -> None:
        """A step is complete and recorded."""
        ...

    def evaluation_started(self, step: int, episodes: int) -> None:
        """A held-out evaluation of this many episodes begins."""
        ...

    def evaluated(self, step: int, report: EvalReport) -> None:
        """A held-out evaluation is complete and recorded."""
        ...

    def warned(self, sentence: str) -> None:
        """Something the user should know, which does not stop the run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingParts:
    """What the loop works with."""

    config: RunConfig
    stages: Sequence[TrainingStage]
    sampler: Sampler
    learner: Learner
    curriculum: Curriculum
    metrics: EventLog
    traces: TraceStore
    checkpoints: CheckpointStore
    evaluate: Callable[[int], Awaitable[EvalReport]] | None
    """Evaluates the policy as it is now; told the number of steps completed. None where there are
    no tasks to evaluate it on."""
    earlier_reports: Mapping[int, EvalReport]
    """Evaluations that earlier attempts have recorded, by step."""
    observer: TrainingObserver


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """How the run ended."""

    state: LoopState
    interrupted: bool
    reports: dict[int, EvalReport] = field(default_factory=dict)


class Trainer:
    """Drives one attempt of a run from a state to its last step."""

    def __init__(self, parts: TrainingParts, state: LoopState) -> None:
        self._parts = parts
        self._config = parts.config
        self._state = state
        self._saved_step = state.step if state.step else -1
        self._skipped = 0
        self._last_metrics: dict[str, JSON] = {}
        self._last_rewards: list[JSON] = []
        self._reports = dict(parts.earlier_reports)

    async def run(self) -> TrainingResult:
        """Train to the last step, or until the user interrupts."""
        gate = InterruptGate()
        with gate.listening():
            try:
                self._mark_best()  # an attempt killed just after an evaluation has not
                await self._evaluate_if_due(gate)
                while self._state.step < self._config.steps:
                    await self._step(gate)
                    self._save_if_due()
                    await self._evaluate_if_due(gate)
            except Interrupted:
                self._save()
            finally:
                for source in self._overlapped:
                    await source.close()
        return TrainingResult(state=self._state, interrupted=gate.asked, reports=self._reports)

    async def _step(self, gate: InterruptGate) -> None:
        """One step. The state changes only once it is complete."""
        parts, step = self._parts, self._state.step + 1
        stage = stage_at(parts.stages, step)
        if step == stage.first:
            parts.learner.retune(stage.settings)
        parts.observer.step_started(step, stage.source.episodes_expected)
        material = await gate.through(stage.source.gather(step))
        curriculum_state = parts.curriculum.state()
        learned = stage.source.learn(step, material)
        result = learned if isinstance(learned, StepResult) else await learned
        metrics = {"stage": stage.name, **result.metrics}
        parts.traces.add_many(
            result.episodes,
            attempt=parts.metrics.attempt,
            step=step,
            purpose="train",
            tasks=result.tasks,
        )
        parts.metrics.append("step", step=step, values=metrics)
        totals = _add(self._state.totals, metrics)
        self._state = LoopState(step=step, curriculum=curriculum_state, totals=totals)
        self._count_skipped(result.report)
        parts.observer.step_done(step, metrics)
        self._last_metrics = metrics
        self._last_rewards = [e.score.value for e in result.episodes if e.is_usable]

    @property
    def _overlapped(self) -> list[OverlappedSteps]:
        """Sources that may have episodes under way between two steps."""
        return [s.source for s in self._parts.stages if isinstance(s.source, OverlappedSteps)]

    def _count_skipped(self, report: UpdateReport | None) -> None:
        if report is None:
            return
        self._skipped = 0 if report.applied else self._skipped + 1
        if self._skipped >= MAX_SKIPPED_UPDATES:
            self._save()
            raise PracticumError(
                f"{self._skipped} updates in a row had a loss or gradient that is not finite; the "
                "weights are those of before and are saved; start another run with a lower "
                "algorithm.lr"
            )

    def _is_evaluation_step(self, step: int) -> bool:
        config = self._config.eval
        if step in self._reports or self._parts.evaluate is None:
            return False
        if step == 0:
            return config.before
        ends_stage = any(step == stage.last for stage in self._parts.stages)
        return ends_stage or bool(config.every and step % config.every == 0)

    async def _evaluate_if_due(self, gate: InterruptGate) -> None:
        step, evaluate = self._state.step, self._parts.evaluate
        if evaluate is None or not self._is_evaluation_step(step):
            return
        if not any(source.is_under_way for source in self._overlapped):
            self._parts.sampler.forget()
        self._parts.observer.evaluation_started(step, self._config.eval.n * self._config.eval.k)
        report = await gate.through(evaluate(step))
        self._reports[step] = report
        self._mark_best()
        self._parts.observer.evaluated(step, report)

    def _mark_best(self) -> None:
        """Point to the best evaluated step that is saved."""
        saved = set(self._parts.checkpoints.steps())
        reports = {step: report for step, report in self._reports.items() if step in saved}
        if reports:
            self._parts.checkpoints.mark_best(best_step(reports))

    def _save_if_due(self) -> None:
        step = self._state.step
        is_last = step == self._config.steps
        if is_last or step % self._config.checkpoints.every == 0 or self._is_evaluation_step(step):
            self._save()

    def _save(self) -> None:
        if self._state.step == self._saved_step or self._state.step == 0:
            return
        self._parts.metrics.sync()
        stats: dict[str, JSON] = {"step": self._state.step, "totals": dict(self._state.totals)}
        if self._last_rewards:
            stats["rewards"] = self._last_rewards
            stats["accuracy"] = self._last_metrics["success"]
        stats["last_step"] = self._last_metrics
        checkpointing.save(
            self._parts.checkpoints,
            self._parts.learner,
            self._state,
            stats,
            keep=self._config.checkpoints.keep,
        )
        self._saved_step = self._state.step


def best_step(reports: Mapping[int, EvalReport]) -> int:
    """The step with the highest lower bound of success, then the highest mean reward."""
    return max(reports, key=lambda s: (reports[s].success.low, reports[s].reward.value, s))


def _add(totals: object, metrics: dict[str, JSON]) -> dict[str, JSON]:
    before = dict(totals) if isinstance(totals, dict) else {}
    for key in ("episodes", "sampled_tokens", "rollout_s", "update_s"):
        before[key] = before.get(key, 0) + metrics.get(key, 0)
    return before
