"""The training loop (`Trainer`): step, save, evaluate, repeat; checkpoints; Ctrl-C.

A step's work (rollouts, credit, update) is done by the stage's `StepSource`; this file only calls
it in order and records the results.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from practicum.core.checkpoint import Checkpoint, EvalReport, LoopState
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import CheckpointError, PracticumError
from practicum.core.interfaces import Curriculum, Learner, Sampler, TraceStore, UpdateReport
from practicum.core.sample import Episode
from practicum.core.task import JSON
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import EventLog
from practicum.training.overlapped_steps import OverlappedSteps
from practicum.training.stages import StepResult, TrainingStage, stage_at

T = TypeVar("T")

STATE_FILE = "state.json"
STATS_FILE = "training_stats.json"

MAX_SKIPPED_UPDATES = 3
"""Consecutive updates with a non-finite loss or gradient after which the run stops."""

INTERRUPTED = 128 + signal.SIGINT
"""Exit code by which shells know a process that Ctrl-C ended."""

STDERR = 2
SHOW_CURSOR = b"\x1b[?25h"
"""Escape sequence: a progress bar may have hidden the cursor."""


class TrainingObserver(Protocol):
    """Callbacks for progress, such as a progress bar."""

    def step_started(self, step: int, episodes: int) -> None:
        """A step starts, with about this many episodes."""

    def episode_done(self, episode: Episode) -> None:
        """An episode has ended."""

    def step_done(self, step: int, metrics: dict[str, JSON]) -> None:
        """A step is complete and recorded."""

    def evaluation_started(self, step: int, episodes: int) -> None:
        """An evaluation of this many episodes starts."""

    def evaluated(self, step: int, report: EvalReport) -> None:
        """An evaluation is complete and recorded."""

    def warned(self, sentence: str) -> None:
        """A warning for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingParts:
    """The objects a `Trainer` uses."""

    config: RunConfig
    stages: Sequence[TrainingStage]
    sampler: Sampler
    learner: Learner
    curriculum: Curriculum
    metrics: EventLog
    traces: TraceStore
    checkpoints: CheckpointStore
    evaluate: Callable[[int], Awaitable[EvalReport]] | None
    """Evaluates the current policy, given the number of completed steps; None without tasks."""
    earlier_reports: Mapping[int, EvalReport]
    """Evaluations recorded before the run was resumed, by step."""
    observer: TrainingObserver


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """How the run ended."""

    state: LoopState
    interrupted: bool
    reports: dict[int, EvalReport] = field(default_factory=dict)


class Trainer:
    """Runs the steps of a run, from a state to the last one."""

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
        gate, interrupted = InterruptGate(), False
        with gate.listening():
            try:
                self._mark_best()  # a kill just after an evaluation would have skipped it
                await self._evaluate_if_due(gate)
                while self._state.step < self._config.steps:
                    await self._step(gate)
                    self._save_if_due()
                    await self._evaluate_if_due(gate)
            except Interrupted:
                interrupted = True
                self._save()
            except asyncio.CancelledError:  # a notebook's cell was interrupted
                self._save()
                raise
            finally:
                for source in self._overlapped:
                    await source.close()
        return TrainingResult(state=self._state, interrupted=interrupted, reports=self._reports)

    async def _step(self, gate: "InterruptGate") -> None:
        """One step. `_state` changes only at its end, so an interrupt saves the step before."""
        parts, step = self._parts, self._state.step + 1
        stage = stage_at(parts.stages, step)
        if step == stage.first:
            parts.learner.retune(stage.settings)
        parts.learner.scale_rate(stage.rate_share(step - stage.first, stage.steps))
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
        totals = _add_totals(self._state.totals, metrics)
        self._state = LoopState(step=step, curriculum=curriculum_state, totals=totals)
        if result.report is not None and result.report.memory_notice:
            parts.observer.warned(f"step {step}: {result.report.memory_notice}")
        self._count_skipped(result.report)
        parts.observer.step_done(step, metrics)
        self._last_metrics = metrics
        self._last_rewards = [e.score.value for e in result.episodes if e.is_usable]

    @property
    def _overlapped(self) -> list[OverlappedSteps]:
        """Sources that may have episodes in flight between two steps."""
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

    async def _evaluate_if_due(self, gate: "InterruptGate") -> None:
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
        """Mark the best of the evaluated steps that have a checkpoint."""
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
        save(
            self._parts.checkpoints,
            self._parts.learner,
            self._state,
            stats,
            keep=self._config.checkpoints.keep,
        )
        self._saved_step = self._state.step


