import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.agents.counting import CountingEnvironment, make_parts, make_task

from practicum.agents.rollout import episode_seed, run_groups
from practicum.core.errors import UserError
from practicum.core.sample import Episode, Group
from practicum.core.score import Score
from practicum.core.task import Task
from practicum.core.trace import StopReason
from practicum.gateway.scripted_conversation import ScriptedConversation


class Dawdling:
    """The earlier an episode begins, the longer it takes."""

    def __init__(self, count: int) -> None:
        self.left = count

    async def run(self, session: Any, conversation: Any) -> StopReason:
        self.left -= 1
        turns = self.left
        for _ in range(turns * 3):
            await asyncio.sleep(0)
        await conversation.complete(session.prompt(), session.actions())
        return StopReason.FINISHED


async def test_groups_and_episodes_keep_the_order_of_the_tasks() -> None:
    tasks = [make_task(name) for name in ("a", "b", "a")]
    finished: list[Episode] = []
    groups = await run_groups(
        make_parts(CountingEnvironment(), agent=Dawdling(6)),
        tasks,
        2,
        label="step-3",
        seed=1,
        on_episode=finished.append,
    )
    assert [g.task for g in groups] == tasks
    ids = [[e.trace.id for e in g.episodes] for g in groups]
    assert ids == [
        ["step-3/0/a/0", "step-3/0/a/1"],
        ["step-3/1/b/0", "step-3/1/b/1"],
        ["step-3/2/a/0", "step-3/2/a/1"],
    ]
    assert [e.trace.id for e in finished] == [i for pair in reversed(ids) for i in reversed(pair)]


async def seeds_of(label: str, seed: int) -> list[int]:
    seen = []

    def converse(task: Task, seed: int) -> ScriptedConversation:
        seen.append(seed)
        return ScriptedConversation(lambda actions: "next", name="script")

    parts = make_parts(CountingEnvironment(), converse=converse)
    await run_groups(parts, [make_task("a"), make_task("a")], 3, label=label, seed=seed)
    return seen


async def test_every_episode_has_a_seed_that_its_name_and_the_runs_seed_decide() -> None:
    first = await seeds_of("step-1", 0)
    assert len(set(first)) == 6
    assert await seeds_of("step-1", 0) == first
    assert not set(await seeds_of("step-2", 0)) & set(first)
    assert not set(await seeds_of("step-1", 1)) & set(first)
    assert episode_seed(0, "step-1/0/a/0") == first[0]


async def test_a_failed_episode_stays_in_its_group() -> None:
    class Moody:
        def __init__(self) -> None:
            self.runs = 0

        async def run(self, session: Any, conversation: Any) -> StopReason:
            self.runs += 1
            if self.runs == 2:
                raise RuntimeError("moody")
            await conversation.complete(session.prompt(), session.actions())
            await session.act("next")
            return StopReason.FINISHED

    [group] = await run_groups(
        make_parts(CountingEnvironment(), agent=Moody()), [make_task()], 3, label="x", seed=0
    )
    stops = [e.trace.stop for e in group.episodes]
    assert stops == [StopReason.FINISHED, StopReason.AGENT_FAILED, StopReason.FINISHED]
    assert len(group.usable) == 2
    assert group.values == (1.0, 1.0)


async def test_the_users_mistake_arrives_as_itself_and_ends_the_others() -> None:
    environment = CountingEnvironment()

    class OneMistake:
        def __init__(self) -> None:
            self.runs = 0

        async def run(self, session: Any, conversation: Any) -> StopReason:
            self.runs += 1
            if self.runs == 3:
                raise UserError("the prompt does not fit; lower rollouts.max_tokens")
            await asyncio.Event().wait()
            return StopReason.FINISHED

    with pytest.raises(UserError, match=r"lower rollouts\.max_tokens"):
        await run_groups(
            make_parts(environment, agent=OneMistake()), [make_task()], 4, label="x", seed=0
        )
    assert environment.closed == environment.opened


async def test_cancelling_ends_every_episode() -> None:
    environment = CountingEnvironment()

    class Waiting:
        async def run(self, session: Any, conversation: Any) -> StopReason:
            await asyncio.Event().wait()
            return StopReason.FINISHED

    job = asyncio.create_task(
        run_groups(make_parts(environment, agent=Waiting()), [make_task()], 5, label="x", seed=0)
    )
    await asyncio.sleep(0.01)
    assert environment.opened == 5
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert environment.closed == 5


async def test_no_tasks_make_no_groups() -> None:
    assert await run_groups(make_parts(CountingEnvironment()), [], 3, label="x", seed=0) == []


class Ranking:
    """Scores episodes by their place in the group; fails where it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def rescore(self, group: Group) -> Group:
        if self._error is not None and group.task.id == "b":
            raise self._error
        ranked = [
            replace(episode, score=Score(components={"rank": float(place)}))
            for place, episode in enumerate(group.episodes)
        ]
        return replace(group, episodes=tuple(ranked))


async def ranked(error: Exception | None = None) -> list[Group]:
    parts = make_parts(CountingEnvironment(), group_reward=Ranking(error))
    return await run_groups(parts, [make_task("a"), make_task("b")], 2, label="x", seed=0)


async def test_a_group_reward_has_the_last_word() -> None:
    assert [group.values for group in await ranked()] == [(0.0, 1.0), (0.0, 1.0)]


async def test_a_group_reward_that_fails_leaves_its_group_unscored() -> None:
    one, two = await ranked(ZeroDivisionError("no episodes"))
    assert one.values == (0.0, 1.0)
    assert two.usable == ()
    told = "reward Ranking: ZeroDivisionError: no episodes (test_group.py, line "
    assert two.episodes[0].score.reason.startswith(told)


async def test_an_episode_that_its_group_reward_leaves_unscored_is_told_of_again() -> None:
    told: list[str] = []
    parts = make_parts(CountingEnvironment(), group_reward=Ranking(ZeroDivisionError("none")))
    tasks = [make_task("a"), make_task("b")]

    def tell(episode: Episode) -> None:
        told.append(episode.score.reason if not episode.is_usable else "")

    await run_groups(parts, tasks, 2, label="x", seed=0, on_episode=tell)
    assert told[:4] == [""] * 4
    assert len(told) == 6
    assert all("ZeroDivisionError: none" in reason for reason in told[4:])


async def test_what_the_user_must_mend_goes_on_to_the_user() -> None:
    with pytest.raises(UserError, match="the key is refused"):
        await ranked(UserError("the key is refused"))
