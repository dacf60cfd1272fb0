"""A run's folder, read while the run trains or afterwards. Nothing is written, nothing held.

A row of kind `eval` in `metrics.jsonl` says that an evaluation counts and what it found;
`evals/step_N.json` holds the whole report, of which the views show a little more.
"""

import json
import sqlite3
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import NamedTuple

from practicum.analysis.evaluations import EvalPoint, read_points, read_report
from practicum.core.checkpoint import Comparison
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.task import JSON, Task
from practicum.core.trace import Message, StopReason
from practicum.evaluation.compare import compare_reports
from practicum.evaluation.report import verdict
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import EventRow, read_metrics
from practicum.store.run_dir import Attempt, RunDir, RunFacts
from practicum.store.trace_store import EpisodeSummary, SqliteTraceStore

ENDINGS = {
    StopReason.FINISHED: "not solved",
    StopReason.MAX_TURNS: "cut off at the turn limit",
    StopReason.CONTEXT_FULL: "cut off: the context is full",
    StopReason.TIMED_OUT: "failed: cut off at its deadline",
    StopReason.ENVIRONMENT_FAILED: "masked: the environment failed",
    StopReason.AGENT_FAILED: "masked: the agent failed",
    StopReason.CANCELLED: "masked: cancelled",
}


class EpisodeTurn(NamedTuple):
    """One turn of the policy and what it came to."""

    action: str
    observation: str | None
    """None after the last turn, which the policy was shown no answer to."""
    reward: float | None
    """What the turn was worth; None where the reward is for the episode as a whole."""


def opening(episode: Episode) -> str:
    """What the policy was asked last before its first turn."""
    for node in episode.trace.nodes:
        if node.messages:
            return node.messages[-1].content
    return ""


def episode_turns(episode: Episode) -> list[EpisodeTurn]:
    """The turns along the episode's last path."""
    trace = episode.trace
    if not trace.nodes:
        return []
    path = trace.path(trace.leaves()[-1])
    rewards = _rewards_by_turn(episode)
    turns = []
    for place, index in enumerate(path):
        if trace.nodes[index].sampled is not None:
            answer = path[place + 1] if place + 1 < len(path) else None
            turns.append(
                EpisodeTurn(
                    action=_text(trace.nodes[index].messages),
                    observation=None if answer is None else _text(trace.nodes[answer].messages),
                    reward=rewards.get(index),
                )
            )
    return turns


def ending(episode: Episode) -> str:
    """How the episode ended, in a few words."""
    if episode.trace.is_masked:
        return ENDINGS[episode.trace.stop]
    success = episode.outcome.success if episode.outcome else None
    if success:
        return "solved"
    if success is None and episode.trace.stop is StopReason.FINISHED:
        return "ended"
    return ENDINGS[episode.trace.stop]


def _rewards_by_turn(episode: Episode) -> dict[int, float]:
    """What each sampled node was worth; nothing when not every turn has a worth of its own."""
    paid = episode.score.turn_values
    if not paid and episode.outcome is not None:
        paid = episode.outcome.turn_rewards
    turns = episode.trace.turns
    return dict(zip(turns, paid, strict=True)) if len(turns) == len(paid) else {}


def _text(messages: Sequence[Message]) -> str:
    """What messages say, tool calls written as calls."""
    parts = []
    for message in messages:
        calls = [f"{c.name}({json.dumps(dict(c.arguments))})" for c in message.tool_calls]
        parts += [part for part in (message.content, *calls) if part]
    return " ".join(parts)


RECENT_STEPS = 10
"""Steps whose median time stands for the steps to come: enough to be calm, few enough to follow a
run whose episodes grow longer."""
EPISODES_READ = 3


