"""Abilities besides the contract: what is said is read, what is not said has one default."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest

from practicum.core import capabilities
from practicum.core.capabilities import (
    FindsTasks,
    HasLevels,
    HasReferenceTurns,
    HasSandboxKind,
    HasTaskList,
    InSandboxes,
    OutOfProcess,
    TakesTypedLines,
    actions_of,
    context_length,
    default_reward,
    every_task,
    sandbox_kind,
    session_kind,
    shows_data,
    tools_of,
)
from practicum.core.command import CommandResult, CommandStatus
from practicum.core.interfaces import DiscreteSession, Session
from practicum.core.task import Split, Task
from practicum.engine.sampling.scripted_sampler import ScriptedSampler
from practicum.environments.registry import build_environment
from practicum.sandboxes.fake_sandbox import FakeSandboxes

TASK = Task(id="t", env="bare", split="train", instruction="do it")


class Bare:
    """The contract and nothing else."""

    name = "bare"

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        yield TASK

    def open(self, task: Task) -> Any:
        raise NotImplementedError("nothing is opened here")

    def reference(self, task: Task) -> Sequence[str]:
        return ()


class Declaring(Bare):
    """Says all there is to say: by the class, by the object, by a property."""

    default_reward: ClassVar[str] = "os"
    shows_data: ClassVar[bool] = True

    def __init__(self) -> None:
        self.sandbox_kind = "podman"

    @property
    def session_kind(self) -> str:
        return "tools"

    def every_task(self) -> Sequence[Task]:
        return (TASK,)


def test_what_an_environment_does_not_say_has_a_default() -> None:
    said = (session_kind(Bare()), default_reward(Bare()), shows_data(Bare()), sandbox_kind(Bare()))
    assert said == ("discrete", "turns", False, "")
    assert every_task(Bare()) is None


def test_what_an_environment_says_is_read_wherever_it_says_it() -> None:
    one = Declaring()
    assert (session_kind(one), default_reward(one)) == ("tools", "os")
    assert (shows_data(one), sandbox_kind(one)) == (True, "podman")
    assert every_task(one) == (TASK,)


def test_an_error_inside_a_property_is_not_taken_for_its_absence() -> None:
    class Broken(Bare):
        @property
        def sandbox_kind(self) -> str:
            raise OSError("no machine")

    with pytest.raises(OSError, match="no machine"):
        sandbox_kind(Broken())


def shell(opened: list[str], **options: Any) -> Any:
    """The shell environment over sandboxes that are counted when they are opened."""

    def opener(kind: str) -> FakeSandboxes:
        opened.append(kind)
        done = CommandResult(status=CommandStatus.OK, exit_code=0)
        return FakeSandboxes(lambda ran: done)

    environment: Any = build_environment("shell", options)
    environment.use_sandboxes(opener)
    return environment


def test_only_the_question_for_their_kind_opens_sandboxes_and_only_once() -> None:
    opened: list[str] = []
    environment = shell(opened)
    protocols = [
        ability
        for ability in vars(capabilities).values()
        if getattr(ability, "_is_runtime_protocol", False) and ability is not HasSandboxKind
    ]
    found = {ability for ability in protocols if isinstance(environment, ability)}
    assert found >= {
        FindsTasks,
        HasLevels,
        HasReferenceTurns,
        HasTaskList,
        InSandboxes,
        OutOfProcess,
        TakesTypedLines,
    }
    assert opened == []
    assert sandbox_kind(environment) == sandbox_kind(environment) == "fake"
    assert len(opened) == 1


@pytest.mark.parametrize("protocol", ["text", "tools"])
async def test_a_session_is_of_the_kind_that_its_environment_says(protocol: str) -> None:
    environment = shell([], protocol=protocol)
    has_tools = session_kind(environment) == "tools"
    assert has_tools == (protocol == "tools")
    async with environment.open(next(environment.tasks("train", 0))) as session:
        assert isinstance(session, Session) == has_tools
        assert isinstance(session, DiscreteSession) != has_tools
        assert actions_of(session) == ()
        assert [tool.name for tool in tools_of(session)][:1] == ["bash"] * has_tools


async def test_the_actions_of_a_discrete_session_are_read_and_it_has_no_tools() -> None:
    environment = build_environment("math")
    async with environment.open(next(environment.tasks("train", 0))) as session:
        assert "simplify" in [form.name for form in actions_of(session)]
        assert tools_of(session) == []


def test_a_sampler_that_does_not_say_how_much_it_reads_has_no_limit() -> None:
    sampler: Any = ScriptedSampler(lambda request: "hello")
    assert context_length(sampler) == 0
    sampler.context_tokens = 512
    assert context_length(sampler) == 512
