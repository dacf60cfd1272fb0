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
from practicum.core.errors import AgentFailure, ContextFull
from practicum.core.score import Score
from practicum.core.task import Outcome
from practicum.core.trace import StopReason
from practicum.gateway.scripted_conversation import ScriptedConversation
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


class Dawdler:
    """Takes so many turns, and then all the time there is."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    async def run(self, session: Any, conversation: Any) -> StopReason:
        messages = session.prompt()
        for _ in range(self.turns):
            await conversation.complete(messages, session.actions())
            messages = [(await session.act("next")).message]
        await asyncio.Event().wait()
        return StopReason.FINISHED


LATE = "the agent was not done after 0.02 seconds, which is agent.deadline_s"


async def test_an_agent_that_is_not_done_in_time_has_failed_is_scored_and_is_not_masked() -> None:
    for agent in (Program(DONE, hangs=True), Dawdler(turns=0)):
        environment = CountingEnvironment()
        parts = make_parts(environment, agent=agent, server=Reached(), deadline_s=0.02)
        episode = await run_episode(parts, make_task(), "x/0", 0)
        assert episode.trace.stop is StopReason.TIMED_OUT
        assert episode.trace.failure is None
        assert episode.outcome is not None
        assert episode.outcome.success is False
        assert episode.outcome.evidence["cut_off"] == LATE
        assert episode.is_usable
        assert episode.score.value == 0.0
        assert (environment.opened, environment.closed) == (1, 1)


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_what_a_late_episode_did_until_then_is_scored_and_can_be_learned_from(
    turns: int,
) -> None:
    parts = make_parts(CountingEnvironment(), agent=Dawdler(turns), deadline_s=0.02)
    episode = await run_episode(parts, make_task(), "x/0", 0)
    assert episode.score.turn_values == tuple(float(n + 1) for n in range(turns))
    assert len(episode.trace.turns) == turns
    assert episode.outcome is not None
    assert episode.outcome.success is False  # with three turns all was done, and it did not say so


async def test_a_turn_that_was_cut_off_before_it_was_carried_out_is_paid_nothing() -> None:
    class Hangs(Dawdler):
        async def run(self, session: Any, conversation: Any) -> StopReason:
            await conversation.complete(session.prompt(), session.actions())
            await asyncio.Event().wait()
            return StopReason.FINISHED

    parts = make_parts(CountingEnvironment(), agent=Hangs(0), deadline_s=0.02)
    episode = await run_episode(parts, make_task(), "x/0", 0)
    assert (len(episode.trace.turns), episode.score.turn_values) == (1, (0.0,))


async def test_being_late_is_no_way_out_of_a_session_that_cannot_be_judged() -> None:
    environment = CountingEnvironment(fails_in="outcome")
    parts = make_parts(environment, agent=Dawdler(1), deadline_s=0.02)
    late = await run_episode(parts, make_task(), "x/0", 0)
    assert (late.trace.stop, late.score.value) == (StopReason.TIMED_OUT, 0.0)
    assert late.outcome is not None
    assert "broken outcome" in str(late.outcome.evidence["not_judged"])
    in_time = await run_episode(make_parts(environment), make_task(), "x/0", 0)
    assert in_time.trace.stop is StopReason.ENVIRONMENT_FAILED


async def test_a_late_episode_is_not_played_again_and_no_score_makes_it_a_success() -> None:
    agent = Dawdler(2)
    parts = make_parts(
        CountingEnvironment(), agent=agent, deadline_s=0.02, retries=3, success_at=1.0
    )
    seeds: list[int] = []
    converse = parts.converse
    parts = replace(
        parts, converse=lambda task, seed: (seeds.append(seed), converse(task, seed))[1]
    )
    (group,) = await run_groups(parts, [make_task()], 1, label="x", seed=0)
    assert len(seeds) == 1
    (episode,) = group.usable
    assert episode.score.value == 3.0
    assert episode.outcome is not None
    assert episode.outcome.success is False


async def test_what_is_unknown_of_all_stays_unknown_of_the_late() -> None:
    class Unknown(CountingEnvironment):
        @asynccontextmanager
        async def open(self, task: Any) -> AsyncIterator[Any]:
            async with super().open(task) as session:

                async def outcome() -> Outcome:
                    return Outcome(success=None)

                session.outcome = outcome
                yield session

    parts = make_parts(Unknown(), agent=Dawdler(0), deadline_s=0.02)
    episode = await run_episode(parts, make_task(), "x/0", 0)
    assert episode.outcome is not None
    assert episode.outcome.success is None


async def test_a_prompt_that_does_not_fit_is_the_tasks_failure_and_a_later_one_an_ending() -> None:
    full = "This model's maximum context length is 64 tokens; a prompt of 60 and 8 do not fit"

    class Full:
        """Samples so many turns, and then has no room left."""

        def __init__(self, room: int) -> None:
            self.inner = ScriptedConversation(lambda actions: "next", name="x")
            self.nodes, self.tools, self.room = self.inner.nodes, self.inner.tools, room

        async def complete(self, *asked: Any, **more: Any) -> Any:
            if not self.room:
                raise ContextFull(full)
            self.room -= 1
            return await self.inner.complete(*asked, **more)

    for room in (0, 1):
        parts = make_parts(CountingEnvironment(), converse=lambda task, seed: Full(room))  # noqa: B023
        episode = await run_episode(parts, make_task(), "x/0", 0)
        if room:
            assert episode.trace.stop is StopReason.CONTEXT_FULL
            assert episode.score.value == 1.0
        else:
            assert episode.trace.stop is StopReason.ENVIRONMENT_FAILED
            assert episode.trace.failure is not None
            assert full in episode.trace.failure.message
            assert "shorten the task's prompt" in episode.trace.failure.message


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
