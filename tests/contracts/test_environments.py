"""The contract of environments, over every registered one at every level."""

import json
from pathlib import Path
from typing import Any

import pytest

from practicum.core.capabilities import Closable, InSandboxes, OutOfProcess
from practicum.core.errors import UserError
from practicum.environments.checker import check_environment
from practicum.environments.registry import build_level, environment_class, environment_names
from practicum.sandboxes.opening import open_sandboxes

TESTED_ELSEWHERE = {"agent_company", "harbor", "mixed", "remote"}
"""Environments with tests of their own: a benchmark from a checkout, without training tasks, task
folders, what is on a server, and several in one."""


def costs(name: str) -> bool:
    return isinstance(environment_class(name), OutOfProcess)


def levels_to_try(name: str) -> tuple[int, ...]:
    """Every level, or where each session costs something the first, a middle and the last."""
    every = environment_class(name).all_levels
    return (every[0], every[len(every) // 2], every[-1]) if costs(name) else every


EVERY_LEVEL = [
    (name, level)
    for name in environment_names()
    if name not in TESTED_ELSEWHERE
    for level in levels_to_try(name)
]


def options_of(name: str, folder: Path) -> dict[str, Any]:
    """What an environment cannot do without: the tasks, where they are the user's own."""
    if name != "tasks":
        return {}
    rows = [{"id": f"sum-{n}", "prompt": f"{n} + 1 = ?", "answer": n + 1} for n in range(60)]
    path = folder / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return {"data": str(path)}


def built(name: str, level: int, folder: Path) -> Any:
    environment = build_level(name, level, options_of(name, folder))
    if isinstance(environment, InSandboxes):
        environment.use_sandboxes(open_sandboxes)
    return environment


async def skip_without_sandbox(environment: Any, name: str) -> None:
    """Skip where the machine has no sandbox to work in."""
    if not costs(name):
        return
    try:
        async with environment.open(next(environment.tasks("train", 0))):
            pass
    except UserError as error:
        pytest.skip(f"needs a sandbox: {error}")


@pytest.mark.parametrize(("name", "level"), EVERY_LEVEL)
async def test_every_level_keeps_the_contract(name: str, level: int, tmp_path: Path) -> None:
    environment = built(name, level, tmp_path)
    n = 2 if costs(name) else 5 if name == "code" else 30  # every program of code is run
    try:
        await skip_without_sandbox(environment, name)
        report = await check_environment(lambda at: environment, levels=[level], n=n, seed=7)
    finally:
        if isinstance(environment, Closable):
            await environment.close()
    found = report.levels[0]
    assert found.problems == ()
    assert (found.reference_solved, found.do_nothing_paid) == (n, 0)
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
