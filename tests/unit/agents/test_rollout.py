import asyncio
import math
from typing import Any

import pytest
from tests.unit.agents.counting import CountingEnvironment, make_parts, make_task

from practicum.agents.loops import DiscreteAgent
from practicum.agents.rollout import run_episode
from practicum.core.errors import EnvironmentFailure, PolicyMismatch, UserError
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import StopReason, Trace
from practicum.gateway.scripted_conversation import ScriptedConversation


async def test_an_episode_is_played_closed_and_scored() -> None:
    environment = CountingEnvironment()
    episode = await run_episode(make_parts(environment), make_task(), "one", seed=4)
    assert episode.trace.stop is StopReason.FINISHED
    assert episode.trace.failure is None
    assert episode.trace.id == "one"
    assert (episode.trace.task_id, episode.trace.env) == ("count", "counting")
    assert episode.trace.model == "script"
    assert episode.trace.fingerprints == {"seed 4"}
    assert episode.trace.started_at > 0
    assert episode.outcome == Outcome(success=True, turn_rewards=(1.0, 2.0, 3.0))
    assert episode.score.value == 6.0
    assert episode.is_usable
    assert environment.opened == environment.closed == 1


async def test_an_episode_cut_off_by_its_turn_limit_is_scored() -> None:
    parts = make_parts(CountingEnvironment(), agent=DiscreteAgent(max_turns=2))
    episode = await run_episode(parts, make_task(), "one", seed=0)
    assert episode.trace.stop is StopReason.MAX_TURNS
    assert episode.score.value == 3.0
    assert episode.is_usable


@pytest.mark.parametrize("where", ["open", "prompt", "actions", "act", "outcome", "close"])
async def test_a_failing_environment_masks_the_episode(where: str) -> None:
    environment = CountingEnvironment(fails_in=where)
    episode = await run_episode(make_parts(environment), make_task(), "one", seed=0)
    assert episode.trace.stop is StopReason.ENVIRONMENT_FAILED
    assert episode.trace.failure is not None
    assert episode.trace.failure.kind == "EnvironmentFailure"
    assert f"OSError: broken {where}" in episode.trace.failure.message
    assert episode.score.value is None
    assert f"broken {where}" in episode.score.reason
    assert not episode.is_usable
    assert environment.opened == environment.closed
    # What was sampled before the failure is kept.
    expected_turns = {"open": 0, "prompt": 0, "actions": 0, "act": 2}.get(where, 3)
    assert len(episode.trace.turns) == expected_turns


class FailingAgent:
    """Fails after one turn, or with an error of the given kind."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def run(self, session: Any, conversation: Any) -> StopReason:
        await conversation.complete(session.prompt(), session.actions())
        raise self.error


async def test_a_failing_agent_masks_the_episode() -> None:
    environment = CountingEnvironment()
    parts = make_parts(environment, agent=FailingAgent(RuntimeError("lost")))
    episode = await run_episode(parts, make_task(), "one", seed=0)
    assert episode.trace.stop is StopReason.AGENT_FAILED
    assert episode.trace.failure is not None
    assert episode.trace.failure.kind == "AgentFailure"
    assert "FailingAgent: RuntimeError: lost" in episode.trace.failure.message
    assert episode.score.value is None
    assert not episode.is_usable
    assert len(episode.trace.turns) == 1
    assert environment.closed == 1


async def test_the_first_failure_is_the_one_reported() -> None:
    environment = CountingEnvironment(fails_in="close")
    parts = make_parts(environment, agent=FailingAgent(RuntimeError("lost")))
    episode = await run_episode(parts, make_task(), "one", seed=0)
    assert episode.trace.stop is StopReason.AGENT_FAILED


@pytest.mark.parametrize("error", [UserError("no key"), PolicyMismatch("stale")])
async def test_what_must_stop_the_run_passes_through(error: Exception) -> None:
    environment = CountingEnvironment()
    with pytest.raises(type(error)):
        await run_episode(
            make_parts(environment, agent=FailingAgent(error)), make_task(), "one", seed=0
        )
    assert environment.closed == 1


class ScoresWith:
    """Returns a score or raises an error."""

    def __init__(self, result: Score | Exception) -> None:
        self.result = result

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize("error", [KeyError("judge"), EnvironmentFailure("no file")])
async def test_a_failing_reward_leaves_the_episode_unscored(error: Exception) -> None:
    parts = make_parts(CountingEnvironment(), reward=ScoresWith(error))
    episode = await run_episode(parts, make_task(), "one", seed=0)
    assert episode.trace.stop is StopReason.FINISHED
    assert not episode.trace.is_masked
    assert episode.score.value is None
    assert "ScoresWith" in episode.score.reason
    assert not episode.is_usable


async def test_a_reward_that_the_user_must_fix_stops_the_run() -> None:
    parts = make_parts(CountingEnvironment(), reward=ScoresWith(UserError("no key; set one")))
    with pytest.raises(UserError, match="no key"):
        await run_episode(parts, make_task(), "one", seed=0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
async def test_a_score_that_is_no_number_is_no_score(value: float) -> None:
    parts = make_parts(CountingEnvironment(), reward=ScoresWith(Score(components={"judge": value})))
    episode = await run_episode(parts, make_task(), "one", seed=0)
    assert episode.score.value is None
    assert str(value) in episode.score.reason
    assert not episode.is_usable


@pytest.mark.parametrize("fails_in", ["", "close"])
async def test_a_cancelled_episode_is_closed_and_stays_cancelled(fails_in: str) -> None:
    environment = CountingEnvironment(fails_in=fails_in)

    class Waiting:
        async def run(self, session: Any, conversation: Any) -> StopReason:
            await asyncio.Event().wait()
            return StopReason.FINISHED

    job = asyncio.create_task(
        run_episode(make_parts(environment, agent=Waiting()), make_task(), "one", seed=0)
    )
    await asyncio.sleep(0.01)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert environment.opened == environment.closed == 1


class Waiting(ScriptedConversation):
    """Says that it waited for the model for longer than the episode took."""

    sampling_s = 3600.0


async def test_an_episode_says_where_its_time_went() -> None:
    plain = await run_episode(make_parts(CountingEnvironment()), make_task(), "one", seed=0)
    assert plain.seconds is not None
    assert plain.seconds.sampling == 0.0
    assert plain.seconds.environment > 0.0
    assert plain.seconds.judging > 0.0
    assert plain.seconds.total >= plain.trace.duration_s

    def converse(task: Task, seed: int) -> Waiting:
        return Waiting(lambda actions: "next", name="slow")

    parts = make_parts(CountingEnvironment(), converse=converse)
    slow = await run_episode(parts, make_task(), "one", seed=0)
    assert slow.seconds is not None
    assert (slow.seconds.sampling, slow.seconds.environment) == (3600.0, 0.0)


async def test_a_failed_episode_says_where_its_time_went_too() -> None:
    environment = CountingEnvironment(fails_in="outcome")
    episode = await run_episode(make_parts(environment), make_task(), "one", seed=0)
    assert episode.seconds is not None
    assert episode.seconds.environment > 0.0
