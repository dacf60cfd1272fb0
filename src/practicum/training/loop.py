"""The loop: act, score, update, save, evaluate, again.

Each stage is a function over named types; this file only calls them in order. Components do not
know the loop, and the two closed circles (weights to the sampler, scores to the curriculum) run
through objects it was given.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from practicum.core.checkpoint import LoopState
from practicum.core.config import RunConfig
from practicum.core.errors import PolicyMismatch, PracticumError
from practicum.core.interfaces import (
    Algorithm,
    Curriculum,
    Learner,
    Sampler,
    TraceStore,
    UpdateReport,
)
from practicum.core.report import EvalReport
from practicum.core.sample import Batch, Episode, Group
from practicum.core.task import JSON, Task
from practicum.rollouts import RolloutParts, run_groups
from practicum.store import CheckpointStore, EventLog
from practicum.training import checkpointing
from practicum.training.collect import CollectedStep, collect_step
from practicum.training.crediting import credit_step, estimate, step_batches
from practicum.training.interrupt import Interrupted, InterruptGate
from practicum.training.step_metrics import rollout_metrics, update_metrics

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
    rollout: RolloutParts
    sampler: Sampler
    learner: Learner
    algorithm: Algorithm
    curriculum: Curriculum
    metrics: EventLog
    traces: TraceStore
    checkpoints: CheckpointStore
    evaluate: Callable[[int], Awaitable[EvalReport]]
    """Evaluates the policy as it is now; told the number of steps completed."""
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
        self._started = self._rolled_out = 0.0
        self._last_metrics: dict[str, JSON] = {}
        self._reports = dict(parts.earlier_reports)

    async def run(self) -> TrainingResult:
        """Train to the last step, or until the user interrupts."""
        gate = InterruptGate()
        with gate.listening():
            try:
                self._mark_best()  # an attempt killed just after an evaluation has not
                await self._evaluate_if_due(gate)
                while self._state.step < self._config.steps:
                    collected, curriculum_state = await self._collect(gate)
                    self._learn(collected, curriculum_state)
                    self._save_if_due()
                    await self._evaluate_if_due(gate)
            except Interrupted:
                self._save()
        return TrainingResult(state=self._state, interrupted=gate.asked, reports=self._reports)

    async def _collect(self, gate: InterruptGate) -> tuple[CollectedStep, dict[str, JSON]]:
        """Roll out one step. The state changes only once the step is complete."""
        parts, rollouts, step = self._parts, self._config.rollouts, self._state.step + 1
        self._started = time.monotonic()
        parts.observer.step_started(step, rollouts.tasks_per_step * rollouts.group_size)
        parts.sampler.forget()

        async def roll_out(tasks: list[Task], round_number: int) -> list[Group]:
            return await run_groups(
                parts.rollout,
                tasks,
                rollouts.group_size,
                label=f"train/{step}/{round_number}",
                seed=self._config.seed,
                on_episode=parts.observer.episode_done,
            )

        collected = await gate.through(
            collect_step(
                roll_out,
                parts.curriculum,
                parts.algorithm,
                tasks_per_step=rollouts.tasks_per_step,
                replace_share=rollouts.replace_flat_groups,
            )
        )
        self._rolled_out = time.monotonic()
        return collected, parts.curriculum.state()

    def _learn(self, collected: CollectedStep, curriculum_state: dict[str, JSON]) -> None:
        """Update from one step's episodes and record it."""
        parts, step = self._parts, self._state.step + 1
        check_any_usable(collected)
        check_sampled_by(parts.learner.fingerprint(), collected)
        batches = self._batches(collected.trained, step)
        report = parts.learner.update(batches, parts.algorithm) if batches else None
        metrics = {**rollout_metrics(collected), **(update_metrics(report) if report else {})}
        metrics["rollout_s"] = self._rolled_out - self._started
        metrics["update_s"] = time.monotonic() - self._rolled_out
        totals = _add(self._state.totals, metrics)
        parts.traces.add_many(
            [e for g in collected.groups for e in g.episodes],
            attempt=parts.metrics.attempt,
            step=step,
            purpose="train",
            tasks=[g.task for g in collected.groups],
        )
        parts.metrics.append("step", step=step, values=metrics)
        self._state = LoopState(step=step, curriculum=curriculum_state, totals=totals)
        self._count_skipped(report)
        parts.observer.step_done(step, metrics)
        self._last_metrics = metrics

    def _batches(self, groups: Sequence[Group], step: int) -> list[Batch]:
        """What the learner is given of a step's groups."""
        parts, rollouts = self._parts, self._config.rollouts
        budget_tokens = self._config.algorithm.micro_batch_tokens
        estimates = estimate(groups, parts.algorithm.credit_needs, parts.learner, budget_tokens)
        return step_batches(
            credit_step(groups, parts.algorithm, estimates),
            parts.algorithm,
            budget_tokens=budget_tokens,
            constant=rollouts.max_tokens,
            seed=(self._config.seed, step),
        )

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
        if step in self._reports:
            return False
        if step == 0:
            return config.before
        return step == self._config.steps or bool(config.every and step % config.every == 0)

    async def _evaluate_if_due(self, gate: InterruptGate) -> None:
        step = self._state.step
        if not self._is_evaluation_step(step):
            return
        self._parts.sampler.forget()
        self._parts.observer.evaluation_started(step, self._config.eval.n * self._config.eval.k)
        report = await gate.through(self._parts.evaluate(step))
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


def check_any_usable(collected: CollectedStep) -> None:
    """Stop a run in which nothing works any more, rather than go through its steps in vain."""
    episodes = [e for g in collected.groups for e in g.episodes]
    if any(e.is_usable for e in episodes):
        return
    first = episodes[0]
    reason = first.trace.failure.message if first.trace.failure else first.score.reason
    raise PracticumError(
        f"all {len(episodes)} episodes of the step failed or were not scored; the first: {reason}"
    )


def check_sampled_by(fingerprint: str, collected: CollectedStep) -> None:
    """Refuse episodes that other weights have sampled."""
    for group in collected.groups:
        for episode in group.episodes:
            foreign = episode.trace.fingerprints - {fingerprint}
            if foreign:
                raise PolicyMismatch(
                    f"episode {episode.trace.id} was sampled by weights {sorted(foreign)[0]} but "
                    f"the learner holds {fingerprint}: another or a stale adapter is being "
                    "sampled; nothing was updated"
                )


def _add(totals: object, metrics: dict[str, JSON]) -> dict[str, JSON]:
    before = dict(totals) if isinstance(totals, dict) else {}
    for key in ("episodes", "sampled_tokens", "rollout_s", "update_s"):
        before[key] = before.get(key, 0) + metrics[key]
    return before
