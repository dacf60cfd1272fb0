"""Every family of office tasks, played: by its reference, by nothing, by its near-misses."""

import asyncio
import re
from collections.abc import Sequence

import pytest
from tests.integration.machines import why_no_machine

from practicum.core.interfaces import DiscreteSession
from practicum.core.task import Outcome, Task
from practicum.environments.reference_policies import ReferenceActor, ScriptActor, play_episode
from practicum.environments.registry import build_environment
from practicum.sandboxes.opening import unchecked_sandboxes
from practicum_envs.office.families.all_families import families
from practicum_envs.office.office_environment import OfficeEnvironment, task_of

pytestmark = [pytest.mark.slow, pytest.mark.rare]
AT_ONCE = 4
WORD = re.compile(r"[A-Za-z0-9][\w.-]*")
OWN_WORK = {"fix-a-function": {"max"}, "cut-a-release": {"2"}, "report-a-sprint": {"0"}}
"""What references think of themselves: the code of a repair, a field of a line that was shown, how
often something is there that was not shown."""


@pytest.fixture(autouse=True)
def _machines() -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(reason)


async def played(office: OfficeEnvironment, task: Task, turns: Sequence[str]) -> Outcome:
    episode = await play_episode(office, task, ScriptActor(turns), len(turns) or 1)
    return episode.outcome


def words_of(text: str) -> set[str]:
    found = (
        one.rstrip(".-").removesuffix(".git") for one in WORD.findall(text.replace("%2F", "/"))
    )
    return {one for one in found if len(one) > 1 or one.isdigit()}


class AttentiveActor(ReferenceActor):
    """Plays a reference, and notes the words in it that a model could not have read before."""

    def __init__(self, office: OfficeEnvironment) -> None:
        super().__init__(office)
        self._read: set[str] = set()
        self.unread: set[str] = set()

    def next_text(self, session: DiscreteSession, task: Task) -> str | None:
        self._read |= {word for one in session.prompt() for word in words_of(one.content)}
        text = super().next_text(session, task)
        self.unread |= words_of(text or "") - self._read
        self._read |= words_of(text or "")
        return text

    def observe(self, session: DiscreteSession, content: str) -> None:
        super().observe(session, content)
        self._read |= words_of(content)


def words_of_all(office: OfficeEnvironment, task: Task) -> set[str]:
    """Words that the references of all tasks of the family have: its way of working, no fact."""
    family = families()[str(task.data["family"])]
    others = [task_of(family, task.split, 12, number) for number in range(8)]
    found = [words_of("\n".join(office.reference(one))) for one in others]
    return set.intersection(*found) | OWN_WORK.get(family.name, set())


async def problems_of(office: OfficeEnvironment, task: Task, *, is_first: bool) -> list[str]:
    """What is wrong with a task; near-misses are tried on the first of a family."""
    found = []
    actor = AttentiveActor(office)
    solved = (await play_episode(office, task, actor, len(office.reference(task)))).outcome
    if unread := sorted(actor.unread - words_of_all(office, task)):
        found.append(f"{task.id}: the reference knows {unread}, which nothing had shown")
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
    office = build_environment("office", {"command_timeout_s": 240})  # the machine may be busy
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
async def test_references_know_what_was_shown_and_alone_get_full_marks(domain: str) -> None:
    chosen = [one for one in families().values() if one.domain == domain]
    tasks = [task_of(one, one.split, 11, n) for one in chosen for n in range(2)]
    assert await problems(tasks) == []
