"""A narrated episode is the same episode, printed."""

import inspect
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from practicum.cli.play import _Narrated
from practicum.core.capabilities import default_reward, session_kind, shows_data
from practicum.core.command import CommandResult, CommandStatus
from practicum.core.interfaces import DiscreteSession, Session
from practicum.core.trace import ToolCall
from practicum.environments.registry import build_environment
from practicum.sandboxes.fake_sandbox import FakeSandboxes

SESSION = ("prompt", "outcome")
DISCRETE, TOOLS = (*SESSION, "actions", "act"), (*SESSION, "tools", "call")


def shell(protocol: str) -> Any:
    done = CommandResult(status=CommandStatus.OK, exit_code=0, stdout="hi\n")
    environment: Any = build_environment("shell", {"protocol": protocol})
    environment.use_sandboxes(lambda kind: FakeSandboxes(lambda ran: done))
    return environment


def found_without_getattr(value: Any, *names: str) -> bool:
    """Whether `isinstance` sees the names: from Python 3.12 on it asks in this way."""
    missing = object()
    return all(inspect.getattr_static(value, name, missing) is not missing for name in names)


@pytest.mark.parametrize("protocol", ["text", "tools"])
def test_a_narrated_environment_says_of_itself_what_it_said_before(protocol: str) -> None:
    environment = shell(protocol)
    narrated = _Narrated(environment, Console(file=StringIO()))
    for ask in (session_kind, default_reward, shows_data):
        assert ask(narrated) == ask(environment)  # type: ignore[operator]
    assert narrated.name == "shell"
    assert found_without_getattr(narrated, "session_kind", "default_reward", "shows_data")


async def test_each_kind_of_session_stays_of_its_kind_and_prints_its_turns() -> None:
    printed = StringIO()
    console = Console(file=printed, width=100)
    text, tools = shell("text"), shell("tools")
    task = next(text.tasks("train", 0))
    async with _Narrated(text, console).open(task) as session:
        assert isinstance(session, DiscreteSession)
        assert not isinstance(session, Session)
        assert found_without_getattr(session, *DISCRETE)
        await session.act("Act: bash\n```bash\necho one\n```")
    async with _Narrated(tools, console).open(task) as session:
        assert isinstance(session, Session)
        assert not isinstance(session, DiscreteSession)
        assert found_without_getattr(session, *TOOLS)
        await session.call(ToolCall(name="bash", arguments={"script": "echo two"}))
        assert session.prompt()
    assert "echo one" in printed.getvalue()
    assert "script: echo two" in printed.getvalue()
