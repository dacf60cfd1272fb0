"""What `on_collapse: recover` does: which checkpoint was good, and how training goes on from it.

Steps are counted on, never back: the run takes weights, optimizer and curriculum of an earlier step
and goes on with the next number. So nothing that was recorded has to be taken back, and the run
ends after the steps that it was given. How training goes on follows from `LoopState.recoveries`
alone, so a killed run resumes with the same settings.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from practicum.agents.rollout import warmed
from practicum.analysis.alarms import Alarm, AlarmWatch
from practicum.core.checkpoint import EvalReport
from practicum.core.task import JSON
from practicum.store.events import EventRow
from practicum.training.overlapped_steps import OverlappedSteps
from practicum.training.rollout_steps import RolloutSteps
from practicum.training.stages import TrainingStage

MOST_RECOVERIES = 3
"""Times that a run goes back and tries again; at the next alarm it goes back and stops."""
RATE_FACTOR = 0.5
"""What each recovery multiplies the learning rate by."""
TEMPERATURE_FACTOR = 1.15
"""What each recovery multiplies the temperature of rollouts by."""
LOOKED_BACK = 24
"""Steps that the first sign of a collapse may lie back when it is told; all checkpoints of so many
steps are kept, and the best one of those before."""

ALIKE = 0.5
"""Difference of mean task levels up to which the success at two checkpoints can be compared."""

RECOVERY = "recovery"
"""Kind of the row in `metrics.jsonl` that says where a run went back."""


class RunGuard:
    """Watches the steps of a run for alarms, and knows which of its checkpoints are good.

    Args:
        rows: What counts of the run's metrics, where it goes on.
        reports: Its evaluations so far, by step.
    """

    def __init__(self, rows: Sequence[EventRow], reports: Mapping[int, EvalReport]) -> None:
        self._watch = AlarmWatch()
        self._results: dict[int, float] = {}
        self._levels: dict[int, float] = {}
        self._abandoned: set[int] = set()
        self.told: list[Alarm] = []
        """The alarms that began with the last step."""
        for row in sorted(rows, key=lambda row: (row.step, row.kind == RECOVERY)):
            if row.kind == RECOVERY:
                self.abandon(int(_number(row.values["since"])), row.step)
            elif row.kind == "step":
                if row.step - 1 in reports:
                    self.evaluated(row.step - 1, reports[row.step - 1])
                self.observe(row.step, row.values)

    def evaluated(self, step: int, report: EvalReport) -> None:
        """Take a held-out evaluation after `step` steps."""
        if report.success is not None:
            self._watch.evaluated(step, report.success.value, report.success.n)

    def observe(self, step: int, metrics: Mapping[str, JSON]) -> list[Alarm]:
        """Take a step; the alarms that begin with it."""
        result = metrics.get("success")
        result = metrics.get("reward") if result is None else result
        if result is not None:
            self._results[step] = _number(result)
            self._levels[step] = _number(metrics.get("mean_level") or 0.0)
        self.told = self._watch.observe(step, metrics)
        return self.told

    def abandon(self, since: int, step: int) -> None:
        """The run goes back at `step` from what began at `since`; that is not gone back to."""
        self._abandoned |= set(range(since, step))

    def best_before(self, saved: Iterable[int], before: int) -> int | None:
        """The checkpoint to go back to: the most success, then the newest.

        Only among those whose tasks were about as hard as the newest one's: a curriculum that has
        moved on is not sent back to where tasks were easy.

        Args:
            saved: Steps that have a checkpoint.
            before: The first step that is suspect.
        """
        known = {
            step: (found, step)
            for step in saved
            if step < before and step not in self._abandoned
            if (found := self._near(step, self._results)) is not None
        }
        if not known:
            return None
        level = self._near(max(known), self._levels) or 0.0
        alike = [s for s in known if abs((self._near(s, self._levels) or 0.0) - level) <= ALIKE]
        return max(alike, key=known.__getitem__)

    def kept(self, saved: Iterable[int], step: int, stage_start: int) -> frozenset[int]:
        """The checkpoints that a later alarm may go back to, which must not be removed."""
        steps = sorted(saved)
        best = self.best_before(steps, step - LOOKED_BACK)
        newer = {s for s in steps if s >= step - LOOKED_BACK or s == stage_start}
        return frozenset(newer if best is None else newer | {best})

    def _near(self, step: int, values: Mapping[int, float]) -> float | None:
        """The mean over the steps around one; the next step's episodes are of its weights."""
        near = [values[s] for s in (step - 1, step, step + 1) if s in values]
        return fmean(near) if near else None


def describe_recovery(good: int, recoveries: int) -> str:
    """What going back to the step `good` means, in a sentence without its full stop."""
    if recoveries > MOST_RECOVERIES:
        return f"back to the weights of step {good}, to stop there"
    return (
        f"back to the weights of step {good}, with the rate times {RATE_FACTOR**recoveries:.3g} "
        f"and the temperature times {TEMPERATURE_FACTOR**recoveries:.3g} "
        f"(recovery {recoveries} of at most {MOST_RECOVERIES})"
    )


def eased_settings(settings: Any, recoveries: int) -> Any:
    """A learner's settings after so many recoveries: every rate is lower, a value head's too."""
    if not recoveries:
        return settings
    share = RATE_FACTOR**recoveries
    value_lr = None if settings.value_lr is None else settings.value_lr * share
    return replace(settings, lr=settings.lr * share, value_lr=value_lr)


def eased(stage: TrainingStage, recoveries: int) -> TrainingStage:
    """A stage as it goes on after so many recoveries: a lower rate, warmer rollouts."""
    if not recoveries:
        return stage
    source, factor = stage.source, TEMPERATURE_FACTOR**recoveries
    if isinstance(source, RolloutSteps):
        source = replace(source, parts=warmed(source.parts, factor))
    elif isinstance(source, OverlappedSteps):
        steps = replace(source.steps, parts=warmed(source.steps.parts, factor))
        source = replace(source, steps=steps, _in_flight={}, _weights=None)
    return replace(stage, source=source, settings=eased_settings(stage.settings, recoveries))


def _number(value: JSON) -> float:
    assert isinstance(value, int | float)
    return float(value)
