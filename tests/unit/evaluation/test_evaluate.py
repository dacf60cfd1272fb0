"""What an evaluation counts and tells: late episodes have failed."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.agents.counting import CountingEnvironment, make_parts

from practicum.core.task import Task
from practicum.core.trace import StopReason
from practicum.evaluation.evaluate import FirstFailures, evaluate


class Slow:
    """Does what is to be done, and does not come to an end at tasks with this word in their id."""

    def __init__(self) -> None:
        self.tasks: dict[Any, str] = {}

    async def run(self, session: Any, conversation: Any) -> StopReason:
        for _ in range(3):
            await conversation.complete(session.prompt(), session.actions())
            await session.act("next")
        if "slow" in self.tasks[conversation]:
            await asyncio.Event().wait()
        return StopReason.FINISHED


async def test_a_shorter_deadline_makes_no_policy_look_better() -> None:
    names = [*(f"{n}" for n in range(7)), *(f"slow {n}" for n in range(3))]
    tasks = [Task(id=name, env="counting", split="heldout") for name in names]
    agent, said = Slow(), list[str]()
    parts = make_parts(CountingEnvironment(), agent=agent, deadline_s=0.05, retries=2)

    def converse(task: Task, seed: int) -> Any:
        opened = parts.converse(task, seed)
        agent.tasks[opened] = task.id
        return opened

    report, groups = await evaluate(
        replace(parts, converse=converse),
        tasks,
        attempts=1,
        seed=0,
        policy="p",
        fingerprint="f",
        on_episode=FirstFailures(said.append).look_at,
    )
    assert report.success is not None
    assert (report.success.value, report.success.n) == (pytest.approx(0.7), 10)
    assert report.masked == 0
    assert len(agent.tasks) == 10, "a late episode is not played again"
    stops = [e.trace.stop for group in groups for e in group.episodes]
    assert stops.count(StopReason.TIMED_OUT) == 3
    (told,) = said
    assert told.startswith("an episode failed: the agent was not done after 0.05 seconds, which is")
    assert "(task 'slow" in told
