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
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from practicum.analysis.alarms import Alarm
from practicum.analysis.idle_steps import why_all_alike
from practicum.core.checkpoint import Checkpoint, EvalReport, LoopState, other_policy
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import CheckpointError, EpisodesFailed, FolderMoved, PracticumError
from practicum.core.interfaces import Curriculum, Learner, Sampler, TraceStore, UpdateReport
from practicum.core.interrupted import INTERRUPTED
from practicum.core.sample import Episode
from practicum.core.task import JSON, Task
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import EventLog, read_metrics
from practicum.training.overlapped_steps import OverlappedSteps
from practicum.training.recovery import (
    MOST_RECOVERIES,
    RECOVERY,
    RunGuard,
    describe_recovery,
    eased,
)
from practicum.training.stages import StepFailed, StepResult, TrainingStage, stage_at
from practicum.training.warm_start import may_end

T = TypeVar("T")

STATE_FILE = "state.json"
STATS_FILE = "training_stats.json"

MAX_SKIPPED_UPDATES = 3
"""Consecutive updates with a non-finite loss or gradient after which the run stops."""

STDERR = 2
SHOW_CURSOR = b"\x1b[?25h"
"""Escape sequence: a progress bar may have hidden the cursor."""


class TrainingObserver(Protocol):
    """Callbacks for progress, such as a progress bar."""

    def step_started(self, step: int, episodes: int) -> None:
        """A step starts, with about this many episodes."""

    def episode_done(self, episode: Episode) -> None:
        """An episode has ended; again where its group's reward leaves it without a score."""

    def step_done(self, step: int, metrics: dict[str, JSON]) -> None:
        """A step is complete and recorded."""

    def evaluation_started(self, step: int, episodes: int) -> None:
        """An evaluation of this many episodes starts."""

    def evaluated(self, step: int, report: EvalReport) -> None:
        """An evaluation is complete and recorded."""

    def warned(self, sentence: str) -> None:
        """A warning for the user."""


