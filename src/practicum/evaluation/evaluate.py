"""`evaluate`: run a policy on held-out tasks and report its scores."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from practicum.agents.rollout import CUT_OFF, RolloutParts, run_groups
from practicum.core.checkpoint import EvalReport, TaskResult
from practicum.core.interfaces import TraceStore
from practicum.core.sample import Episode, Group
from practicum.core.task import Task
from practicum.evaluation.report import build_report

TASKS_AT_ONCE = 64
"""Bounds the episodes in flight, however many tasks are evaluated."""


class Evaluation(NamedTuple):
    """The report, and the episodes it was computed from."""

    report: EvalReport
    groups: list[Group]


async def evaluate(
    parts: RolloutParts,
    tasks: Sequence[Task],
    *,
    attempts: int,
    seed: int,
    policy: str,
    fingerprint: str,
    on_episode: Callable[[Episode], None] = lambda episode: None,
    on_groups: Callable[[Sequence[Group]], None] = lambda groups: None,
) -> Evaluation:
    """Run `attempts` episodes of each task; `on_groups` is given them before they are scored."""
    started = time.monotonic()
    groups: list[Group] = []
    for number, start in enumerate(range(0, len(tasks), TASKS_AT_ONCE)):
        groups += await run_groups(
            parts,
            tasks[start : start + TASKS_AT_ONCE],
            attempts,
            label=f"eval/{number}",
            seed=seed,
            on_episode=on_episode,
        )
    on_groups(groups)
    report = build_report(
        [task_result(group) for group in groups],
        policy=policy,
        env=parts.environment.name,
        fingerprint=fingerprint,
        seed=seed,
        duration_s=time.monotonic() - started,
        first_failure=next(filter(None, map(_why_unusable, _episodes(groups))), ""),
    )
    return Evaluation(report, groups)


def _episodes(groups: Sequence[Group]) -> Iterator[Episode]:
    return (episode for group in groups for episode in group.episodes)


def _why_unusable(episode: Episode) -> str:
    """What went wrong in an episode that counts for nothing; empty for the others."""
    if episode.trace.failure is not None:
        return episode.trace.failure.message
    return "" if episode.is_usable else episode.score.reason


def _why_failed(episode: Episode) -> str:
    """The same, and why an episode that counts was cut off, where that is worth telling."""
    cut = episode.outcome.evidence.get(CUT_OFF) if episode.outcome is not None else None
    return _why_unusable(episode) or str(cut or "")


MOST_TOLD = 3
"""Failures that are told one by one; the rest are counted where the step is."""


@dataclass(frozen=True, slots=True)
class FirstFailures:
    """Tells what went wrong in an episode as soon as it has, each thing once."""

    tell: Callable[[str], None]
    told: set[str] = field(default_factory=set)

    def look_at(self, episode: Episode) -> None:
        """Take an episode that has ended."""
        reason = _why_failed(episode)
        if reason and reason not in self.told and len(self.told) < MOST_TOLD:
            self.told.add(reason)
            self.tell(f"an episode failed: {reason} (task {episode.trace.task_id!r})")


def task_result(group: Group) -> TaskResult:
    """The attempts at one task; masked and unscored ones are None."""
    return TaskResult(
        task_id=group.task.id,
        level=group.task.level,
        successes=tuple(
            e.outcome.success if e.is_usable and e.outcome is not None else None
            for e in group.episodes
        ),
        rewards=tuple(e.score.value if e.is_usable else None for e in group.episodes),
        turns=tuple(len(e.trace.turns) for e in group.episodes),
        stand_ins=group.task.stand_ins,
        env=group.task.env,
    )


def keep_episodes(traces: TraceStore, groups: Sequence[Group], attempt: int, step: int) -> None:
    """Keep the episodes of an evaluation, each under a name such as `eval/12/0/3/TASK/0`.

    They are played as `eval/0/3/TASK/0` at every step: the name decides what chance does, and
    evaluations that are compared should differ in nothing but the policy.
    """
    episodes, tasks = named_episodes(groups, str(step)), [group.task for group in groups]
    traces.add_many(episodes, attempt=attempt, step=step, purpose="eval", tasks=tasks)


def named_episodes(groups: Sequence[Group], name: str) -> list[Episode]:
    """The episodes of an evaluation with what was evaluated in their names."""
    return [
        replace(e, trace=replace(e.trace, id=f"eval/{name}/{e.trace.id.removeprefix('eval/')}"))
        for e in _episodes(groups)
    ]