class RunStatus(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    """A process holds the folder and trains in it."""
    FINISHED = "finished"
    """Every step is done and the last evaluation is there."""
    STOPPED = "stopped"
    """It was started, nobody trains in it, and there is more to do."""
    NOT_STARTED = "not started"
    """The folder is there and no attempt was made yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """What one step recorded."""

    step: int
    time: float
    """Seconds since the epoch."""
    values: Mapping[str, JSON]

    def number(self, name: str) -> float | None:
        """A recorded number; None when it was not recorded, or was not finite."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value)

    @property
    def is_offline(self) -> bool:
        """Whether it learned from recorded examples."""
        return "examples" in self.values

    @property
    def is_refused(self) -> bool:
        """Whether its update was kept from the weights, for not being finite."""
        return self.values.get("applied") is False

    @property
    def duration_s(self) -> float | None:
        """Seconds of acting and learning; None when neither was recorded."""
        parts = [s for name in ("rollout_s", "update_s") if (s := self.number(name)) is not None]
        return sum(parts) if parts else None


class Recovery(NamedTuple):
    """The run went back to an earlier checkpoint after this step."""

    step: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsView:
    """What is saved."""

    steps: tuple[int, ...] = ()
    """Steps there is a checkpoint of, oldest first."""
    latest: int | None = None
    best: int | None = None
    """Step of the best evaluated one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeView:
    """A stored episode and what it was made for."""

    summary: EpisodeSummary
    episode: Episode
    task: Task | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """Everything the views show of a run, as it was at `read_at`."""

    path: Path
    status: RunStatus
    pid: int | None
    """Process that trains now; 0 if one does and cannot be told, None if none does."""
    config: RunConfig
    facts: RunFacts
    steps: tuple[StepRow, ...]
    """Steps that count, in order."""
    evaluations: tuple[EvalPoint, ...]
    """Held-out evaluations that count, in order."""
    recoveries: tuple[Recovery, ...]
    """Where it went back to a good checkpoint, in order."""
    checkpoints: CheckpointsView
    episodes: tuple[EpisodeView, ...]
    """The newest few, oldest first."""
    problems: tuple[str, ...]
    """Parts of the folder that could not be read, a sentence each."""
    read_at: float
    """Seconds since the epoch."""

    @property
    def name(self) -> str:
        """The run's name."""
        return self.facts.name

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every start of the run."""
        return self.facts.attempts

    @property
    def steps_done(self) -> int:
        """Steps completed, counted from where the last attempt resumed."""
        return _steps_done(self.steps, self.attempts)

    @property
    def steps_total(self) -> int:
        """Steps the run is to make."""
        return self.config.steps

    @property
    def last_step(self) -> StepRow | None:
        """The newest step."""
        return self.steps[-1] if self.steps else None

    @property
    def before(self) -> EvalPoint | None:
        """The evaluation of the untrained policy."""
        first = self.evaluations[0] if self.evaluations else None
        return first if first is not None and first.step == 0 else None

    @property
    def after(self) -> EvalPoint | None:
        """The newest evaluation of the policy in training."""
        last = self.evaluations[-1] if self.evaluations else None
        return last if last is not None and last.step > 0 else None

    @property
    def time_left_s(self) -> float | None:
        """Seconds until the end at the pace of the recent steps; None unless it is running."""
        if self.status is not RunStatus.RUNNING:
            return None
        return _time_left(self)


def read_run(run: RunDir, *, with_episodes: bool = True) -> RunView:
    """The run as its folder shows it now; opening the store of its episodes takes longest.

    A part that cannot be read is named in `problems`, and the rest is read all the same.

    Raises:
        UserError: when the folder is gone, or its config or facts cannot be read.

    Example:
        `read_run(find_run("latest", Path("runs"))).steps_done`
    """
    if not RunDir.is_run(run.path):
        raise UserError(f"{run.path} is no longer a run's folder; practicum runs lists those there")
    facts, config, pid = run.facts(), run.config(), run.trainer_pid()
    rows, damaged = read_metrics(run.metrics_path)
    problems = [f"{run.metrics_path} line {line.number}: {line.reason}" for line in damaged]
    steps = _step_rows(rows)
    evaluations, unread = read_points(
        run.path / "evals", rows, steps_done=_steps_done(steps, facts.attempts)
    )
    problems += unread
    return RunView(
        path=run.path,
        status=_status(pid, config, facts, steps, evaluations),
        pid=pid,
        config=config,
        facts=facts,
        steps=steps,
        evaluations=evaluations,
        recoveries=tuple(
            Recovery(row.step, str(row.values["text"])) for row in rows if row.kind == "recovery"
        ),
        checkpoints=_read_checkpoints(run, problems),
        episodes=_read_episodes(run.traces_path, problems) if with_episodes else (),
        problems=tuple(problems),
        read_at=time.time(),
    )


class Unreadable(NamedTuple):
    """A run folder that cannot be read, and why."""

    name: str
    reason: str


def read_runs(runs: Sequence[RunDir]) -> tuple[list[RunView], list[Unreadable]]:
    """Every run there is; one that is damaged does not hide the others."""
    views: list[RunView] = []
    unreadable: list[Unreadable] = []
    for run in runs:
        try:
            views.append(read_run(run))
        except UserError as error:
            unreadable.append(Unreadable(run.name, str(error)))
    return views, unreadable


def _step_rows(rows: Sequence[EventRow]) -> tuple[StepRow, ...]:
    steps = [
        StepRow(step=row.step, time=row.time, values=row.values)
        for row in rows
        if row.kind == "step"
    ]
    return tuple(sorted(steps, key=lambda row: row.step))


def _steps_done(steps: Sequence[StepRow], attempts: Sequence[Attempt]) -> int:
    resumed_at = attempts[-1].from_step if attempts else 0
    return max(resumed_at, steps[-1].step if steps else 0)


def _status(
    pid: int | None,
    config: RunConfig,
    facts: RunFacts,
    steps: Sequence[StepRow],
    evaluations: Sequence[EvalPoint],
) -> RunStatus:
    if pid is not None:
        return RunStatus.RUNNING
    if not facts.attempts:
        return RunStatus.NOT_STARTED
    # A run ends with an evaluation: without it there is still something to resume. One without an
    # environment has none.
    is_evaluated = not config.acts or any(point.step >= config.steps for point in evaluations)
    if is_evaluated and _steps_done(steps, facts.attempts) >= config.steps:
        return RunStatus.FINISHED
    return RunStatus.STOPPED


def _read_checkpoints(run: RunDir, problems: list[str]) -> CheckpointsView:
    store = CheckpointStore(run.path)
    pointed: dict[str, int | None] = {}
    for pointer in ("latest", "best"):
        try:
            pointed[pointer] = store.pointed(pointer)
        except UserError as error:
            problems.append(str(error))
    return CheckpointsView(
        steps=tuple(store.steps()), latest=pointed.get("latest"), best=pointed.get("best")
    )


def _read_episodes(path: Path, problems: list[str]) -> tuple[EpisodeView, ...]:
    if not path.is_file():
        return ()
    try:
        with SqliteTraceStore(path, read_only=True) as store:
            return tuple(
                EpisodeView(
                    summary=summary,
                    episode=episode,
                    task=store.task(summary.env, summary.task_id),
                )
                for summary in store.summaries(limit=EPISODES_READ)
                if (episode := store.get(summary.id)) is not None
            )
    except UserError as error:
        problems.append(str(error))
    except (sqlite3.Error, zlib.error, ValueError) as error:
        problems.append(f"the episodes in {path} cannot be read: {error}")
    return ()


def _time_left(view: RunView) -> float | None:
    recent = [s for row in view.steps[-RECENT_STEPS:] if (s := row.duration_s) is not None]
    if not recent:
        return None
    step_s = median(recent)
    evaluations = [point.duration_s for point in view.evaluations if point.duration_s]
    ahead = _evaluations_ahead(view) * (median(evaluations) if evaluations else 0.0)
    under_way = min(view.read_at - view.steps[-1].time, step_s)
    return max(0.0, (view.steps_total - view.steps_done) * step_s + ahead - max(0.0, under_way))


def _evaluations_ahead(view: RunView) -> int:
    done, total, every = view.steps_done, view.steps_total, view.config.eval.every
    made = {point.step for point in view.evaluations}
    due = {total, *(range(every, total, every) if every else ())}
    return sum(step >= done and step not in made for step in due)


def describe_status(view: RunView) -> str:
    """The status in words, with what to type where there is something to do."""
    facts = [view.status.value]
    if view.pid:
        facts[0] += f" (pid {view.pid})"
    if view.status is RunStatus.RUNNING:
        facts += _phase_words(view)
    if len(view.attempts) > 1:
        last = view.attempts[-1]
        facts.append(f"attempt {last.attempt}, resumed at step {last.from_step}")
    if view.status is RunStatus.STOPPED:
        facts.append(f"go on with: practicum train --resume {view.path}")
    return " · ".join(facts)


def _phase_words(view: RunView) -> list[str]:
    if not view.attempts:
        return ["starting"]
    if view.steps_done >= view.steps_total:
        return ["last evaluation"]
    if view.steps_done == 0 and view.config.eval.before and not view.evaluations:
        return ["evaluation before the first step"]
    return []


def gain_of(view: RunView) -> tuple[Comparison | None, str]:
    """What training gained on the same held-out tasks, and in a sentence; nothing if not known."""
    before, after = view.before, view.after
    if not (before and after and before.has_report and after.has_report):
        return None, ""
    try:
        gained = compare_reports(*(read_report(view.path, p.step) for p in (after, before)))
    except UserError as error:  # the rest of the run is still worth showing
        return None, str(error)
    return gained, verdict(gained)
