"""Agents that are programs: what they report, how long they may take, and how often."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.agents.counting import CountingEnvironment, make_parts, make_task

from practicum.agents.rollout import run_episode, run_groups
from practicum.core.conversation import AgentReport, Assignment
from practicum.core.errors import AgentFailure
from practicum.core.score import Score
from practicum.core.trace import StopReason
from practicum.rewards.verifiable import ReportedScore, TurnRewards


class Reached:
    """Counts who is reachable, and how often the server was asked to stay."""

    def __init__(self) -> None:
        self.now = self.most = self.stays = 0

    @asynccontextmanager
    async def __call__(self, conversation: Any) -> AsyncIterator[Any]:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            yield conversation
        finally:
            self.now -= 1

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        self.stays += 1
        yield


class Program:
    """Reports what it is told to, after the failures it is told to have."""

    def __init__(self, report: AgentReport, failures: int = 0, hangs: bool = False) -> None:
        self.report, self.failures, self.hangs = report, failures, hangs
        self.seen: list[Assignment] = []

    async def work(self, assignment: Assignment, session: Any, conversation: Any) -> AgentReport:
        self.seen.append(assignment)
        if self.hangs:
            await asyncio.Event().wait()
        if len(self.seen) <= self.failures:
            raise AgentFailure("not today")
        await conversation.complete(session.prompt(), session.actions())
        await session.act("next")
        return self.report


DONE = AgentReport(
    stop=StopReason.FINISHED,
    score=Score(components={"tidy": 0.5, "fast": 1.0}, weights={"fast": 0.1}, reason="well done"),
    success=True,
    evidence={"log": "ok"},
)


def parts_of(program: Program, **changes: Any) -> Any:
    reward = ReportedScore(otherwise=TurnRewards())
    return make_parts(
        CountingEnvironment(),
        **{"agent": program, "server": Reached(), "reward": reward, **changes},
    )


async def test_what_an_agent_reports_is_evidence_and_its_score() -> None:
    program = Program(DONE)
    parts = parts_of(program)
    episode = await run_episode(parts, make_task(), "x/0", 0)
    assert program.seen == [Assignment(task=make_task(), trace_id="x/0")]
    assert parts.server.most == 1
    assert parts.server.now == 0
    assert episode.outcome is not None
    assert episode.outcome.success is True  # the environment says it was not done
    assert episode.outcome.evidence["log"] == "ok"
    assert episode.score == DONE.score
    assert episode.score.value == pytest.approx(0.6)


async def test_without_a_score_of_its_own_the_environment_scores() -> None:
    parts = parts_of(Program(AgentReport(stop=StopReason.FINISHED)))
    episode = await run_episode(parts, make_task(), "x/0", 0)
    assert episode.outcome is not None
    assert episode.outcome.success is False
    assert episode.outcome.evidence == {}
    assert episode.score.value == 1.0


async def test_one_that_cannot_reach_the_model_fails() -> None:
    episode = await run_episode(parts_of(Program(DONE), server=None), make_task(), "x/0", 0)
    assert episode.trace.stop is StopReason.AGENT_FAILED


async def test_an_agent_that_is_not_done_in_time_has_failed_and_its_session_is_closed() -> None:
    class Loop:
        async def run(self, session: Any, conversation: Any) -> StopReason:
            await asyncio.Event().wait()
            return StopReason.FINISHED

    for agent in (Program(DONE, hangs=True), Loop()):
        environment = CountingEnvironment()
        parts = make_parts(environment, agent=agent, server=Reached(), deadline_s=0.02)
        episode = await run_episode(parts, make_task(), "x/0", 0)
        assert episode.trace.stop is StopReason.AGENT_FAILED
        assert episode.trace.failure is not None
        assert episode.trace.failure.message == "the agent was not done after 0.02 seconds"
        assert (environment.opened, environment.closed) == (1, 1)


async def test_a_timeout_of_the_agents_own_is_told_as_what_it_is() -> None:
    class Impatient:
        async def run(self, session: Any, conversation: Any) -> StopReason:
            raise TimeoutError("a tool took too long")

    parts = make_parts(CountingEnvironment(), agent=Impatient(), deadline_s=60.0)
    episode = await run_episode(parts, make_task(), "x/0", 0)
    assert episode.trace.failure is not None
    assert "a tool took too long" in episode.trace.failure.message


@pytest.mark.parametrize(("retries", "usable"), [(0, 0), (1, 1), (2, 1), (3, 2)])
async def test_failed_episodes_are_tried_again_and_groups_stay_whole(
    retries: int, usable: int
) -> None:
    program = Program(DONE, failures=3)
    seeds: list[int] = []
    parts = parts_of(program, retries=retries)
    converse = parts.converse

    def noting(task: Any, seed: int) -> Any:
        seeds.append(seed)
        return converse(task, seed)

    parts = replace(parts, converse=noting)
    told: list[Any] = []
    (group,) = await run_groups(parts, [make_task()], 2, label="x", seed=0, on_episode=told.append)
    assert len(group.episodes) == len(told) == 2
    assert len(group.usable) == usable
    assert [e.trace.id for e in group.episodes] == ["x/0/count/0", "x/0/count/1"]
    assert len(set(seeds)) == len(seeds)
    assert parts.server.stays == 1


async def test_an_environment_that_failed_is_tried_again_too() -> None:
    parts = make_parts(CountingEnvironment("act"), retries=2)
    (group,) = await run_groups(parts, [make_task()], 1, label="x", seed=0)
    assert parts.environment.opened == 3  # type: ignore[attr-defined]
    assert group.episodes[0].trace.stop is StopReason.ENVIRONMENT_FAILED


async def test_no_more_episodes_are_under_way_than_there_are_places() -> None:
    free = parts_of(Yielding(DONE))
    await run_groups(free, [make_task()], 5, label="x", seed=0)
    assert free.server.most == 5
    held = parts_of(Yielding(DONE), slots=asyncio.Semaphore(2))
    (group,) = await run_groups(held, [make_task()], 5, label="x", seed=0)
    assert len(group.usable) == 5
    assert held.server.most == 2


class Yielding(Program):
    """Lets others go first."""

    async def work(self, assignment: Assignment, session: Any, conversation: Any) -> AgentReport:
        for _ in range(3):
            await asyncio.sleep(0)
        return await super().work(assignment, session, conversation)