def best_step(reports: Mapping[int, EvalReport]) -> int:
    """The step with the highest lower bound of success, then mean reward, then step."""
    return max(reports, key=lambda s: (reports[s].success.low, reports[s].reward.value, s))


def _add_totals(totals: object, metrics: dict[str, JSON]) -> dict[str, JSON]:
    before = dict(totals) if isinstance(totals, dict) else {}
    for key in ("episodes", "sampled_tokens", "rollout_s", "update_s"):
        before[key] = before.get(key, 0) + metrics.get(key, 0)
    return before


def save(
    store: CheckpointStore,
    learner: Learner,
    state: LoopState,
    stats: Mapping[str, JSON],
    *,
    keep: int,
) -> Checkpoint:
    """Write the checkpoint of step `state.step`."""

    def write(folder: Path) -> None:
        learner.save(folder)
        (folder / STATE_FILE).write_text(json.dumps(asdict(state), indent=2))
        (folder / STATS_FILE).write_text(json.dumps(stats, indent=2))

    return store.save(state.step, write, fingerprint=learner.fingerprint(), keep=keep)


def read_state(folder: Path) -> LoopState:
    """The loop's state in a checkpoint."""
    try:
        return LoopState(**json.loads((folder / STATE_FILE).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{folder / STATE_FILE} cannot be read ({error}); resume from another checkpoint"
        ) from None


def restore(checkpoint: Checkpoint, learner: Learner, curriculum: Curriculum) -> LoopState:
    """Restore learner and curriculum; raises `CheckpointError` if the weights differ."""
    learner.load(checkpoint.path)
    if learner.fingerprint() != checkpoint.fingerprint:
        raise CheckpointError(
            f"{checkpoint.path} was saved with weights {checkpoint.fingerprint} but gives "
            f"{learner.fingerprint()}: the base model is not the one it was trained on"
        )
    state = read_state(checkpoint.path)
    curriculum.restore(state.curriculum)
    return state


class Interrupted(Exception):
    """The user asked the run to stop."""


class InterruptGate:
    """Turns a first Ctrl-C into `Interrupted` at the next await; a second ends the process."""

    def __init__(self) -> None:
        self.asked = False
        self._running: asyncio.Future[Any] | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle SIGINT within the block; in the main thread, since no other is told of it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()

        def on_sigint(number: int, frame: object) -> None:
            if self.asked:
                _leave()
            self.asked = True
            loop.call_soon_threadsafe(self._stop)

        # Not `loop.add_signal_handler`: that handler runs only when the event loop does, and the
        # loop is blocked while a strict step updates.
        before = signal.signal(signal.SIGINT, on_sigint)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def through(self, work: Awaitable[T]) -> T:
        """Await `work`; a first Ctrl-C cancels it and raises `Interrupted`."""
        if self.asked:
            if asyncio.iscoroutine(work):
                work.close()  # else Python warns that it was never awaited
            raise Interrupted
        job = asyncio.ensure_future(work)
        self._running = job
        try:
            return await job
        except asyncio.CancelledError:
            if self.asked:
                raise Interrupted from None
            raise
        finally:
            self._running = None


def _leave() -> None:
    """Exit at once; an interactive session gets a `KeyboardInterrupt` instead."""
    # An exception would wait for the thread that computes. Skipping cleanup is safe: files of a run
    # are complete at any moment, and sandboxes die with the process.
    if hasattr(sys, "ps1"):
        raise KeyboardInterrupt
    if os.isatty(STDERR):
        os.write(STDERR, SHOW_CURSOR)
    os._exit(INTERRUPTED)
