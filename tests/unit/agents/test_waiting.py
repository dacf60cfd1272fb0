"""Environments and rewards that leave the program, cancel themselves or never answer."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.agents.counting import CountingEnvironment, CountingSession, make_parts, make_task

from practicum.agents.rollout import LARGEST_SCORE, run_episode, run_groups
from practicum.core.interfaces import Observation
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import StopReason, Trace
from practicum.rewards.verifiable import FunctionReward

PLACES = ["open", "prompt", "actions", "act", "outcome"]


def cancel_itself() -> None:
    raise asyncio.CancelledError


def leave() -> None:
    sys.exit(0)


@pytest.mark.parametrize("how", [leave, cancel_itself])
@pytest.mark.parametrize("where", PLACES)
async def test_an_environment_that_leaves_or_cancels_masks_its_episode(
    where: str, how: Callable[[], None]
) -> None:
    [group] = await run_groups(
        make_parts(CountingEnvironment(where, how)), [make_task()], 2, label="x", seed=0
    )
    for episode in group.episodes:
        assert episode.trace.stop is StopReason.ENVIRONMENT_FAILED
        assert episode.trace.is_masked


@pytest.mark.parametrize("where", PLACES)
def test_an_environment_that_blocks_for_ever_masks_its_episode(where: str) -> None:
    environment = CountingEnvironment(where, lambda: time.sleep(3600))
    parts = make_parts(environment, answer_timeout_s=0.2)
    [group] = asyncio.run(run_groups(parts, [make_task()], 1, label="x", seed=0))
    failure = group.episodes[0].trace.failure
    assert failure is not None
    assert failure.kind == "EnvironmentFailure"
    assert "rollouts.answer_timeout_s" in failure.message
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


class SleepyEnvironment(CountingEnvironment):
    """Awaits for ever where it is told to."""

    def open(self, task: Task) -> Any:
        return SleepySession(self.fails_in)


class SleepySession(CountingSession):
    async def __aenter__(self) -> "SleepySession":
        await self._maybe_sleep("open")
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._maybe_sleep("close")

    async def _maybe_sleep(self, where: str) -> None:
        if where == self._fails_in:
            await asyncio.sleep(3600)

    async def act(self, text: str) -> Observation:
        await self._maybe_sleep("act")
        return await super().act(text)

    async def outcome(self) -> Outcome:
        await self._maybe_sleep("outcome")
        return await super().outcome()

    def _maybe_fail(self, where: str) -> None:
        pass


@pytest.mark.parametrize("where", ["open", "act", "outcome", "close"])
async def test_an_environment_that_is_awaited_for_ever_masks_its_episode(where: str) -> None:
    parts = make_parts(SleepyEnvironment(where), answer_timeout_s=0.05)
    episode = await run_episode(parts, make_task(), "one", seed=0)
    assert episode.trace.is_masked
    assert episode.trace.failure is not None
    assert "no answer within 0.05 s" in episode.trace.failure.message


async def sleep_for_ever(task: Task, trace: Trace, outcome: Outcome) -> float:
    await asyncio.sleep(3600)
    return 1.0


def block_for_ever(task: Task, trace: Trace, outcome: Outcome) -> float:
    time.sleep(3600)
    return 1.0


def exit_with_1(task: Task, trace: Trace, outcome: Outcome) -> float:
    sys.exit(1)


async def cancel(task: Task, trace: Trace, outcome: Outcome) -> float:
    raise asyncio.CancelledError


@pytest.mark.parametrize("function", [sleep_for_ever, block_for_ever, exit_with_1, cancel])
def test_a_reward_that_never_ends_or_leaves_is_no_score(function: Callable[..., Any]) -> None:
    parts = make_parts(
        CountingEnvironment(),
        reward=FunctionReward(name="mine", function=function),
        answer_timeout_s=0.2,
    )
    [group] = asyncio.run(run_groups(parts, [make_task()], 1, label="x", seed=0))
    [episode] = group.episodes
    assert episode.score.value is None
    assert episode.score.reason
    assert not episode.is_usable


@given(
    component=st.floats(),
    weight=st.floats(allow_nan=False, allow_infinity=False),
    turns=st.lists(st.floats(), max_size=3),
)
def test_no_score_that_is_used_is_too_large_for_a_mean(
    component: float, weight: float, turns: list[float]
) -> None:
    given_score = Score(
        components={"mine": component}, weights={"mine": weight}, turn_values=tuple(turns)
    )

    class Pays:
        async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
            return given_score

    parts = make_parts(CountingEnvironment(), reward=Pays())
    episode = asyncio.run(run_episode(parts, make_task(), "one", seed=0))
    numbers = [component, component * weight, *turns]
    assert episode.is_usable == all(abs(number) <= LARGEST_SCORE for number in numbers)


def test_the_loops_own_long_work_is_not_interrupted() -> None:
    async def main() -> list[Any]:
        async def busy() -> str:
            await asyncio.sleep(0)
            time.sleep(0.5)
            return "done"

        parts = make_parts(SleepyEnvironment("act"), answer_timeout_s=0.1)
        work = run_groups(parts, [make_task()], 1, label="x", seed=0)
        return list(await asyncio.gather(busy(), work))

    said, [group] = asyncio.run(main())
    assert said == "done"
    assert group.episodes[0].trace.is_masked
