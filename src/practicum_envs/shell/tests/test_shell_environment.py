import asyncio
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import ConfigError, UserError
from practicum.environments.checker import check_environment
from practicum.environments.reference_policies import ReferenceActor, ScriptActor, play_episode
from practicum.environments.registry import build_environment
from practicum_envs.shell.shell_environment import ShellEnvironment, ShellOptions
from practicum_envs.shell.tests.builders import (
    REFERENCE,
    TouchMachines,
    make_environment,
    make_task,
    ok,
    script_in,
)


@pytest.mark.parametrize("protocol", ["text", "tools"])
async def test_the_reference_solves_and_near_misses_do_not(protocol: str) -> None:
    environment, machines = make_environment(protocol=protocol)
    task = make_task(near_misses=["touch /a/c"])
    turns = environment.reference(task)
    assert len(turns) == 2
    played = await play_episode(environment, task, ScriptActor(turns))
    assert played.outcome.success is True
    assert played.terminated
    (miss,) = environment.near_misses(task)
    assert (await play_episode(environment, task, ScriptActor(miss))).outcome.success is False
    assert all(box.is_closed for _, box in machines.opened)


async def test_an_answer_is_what_the_reference_prints_on_the_same_machine() -> None:
    printed = iter(["41\n", "42\n"])

    def instead(ran: Any) -> Any:
        return ok(next(printed)) if script_in(ran) == REFERENCE and not ran.is_judge else None

    environment, machines = make_environment(TouchMachines(instead))
    task = make_task(check={"kind": "chain", "scripts": ["x"]})
    actor = ReferenceActor(environment)
    for number in ("41", "42"):
        played = await play_episode(environment, task, actor)
        assert played.texts[1] == f"Act: answer({number})"
        assert machines.opened[-1][1].ran[-1].command[-1] == number
    assert len(machines.opened) == 2


def test_a_wanted_answer_is_the_reference() -> None:
    environment, _ = make_environment()
    task = make_task(check={"kind": "match", "answer": "7", "strip": True})
    assert environment.reference(task) == ["Act: answer(7)"]
    unknown = make_task(check={"kind": "match", "regex": "7"}, reference=None)
    assert environment.reference(unknown) == []


async def test_sandboxes_are_opened_when_needed_and_again_after_a_close() -> None:
    opened: list[str] = []

    def opener(kind: str) -> TouchMachines:
        opened.append(kind)
        return TouchMachines()

    environment = ShellEnvironment(ShellOptions(sandbox="bubblewrap"))
    environment.use_sandboxes(opener)
    assert opened == []
    assert environment.sandbox_kind == "fake"
    async with environment.open(make_task()):
        assert opened == ["bubblewrap"]
    await environment.close()
    await environment.close()
    async with environment.open(make_task()):
        assert opened == ["bubblewrap", "bubblewrap"]


async def test_no_more_machines_are_open_than_allowed() -> None:
    environment, machines = make_environment(machines=2)
    most = 0

    async def one() -> None:
        nonlocal most
        async with environment.open(make_task()):
            most = max(most, sum(not box.is_closed for _, box in machines.opened))
            await asyncio.sleep(0)

    await asyncio.gather(*(one() for _ in range(6)))
    assert (most, len(machines.opened)) == (2, 6)


async def test_the_machine_gets_the_limits() -> None:
    environment, machines = make_environment(memory_mb=64, disk_mb=32, processes=16)
    async with environment.open(make_task()):
        spec = machines.opened[0][0]
    assert (spec.memory_mb, spec.disk_mb, spec.processes) == (64, 32, 16)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"level": 9}, "levels are 1 to 8"),
        ({"level": []}, "levels are 1 to 8"),
        ({"protocol": "json"}, "env.protocol = 'json'"),
        ({"sandbox": "none"}, "env.sandbox = 'none'"),
        ({"rounds": 0}, "env.rounds = 0"),
        ({"round": 3}, "did you mean 'env.rounds'"),
        ({"data": "x.json", "level": 2}, "levels are for generated tasks"),
    ],
)
def test_a_wrong_option_is_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        build_environment("shell", options)


def test_generated_tasks_mix_the_levels_evenly_and_can_be_found_by_id() -> None:
    environment, _ = make_environment(level=[1, 3])
    tasks = list(islice(environment.tasks("heldout", 5), 4))
    assert [task.level for task in tasks] == [1, 3, 1, 3]
    assert {(task.env, task.split) for task in tasks} == {("shell", "heldout")}
    assert environment.find(tasks[1].id) == tasks[1]
    assert environment.every_task() is None
    with pytest.raises(UserError, match="nonsense"):
        environment.find("nonsense")


async def test_the_checker_plays_several_machines_at_once_and_counts_near_misses() -> None:
    """Fake machines solve whatever contains the reference's command."""

    class One(ShellEnvironment):
        def every_task(self) -> Any:
            return [make_task(near_misses=["true", f"{REFERENCE} "])]

        def tasks(self, split: Any, seed: int) -> Any:
            return iter(())

    environment = One(ShellOptions())
    environment.use_sandboxes(lambda kind: TouchMachines())
    report = await check_environment(lambda level: environment, levels=[1], n=None)
    (found,) = report.levels
    assert (found.n, found.reference_solved, found.do_nothing_paid) == (1, 1, 0)
    assert (found.near_misses, found.near_miss_solved) == (2, 1)
    assert "task 'one': near-miss 2 is accepted" in found.problems
    assert not report.is_sound


def test_a_typed_line_becomes_a_turn() -> None:
    text, _ = make_environment()
    assert text.turn_from_line("ls -l") == "Act: bash\n```bash\nls -l\n```"
    assert text.turn_from_line("finish") == "Act: finish"
    assert text.turn_from_line("answer 4 2") == "Act: answer(4 2)"
    assert text.turn_from_line("finish-it") == "Act: bash\n```bash\nfinish-it\n```"
    tools, _ = make_environment(protocol="tools")
    assert '"script": "ls"' in tools.turn_from_line("ls")


def test_a_missing_data_file_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no .*none\.json; give a Lifelong"):
        build_environment("shell", {"data": str(tmp_path / "none.json")})