EndImitation = Callable[[int], Awaitable[tuple[RunConfig, Sequence[TrainingStage]] | None]]
"""Given the number of completed steps: the run's config and stages from now on, if they change."""


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
    end_imitation: EndImitation | None = None
    """Asked after some steps of a warm start whether practice begins; None without tasks."""


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
        self._stages = [eased(stage, state.recoveries) for stage in parts.stages]
        is_saved = state.step in parts.checkpoints.steps()
        self._saved_step = state.step if state.step or is_saved else -1
        self._skipped = 0
        self._is_learning = False
        self._last_metrics: dict[str, JSON] = {}
        self._last_rewards: list[JSON] = []
        self._reports = dict(parts.earlier_reports)
        rows = read_metrics(parts.metrics.path).rows
        self._guard = RunGuard([r for r in rows if r.step <= state.step], self._reports)

    async def run(self) -> TrainingResult:
        """Train to the last step, or until the user interrupts."""
        gate = InterruptGate()
        with gate.listening():
            try:
                interrupted = await self._train(gate)
            except (FolderMoved, CheckpointError, OSError):
                self._follow_folder()
                raise
            finally:
                for source in self._overlapped:
                    await source.close()
        return TrainingResult(state=self._state, interrupted=interrupted, reports=self._reports)

    async def _train(self, gate: "InterruptGate") -> bool:
        """Whether the user interrupted it; what is done is saved then too."""
        try:
            self._refuse_to_go_on()
            if self._config.on_collapse == "recover" and self._state.step == 0:
                self._save()  # so that there is always something to go back to
            self._mark_best()  # a kill just after an evaluation would have skipped it
            await self._end_imitation_if_learned(gate)  # the same
            await self._evaluate_if_due(gate)
            while self._state.step < self._config.steps:
                await self._step(gate)
                await self._end_imitation_if_learned(gate)
                self._save_if_due()
                await self._evaluate_if_due(gate)
        except EpisodesFailed as failed:
            run = self._parts.checkpoints.run
            raise EpisodesFailed(
                f"{failed}; the episodes are kept: practicum traces list --store {run}"
            ) from failed
        except Interrupted:
            self._save()
            return True
        except asyncio.CancelledError:  # a notebook's cell was interrupted
            if not self._is_learning:  # else the weights may be those of no step
                self._save()
            raise
        return False

    async def _step(self, gate: "InterruptGate") -> None:
        """One step; an interrupt comes before its update or after all of it is recorded."""
        step = self._state.step + 1
        stage = stage_at(self._stages, step)
        self._parts.observer.step_started(step, stage.source.episodes_expected)
        material = await gate.through(stage.source.gather(step))
        await to_its_end(self._learn(stage, step, material))

    async def _learn(self, stage: TrainingStage, step: int, material: Any) -> None:
        """Update and record the step; `_state` then describes the weights again."""
        parts, self._is_learning = self._parts, True
        curriculum_state = parts.curriculum.state()
        if step == stage.first:
            parts.learner.retune(stage.settings)
        parts.learner.scale_rate(stage.rate_share(step - stage.first, stage.steps))
        try:
            learned = stage.source.learn(step, material)
            result = learned if isinstance(learned, StepResult) else await learned
        except StepFailed as failed:
            self._keep(failed.episodes, failed.tasks, step)
            raise
        metrics = {"stage": stage.name, **result.metrics}
        if self._config.on_collapse == "recover" or self._state.recoveries:
            metrics["recoveries"] = self._state.recoveries
        self._keep(result.episodes, result.tasks, step)
        parts.metrics.append("step", step=step, values=metrics)
        totals = _add_totals(self._state.totals, metrics)
        self._state = replace(self._state, step=step, curriculum=curriculum_state, totals=totals)
        self._is_learning = False
        if result.report is not None and result.report.memory_notice:
            parts.observer.warned(f"step {step}: {result.report.memory_notice}")
        self._count_skipped(result.report)
        parts.observer.step_done(step, metrics)
        if step == stage.first and (alike := why_all_alike(metrics)):
            parts.observer.warned(f"step {step}: {alike}")
        self._last_metrics = metrics
        self._last_rewards = [e.score.value for e in result.episodes if e.is_usable]
        parts.metrics.check_place()
        await self._mind_alarms(self._guard.observe(step, metrics))

    def _keep(self, episodes: Sequence[Episode], tasks: Sequence[Task], step: int) -> None:
        attempt = self._parts.metrics.attempt
        self._parts.traces.add_many(
            episodes, attempt=attempt, step=step, purpose="train", tasks=tasks
        )

    async def _end_imitation_if_learned(self, gate: "InterruptGate") -> None:
        """Go over to practice as soon as a warm start has taught enough."""
        step, end, warm = self._state.step, self._parts.end_imitation, self._config.warm_start
        if end is None or not warm.until or not may_end(warm, step):
            return
        self._parts.sampler.forget()
        if (changed := await gate.through(end(step))) is not None:
            self._config, stages = changed
            self._parts = replace(self._parts, config=self._config, stages=stages)
            self._stages = [eased(stage, self._state.recoveries) for stage in stages]

    async def _mind_alarms(self, alarms: Sequence[Alarm]) -> None:
        """Tell the alarms that begin with this step, and do what `on_collapse` says."""
        for alarm in alarms:
            self._parts.observer.warned(f"step {alarm.step}: {alarm.text}")
        if alarms and self._config.on_collapse == "recover":
            await self._go_back(min(alarm.since for alarm in alarms))
        elif alarms and self._config.on_collapse == "stop":
            self._save()
            self._refuse_to_go_on()

    def _refuse_to_go_on(self) -> None:
        """End a run that `on_collapse` ends here, also where it is resumed as it is."""
        mode, state, told = self._config.on_collapse, self._state, self._guard.told
        if mode == "stop" and told and told[0].step == state.step:
            why = f"it stopped after step {state.step}, where {told[0].text}"
        elif mode == "recover" and state.recoveries > MOST_RECOVERIES:
            why = (
                f"it collapsed again after {MOST_RECOVERIES} recoveries and stopped after step "
                f"{state.step} with the weights of its last good checkpoint"
            )
        else:
            return
        run = self._parts.checkpoints.run
        raise PracticumError(
            f"{run} is saved; {why}; to go on all the same, type: practicum train --resume {run} "
            "on_collapse=warn"
        )

    async def _go_back(self, since: int) -> None:
        """Go on from the best checkpoint of before the step `since`, more carefully."""
        parts, step, recoveries = self._parts, self._state.step, self._state.recoveries + 1
        good = self._guard.best_before(self._due_checkpoints(), since)
        if good is None:
            self._save()
            raise PracticumError(
                f"no checkpoint of before step {since} is left to go back to; step {step} is "
                "saved; start another run with a lower checkpoints.every"
            )
        for source in self._overlapped:
            await source.close()
        self._stages = [eased(stage, recoveries) for stage in parts.stages]
        here, there = stage_at(self._stages, step), stage_at(self._stages, good)
        parts.learner.retune(there.settings)
        saved = restore(parts.checkpoints.load(good), parts.learner, parts.curriculum)
        if there is not here:
            parts.learner.retune(here.settings)  # as where its stage began
        self._state = replace(self._state, curriculum=saved.curriculum, recoveries=recoveries)
        text = describe_recovery(good, recoveries)
        values: dict[str, JSON] = {"since": since, "to": good, "text": text}
        parts.metrics.append(RECOVERY, step=step, values=values)
        self._guard.abandon(since, step)
        parts.observer.warned(f"step {step}: {text}")
        if recoveries > MOST_RECOVERIES:
            self._save()
            self._refuse_to_go_on()

    def _due_checkpoints(self) -> list[int]:
        """Saved steps, less those that only an interruption has saved."""
        return [step for step in self._parts.checkpoints.steps() if self._is_due(step)]

    @property
    def _overlapped(self) -> list[OverlappedSteps]:
        """Sources that may have episodes in flight between two steps."""
        return [s.source for s in self._stages if isinstance(s.source, OverlappedSteps)]

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
        if step in self._reports or self._parts.evaluate is None:
            return False
        if step == 0:
            return self._config.eval.before
        return self._ends_stage_or_period(step)

    def _ends_stage_or_period(self, step: int) -> bool:
        every = self._config.eval.every
        ends_stage = any(step == stage.last for stage in self._parts.stages)
        return ends_stage or bool(every and step % every == 0)

    def _is_due(self, step: int) -> bool:
        """Whether a step is saved by itself, whoever interrupts the run."""
        is_evaluated = self._parts.evaluate is not None and self._ends_stage_or_period(step)
        return is_evaluated or step % self._config.checkpoints.every == 0

    async def _evaluate_if_due(self, gate: "InterruptGate") -> None:
        step, evaluate = self._state.step, self._parts.evaluate
        if evaluate is None or not self._is_evaluation_step(step):
            return
        if not any(source.is_under_way for source in self._overlapped):
            self._parts.sampler.forget()
        self._parts.observer.evaluation_started(step, self._config.eval.n * self._config.eval.k)
        report = await gate.through(evaluate(step))
        self._reports[step] = report
        self._guard.evaluated(step, report)
        self._mark_best()
        self._parts.observer.evaluated(step, report)

    def _mark_best(self) -> None:
        """Mark the best of the evaluated steps that have a checkpoint."""
        saved = set(self._parts.checkpoints.steps())
        reports = {step: report for step, report in self._reports.items() if step in saved}
        if reports:
            self._parts.checkpoints.mark_best(best_step(reports))

    def _follow_folder(self) -> None:
        """Where the run's folder was moved away: save the last step there, and say so."""
        try:
            self._parts.metrics.check_place()
        except FolderMoved as moved:
            if moved.now is not None and not self._is_learning and not self._is_saved:
                store = self._parts.checkpoints.at(moved.now)
                self._parts = replace(self._parts, checkpoints=store)
                self._write_checkpoint()
            raise moved from None

    def _save_if_due(self) -> None:
        step = self._state.step
        is_last = step == self._config.steps
        if is_last or step % self._config.checkpoints.every == 0 or self._is_evaluation_step(step):
            self._save()

    @property
    def _is_saved(self) -> bool:
        is_recovering = self._config.on_collapse == "recover"
        return self._state.step == self._saved_step or (self._state.step == 0 and not is_recovering)

    def _save(self) -> None:
        if not self._is_saved:
            self._parts.metrics.check_place()
            self._write_checkpoint()
            self._parts.metrics.check_place()  # else it may be in a folder that took the name
            self._saved_step = self._state.step

    def _write_checkpoint(self) -> None:
        self._parts.metrics.sync()
        stats: dict[str, JSON] = {"step": self._state.step, "totals": dict(self._state.totals)}
        if self._last_rewards:
            stats["rewards"] = self._last_rewards
            stats["accuracy"] = self._last_metrics["success"]
        stats["last_step"] = self._last_metrics
        is_recovering = self._config.on_collapse == "recover"
        save(
            self._parts.checkpoints,
            self._parts.learner,
            self._state,
            stats,
            keep=self._config.checkpoints.keep,
            protect=self._kept_for_recovery() if is_recovering else frozenset(),
        )

    def _kept_for_recovery(self) -> Set[int]:
        step = self._state.step
        stage_start = stage_at(self._stages, step).first - 1
        return self._guard.kept(self._due_checkpoints(), step, stage_start)


