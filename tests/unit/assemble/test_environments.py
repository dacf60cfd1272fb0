from typing import Any

import pytest

from practicum.assemble import environments as assembled
from practicum.assemble.environments import check_config, open_environment
from practicum.core.capabilities import sandbox_kind
from practicum.core.command import CommandResult, CommandStatus
from practicum.core.config.config_sections import EnvConfig
from practicum.core.errors import UserError
from practicum.environments.checker import LevelCheck
from practicum.environments.registry import run_and_close
from practicum.sandboxes.fake_sandbox import FakeSandboxes


class Watcher:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.total = self.tasks = 0
        self.levels: list[LevelCheck] = []

    def begin(self, tasks: int) -> None:
        self.total = tasks

    def task_done(self) -> None:
        self.tasks += 1

    def level_done(self, level: LevelCheck) -> None:
        self.levels.append(level)


class Machines(FakeSandboxes):
    """Machines on which nothing succeeds, of one kind."""

    def __init__(self) -> None:
        self.closings = 0
        failed = CommandResult(status=CommandStatus.OK, exit_code=1)
        super().__init__(lambda ran: failed)

    async def close(self) -> None:
        self.closings += 1
        await super().close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Machines]:
    """The machines that are opened in place of real ones."""
    made: list[Machines] = []

    def open_fakes(kind: str) -> Machines:
        made.append(Machines())
        return made[-1]

    monkeypatch.setattr(assembled, "open_sandboxes", open_fakes)
    return made


async def test_each_level_is_checked_with_as_many_tasks_where_that_costs_nothing() -> None:
    watcher = Watcher()
    found = await check_config(EnvConfig(name="math"), 2, 0, watcher)
    assert [(one.level, one.n) for one in found.levels] == [(n, 2) for n in range(1, 6)]
    assert (watcher.total, watcher.tasks, len(watcher.levels)) == (10, 10, 5)


@pytest.mark.parametrize(("asked", "levels"), [(3, [3]), ([2, 4], [2, 4])])
async def test_levels_that_the_options_name_are_the_ones_checked(
    asked: int | list[int], levels: list[int]
) -> None:
    found = await check_config(EnvConfig(name="math", level=asked), 1, 0, Watcher())
    assert [one.level for one in found.levels] == levels


async def test_levels_share_the_tasks_and_the_sandboxes_where_sessions_cost_something(
    opened: list[Machines],
) -> None:
    watcher = Watcher()
    found = await check_config(EnvConfig(name="shell"), 3, 0, watcher)
    assert [(one.level, one.n) for one in found.levels] == [(1, 1), (2, 1), (3, 1)]
    assert (watcher.total, watcher.tasks) == (3, 3)
    assert len(opened) == 1
    assert opened[0].closings  # by each level's environment, too, once all are done
    assert not found.is_sound


async def test_tasks_without_end_cannot_all_be_checked() -> None:
    with pytest.raises(UserError, match=r"no end to the tasks of 'shell'.*--check 300"):
        await check_config(EnvConfig(name="shell"), None, 0, Watcher())


async def test_an_environment_is_closed_whatever_becomes_of_the_work(
    opened: list[Machines],
) -> None:
    environment = open_environment(EnvConfig(name="shell"))
    assert sandbox_kind(environment) == "fake"

    async def work(fails: bool) -> str:
        if fails:
            raise ValueError("broken")
        return "done"

    assert await run_and_close(environment, work(False)) == "done"
    assert opened[0].closings == 1
    sandbox_kind(environment)
    with pytest.raises(ValueError, match="broken"):
        await run_and_close(environment, work(True))
    assert [one.closings for one in opened] == [1, 1]


async def test_an_environment_without_sandboxes_has_none_and_needs_no_closing() -> None:
    environment: Any = open_environment(EnvConfig(name="math"))

    async def work() -> int:
        return 3

    assert sandbox_kind(environment) == ""
    assert await run_and_close(environment, work()) == 3
