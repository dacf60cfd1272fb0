"""Every family of office tasks, played: by its reference, by nothing, by its near-misses."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.integration.machines import why_no_machine

from practicum.core.task import Outcome, Task
from practicum.environments.office.families.all_families import families
from practicum.environments.office.office_environment import OfficeEnvironment, task_of
from practicum.environments.reference_policies import ScriptActor, play_episode
from practicum.environments.registry import build_environment
from practicum.sandboxes.opening import unchecked_sandboxes

pytestmark = pytest.mark.slow
AT_ONCE = 4


@pytest.fixture(autouse=True)
def _machines() -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(reason)


async def played(office: OfficeEnvironment, task: Task, turns: Sequence[str]) -> Outcome:
    episode = await play_episode(office, task, ScriptActor(turns), len(turns) or 1)
    return episode.outcome


async def problems_of(office: OfficeEnvironment, task: Task, *, is_first: bool) -> list[str]:
    """What is wrong with a task; near-misses are tried on the first of a family."""
    found = []
    solved = await played(office, task, office.reference(task))
    if not solved.success:
        found.append(f"{task.id}: the reference gets {solved.evidence['checkpoints']}")
    idle = await played(office, task, [])
    if idle.evidence["s_score"] != 0:
        found.append(f"{task.id}: doing nothing gets {idle.evidence['checkpoints']}")
    for number, turns in enumerate(office.near_misses(task) if is_first else (), 1):
        missed = await played(office, task, turns)
        if missed.success is not False:
            found.append(f"{task.id}: near-miss {number} is accepted")
    return found


async def problems(tasks: Sequence[Task]) -> list[str]:
    office = build_environment("office", {})
    assert isinstance(office, OfficeEnvironment)
    office.use_sandboxes(lambda kind: unchecked_sandboxes("bubblewrap", print))
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(task: Task) -> list[str]:
        async with slots:
            return await problems_of(office, task, is_first=task.id.endswith("-0"))

    try:
        return [said for found in await asyncio.gather(*map(one, tasks)) for said in found]
    finally:
        await office.close()


@pytest.mark.parametrize("domain", sorted({one.domain for one in families().values()}))
async def test_references_get_full_marks_and_nothing_and_near_misses_do_not(domain: str) -> None:
    chosen = [one for one in families().values() if one.domain == domain]
    tasks = [task_of(one, one.split, 11, n) for one in chosen for n in range(2)]
    assert await problems(tasks) == []