def best_step(reports: Mapping[int, EvalReport]) -> int:
    """The step with the highest lower bound of success, then mean reward, then step.

    Of mean reward where success is unknown.
    """
    return max(reports, key=lambda s: (reports[s].decisive[1].low, reports[s].reward.value, s))


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
    protect: Set[int] = frozenset(),
) -> Checkpoint:
    """Write the checkpoint of step `state.step`; `keep` and `protect` as in `CheckpointStore`."""

    def write(folder: Path) -> None:
        learner.save(folder)
        (folder / STATE_FILE).write_text(json.dumps(asdict(state), indent=2))
        (folder / STATS_FILE).write_text(json.dumps(stats, indent=2))

    return store.save(
        state.step, write, fingerprint=learner.fingerprint(), keep=keep, protect=protect
    )


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
    if why := other_policy(checkpoint.fingerprint, learner.fingerprint()):
        raise CheckpointError(
            f"{checkpoint.path} was saved with weights {checkpoint.fingerprint} but gives "
            f"{learner.fingerprint()}: {why}; use the model and the lora settings it was saved with"
        )
    state = read_state(checkpoint.path)
    curriculum.restore(state.curriculum)
    return state


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end; if this is cancelled meanwhile, raise that only then."""
    job = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not job.done():
        try:
            await asyncio.wait([job])
        except asyncio.CancelledError as error:
            cancelled = error
    result = job.result()
    if cancelled is not None:
        raise cancelled
    return result


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
