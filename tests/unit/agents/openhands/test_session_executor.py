"""What OpenHands asks for, done in a session."""

from typing import Any

import pytest

from practicum.agents.openhands.openhands_agent import SessionExecutor, kept_folder
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.interfaces import Observation
from practicum.core.task import Outcome
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum_envs.shell.protocol import TOOLS, example_messages


class Recorded:
    """A session that ends as told."""

    def __init__(self, tools: Any = TOOLS, ends_after: int = 99) -> None:
        self._tools, self._ends_after = tools, ends_after
        self.called: list[tuple[str, dict[str, Any]]] = []

    def prompt(self) -> list[Message]:
        return []

    def tools(self) -> list[ToolSpec]:
        return list(self._tools)

    async def call(self, call: ToolCall) -> Observation:
        if call.arguments.get("script") == "break":
            raise OSError("gone")
        self.called.append((call.name, dict(call.arguments)))
        over = call.name != "bash" or len(self.called) >= self._ends_after
        return Observation(message=Message(role="tool", content="out"), terminated=over)

    async def outcome(self) -> Outcome:
        return Outcome(success=None)


async def test_a_command_is_run_and_what_it_prints_is_told() -> None:
    session = Recorded()
    executor = SessionExecutor.of(session)
    assert await executor.run("ls") == {"text": "out", "is_error": False, "over": False}
    assert session.called == [("bash", {"script": "ls"})]


async def test_a_session_that_is_over_is_not_called_again() -> None:
    session = Recorded(ends_after=1)
    executor = SessionExecutor.of(session)
    assert (await executor.run("ls"))["over"] is True
    assert (await executor.run("ls"))["text"] == "The task is closed."
    await executor.finish("late")
    assert len(session.called) == executor.commands == 1


@pytest.mark.parametrize(
    ("names", "last_word", "called"),
    [
        (("bash", "finish", "answer"), "42", [("answer", {"answer": "42"})]),
        (("bash", "finish", "answer"), "", [("finish", {"thought": ""})]),
        (("bash", "finish"), "42", [("finish", {"thought": "42"})]),
        (("bash", "answer"), "", []),
        (("bash",), "42", []),
    ],
)
async def test_the_last_word_is_given_by_the_sessions_own_means(
    names: tuple[str, ...], last_word: str, called: list[Any]
) -> None:
    session = Recorded([tool for tool in TOOLS if tool.name in names])
    await SessionExecutor.of(session).finish(last_word)
    assert session.called == called


async def test_a_tool_without_arguments_can_end_a_session() -> None:
    session = Recorded([TOOLS[0], ToolSpec(name="finish")])
    await SessionExecutor.of(session).finish("done")
    assert session.called == [("finish", {})]


async def test_a_broken_machine_is_the_environments_failure() -> None:
    with pytest.raises(EnvironmentFailure, match="OSError: gone"):
        await SessionExecutor.of(Recorded()).run("break")


def test_an_example_of_the_session_becomes_one_of_openhands() -> None:
    executor = SessionExecutor.of(Recorded())
    asked, *rest = example_messages("tools")
    assert executor.example([asked, *rest]) == [
        {"do": "ask", "with": "", "text": asked.content},
        {
            "do": "run",
            "with": "mkdir -p /srv/example && echo hello > /srv/example/greeting.txt",
            "text": "The output of the OS is empty.",
        },
        {"do": "finish", "with": "Done.", "text": "The task is closed."},
    ]
    answered = ToolCall(name="answer", arguments={"answer": "42"})
    last = Message(role="assistant", content="", tool_calls=(answered,))
    assert executor.example([asked, last])[1]["with"] == "42"
    assert executor.example([]) == []


def test_a_session_without_commands_or_tools_is_refused() -> None:
    with pytest.raises(UserError, match="it has: none"):
        SessionExecutor.of(object())
    with pytest.raises(UserError, match="it has: juggle"):
        SessionExecutor.of(Recorded([ToolSpec(name="juggle")]))


def test_folders_of_events_stay_under_the_run(tmp_path: Any) -> None:
    for odd in ("../../etc/passwd", "a/../../b", "/etc", "a//b", ".", "x\0y/é z"):
        folder = kept_folder(tmp_path, odd)
        assert folder.resolve().is_relative_to(tmp_path.resolve() / "openhands"), odd
        assert ".." not in folder.parts
