"""A policy on held-out tasks: episodes to a report."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from practicum.core.report import EvalReport, TaskResult
from practicum.core.sample import Episode, Group
from practicum.core.task import Task
from practicum.evaluation.report import build_report
from practicum.rollouts import RolloutParts, run_groups

__all__ = ["Evaluation", "evaluate"]

TASKS_AT_ONCE = 64


class Evaluation(NamedTuple):
    """The report and the groups it was made from."""

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
) -> Evaluation:
    """`attempts` episodes of each task, scored."""
    started = time.monotonic()
    groups: list[Group] = []
    for number, some in enumerate(_batched(tasks, TASKS_AT_ONCE)):
        groups += await run_groups(
            parts, some, attempts, label=f"eval/{number}", seed=seed, on_episode=on_episode
        )
    report = build_report(
        [task_result(group) for group in groups],
        policy=policy,
        env=parts.environment.name,
        fingerprint=fingerprint,
        seed=seed,
        duration_s=time.monotonic() - started,
    )
    return Evaluation(report, groups)


def task_result(group: Group) -> TaskResult:
    """What the attempts at one task came to; a masked attempt says nothing and is None."""
    return TaskResult(
        task_id=group.task.id,
        level=group.task.level,
        successes=tuple(
            e.outcome.success if e.is_usable and e.outcome is not None else None
            for e in group.episodes
        ),
        rewards=tuple(e.score.value if e.is_usable else None for e in group.episodes),
        turns=tuple(len(e.trace.turns) for e in group.episodes),
    )


def _batched(tasks: Sequence[Task], size: int) -> list[Sequence[Task]]:
    return [tasks[i : i + size] for i in range(0, len(tasks), size)]
