"""The contract of environments, over every registered one at every level."""

import pytest

from practicum.environments import (
    build_level,
    check_environment,
    environment_class,
    environment_names,
)

EVERY_LEVEL = [
    (name, level) for name in environment_names() for level in environment_class(name).all_levels
]


@pytest.mark.parametrize(("name", "level"), EVERY_LEVEL)
async def test_every_level_keeps_the_contract(name: str, level: int) -> None:
    report = await check_environment(lambda at: build_level(name, at), levels=[level], n=30, seed=7)
    found = report.levels[0]
    assert found.problems == ()
    assert (found.reference_solved, found.do_nothing_paid) == (30, 0)
    assert report.is_sound


@pytest.mark.parametrize("level", [1, 3, 5])
async def test_math_with_free_actions_keeps_the_contract(level: int) -> None:
    report = await check_environment(
        lambda at: build_level("math", at, {"actions": "free"}), levels=[level], n=10, seed=3
    )
    assert report.is_sound
    assert report.levels[0].random_solved is None


@pytest.mark.parametrize("level", environment_class("math").all_levels)
async def test_acting_at_random_rarely_solves_math(level: int) -> None:
    report = await check_environment(
        lambda at: build_level("math", at), levels=[level], n=40, seed=1
    )
    solved = report.levels[0].random_solved
    assert solved is not None
    assert solved <= 10
