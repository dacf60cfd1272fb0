"""Gathering many attempts at once."""

import asyncio

import pytest

from practicum.compat.art.gather import gather_trajectories, gather_trajectory_groups, retry
from practicum.compat.art.trajectories import Trajectory, TrajectoryGroup


async def attempt(reward: float, wait: float = 0.0) -> Trajectory:
    await asyncio.sleep(wait)
    return Trajectory(reward=reward)


async def failing(text: str = "broken") -> Trajectory:
    raise RuntimeError(text)


def rewards(groups: list[TrajectoryGroup]) -> list[list[float]]:
    return [[t.reward for t in group] for group in groups]


async def test_groups_come_back_in_order_and_run_at_once() -> None:
    started = asyncio.get_running_loop().time()
    groups = await gather_trajectory_groups(
        TrajectoryGroup(attempt(10 * g + i, 0.05) for i in range(3)) for g in range(4)
    )
    assert rewards(groups) == [[10 * g + i for i in range(3)] for g in range(4)]
    assert asyncio.get_running_loop().time() - started < 0.5


async def test_one_exception_is_raised_unless_some_are_allowed() -> None:
    with pytest.raises(RuntimeError, match="broken"):
        await gather_trajectory_groups([TrajectoryGroup([attempt(1.0), failing()])])


@pytest.mark.parametrize("allowed", [2, 0.5])
async def test_allowed_exceptions_are_kept_with_their_group(allowed: float) -> None:
    groups = await gather_trajectory_groups(
        [TrajectoryGroup([attempt(1.0), failing()]), TrajectoryGroup([failing(), attempt(2.0)])],
        max_exceptions=allowed,
    )
    assert rewards(groups) == [[1.0], [2.0]]
    assert [len(group.exceptions) for group in groups] == [1, 1]
    assert "broken" in groups[0].exceptions[0].traceback


@pytest.mark.parametrize("allowed", [1, 0.25])
async def test_one_too_many_is_raised_over_all_groups(allowed: float) -> None:
    with pytest.raises(RuntimeError):
        await gather_trajectory_groups(
            [
                TrajectoryGroup([attempt(1.0), failing()]),
                TrajectoryGroup([failing(), attempt(2.0)]),
            ],
            max_exceptions=allowed,
        )


async def test_when_it_gives_up_nothing_is_left_running() -> None:
    ended: list[str] = []

    async def slow() -> Trajectory:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")
        return Trajectory()

    with pytest.raises(RuntimeError):
        await gather_trajectory_groups(
            [TrajectoryGroup([slow(), slow()]), TrajectoryGroup([failing()])]
        )
    for _ in range(5):
        await asyncio.sleep(0)
    assert ended == ["cancelled", "cancelled"]


async def test_after_each_may_change_drop_and_split_groups() -> None:
    async def after(group: TrajectoryGroup) -> TrajectoryGroup | list[TrajectoryGroup] | None:
        first = group.trajectories[0].reward
        if first == 0.0:
            return None
        return [group, group] if first == 1.0 else TrajectoryGroup([Trajectory(reward=-first)])

    groups = await gather_trajectory_groups(
        (TrajectoryGroup([attempt(float(g))]) for g in range(3)), after_each=after
    )
    assert rewards(groups) == [[1.0], [1.0], [-2.0]]


async def test_what_after_each_raises_is_raised() -> None:
    async def after(group: TrajectoryGroup) -> None:
        raise ValueError("no judge")

    with pytest.raises(ValueError, match="no judge"):
        await gather_trajectory_groups(
            [TrajectoryGroup([attempt(1.0)])], after_each=after, max_exceptions=5
        )


async def test_coroutines_that_return_whole_groups_are_taken_too() -> None:
    async def group() -> TrajectoryGroup:
        return TrajectoryGroup([Trajectory(reward=3.0)])

    async def broken() -> TrajectoryGroup:
        raise RuntimeError

    assert rewards(await gather_trajectory_groups([group(), broken()], max_exceptions=1)) == [[3.0]]


async def test_single_trajectories_and_lists_of_them() -> None:
    async def two() -> list[Trajectory]:
        return [Trajectory(reward=5.0), Trajectory(reward=6.0)]

    found = await gather_trajectories([attempt(1.0), failing("late"), two()], max_exceptions=1)
    assert found[0].reward == 1.0
    assert str(found[1]) == "late"
    assert [t.reward for t in found[2]] == [5.0, 6.0]
    with pytest.raises(RuntimeError):
        await gather_trajectories([failing()])


async def test_retry_calls_again_until_it_works() -> None:
    calls: list[int] = []
    told: list[tuple[str, int]] = []

    @retry(max_attempts=3, delay=0.0, on_retry=lambda error, n: told.append((str(error), n)))
    async def sometimes(until: int) -> str:
        calls.append(1)
        if len(calls) < until:
            raise RuntimeError(f"call {len(calls)}")
        return "done"

    assert await sometimes(3) == "done"
    assert told == [("call 1", 1), ("call 2", 2)]


def test_retry_raises_what_the_last_call_raised_and_leaves_other_errors_alone() -> None:
    calls: list[int] = []

    @retry(max_attempts=2, delay=0.0, exceptions=(KeyError,), on_retry=lambda *_: None)
    def never(error: type[Exception]) -> None:
        calls.append(1)
        raise error

    with pytest.raises(KeyError):
        never(KeyError)
    assert len(calls) == 2
    with pytest.raises(ValueError, match=r"^$"):
        never(ValueError)
    assert len(calls) == 3
