"""What OpenHands asks for, done in the session: its commands, and the end of its work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from practicum.core.errors import EnvironmentFailure, UserError, boundary
from practicum.core.interfaces import Session
from practicum.core.tool_calls import read_tool_call
from practicum.core.trace import Message, ToolCall, ToolSpec

__all__ = ["SessionDesk"]

TERMINALS = ("bash", "terminal", "shell", "execute_bash")
"""Names of a session's tool that runs commands, the first that is there."""

CLOSED = "The task is closed."


@dataclass(slots=True)
class SessionDesk:
    """Takes the commands of one conversation to its session."""

    session: Session
    terminal: str
    """The session's tool that runs commands."""
    argument: str
    """Which of its arguments is the command."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """The session's tools that end it, and the argument that takes the last word."""
    commands: int = 0
    is_over: bool = False

    @classmethod
    def of(cls, session: Any) -> "SessionDesk":
        """The desk of a session that has a tool for commands."""
        # An environment of single actions has no tools, and its sessions no such method.
        offered = {tool.name: tool for tool in session.tools()} if _has_tools(session) else {}
        for name in TERMINALS:
            if name in offered:
                ends = {n: _first_argument(offered[n]) for n in ENDS if n in offered}
                return cls(session, name, _first_argument(offered[name]), ends)
        raise UserError(
            "the agent openhands works with commands, and the environment has no tool for them "
            f"(it has: {', '.join(offered) or 'none'}); write env: {{name: shell, protocol: tools}}"
        )

    def example(self, shown: Sequence[Message]) -> list[dict[str, str]]:
        """A conversation of the session's tools as one of OpenHands': its task, then its steps."""
        if not shown or shown[0].role != "user":
            return []
        steps = [{"do": "ask", "with": "", "text": shown[0].content}]
        tools = self.session.tools()
        for place, message in enumerate(shown):
            if message.role != "assistant":
                continue
            call = (message.tool_calls or (read_tool_call(message.content, tools),))[0]
            seen = shown[place + 1].content if place + 1 < len(shown) else CLOSED
            if call.name == self.terminal:
                command = str(call.arguments.get(self.argument, ""))
                steps.append({"do": "run", "with": command, "text": seen})
            else:
                said = str(call.arguments.get(self.ends.get(call.name, ""), "")) or "Done."
                steps.append({"do": "finish", "with": said, "text": CLOSED})
        return steps

    async def run(self, command: str) -> dict[str, Any]:
        """Run a command in the sandbox; what OpenHands is told of it."""
        if self.is_over:
            return {"text": CLOSED, "is_error": True, "over": True}
        self.commands += 1
        call = ToolCall(name=self.terminal, arguments={self.argument: command})
        with boundary(EnvironmentFailure, "the environment"):
            seen = await self.session.call(call)
        self.is_over = seen.terminated
        return {
            "text": seen.message.content,
            "is_error": seen.message.is_error,
            "over": self.is_over,
        }

    async def finish(self, last_word: str) -> None:
        """End the session by its own means, with the agent's last word as the answer."""
        name = next((n for n in ENDS if n in self.ends and (last_word or n != "answer")), None)
        if self.is_over or name is None:
            return
        argument = self.ends[name]
        call = ToolCall(name=name, arguments={argument: last_word} if argument else {})
        with boundary(EnvironmentFailure, "the environment"):
            seen = await self.session.call(call)
        self.is_over = seen.terminated


ENDS = ("answer", "finish")
"""Tools that end a session; an answer that nobody asked for does no harm."""


def _has_tools(session: Any) -> bool:
    return callable(getattr(session, "tools", None))


def _first_argument(tool: ToolSpec) -> str:
    """The first argument a tool must have, or else may have."""
    required, known = tool.parameters.get("required"), tool.parameters.get("properties")
    names = [*(required if isinstance(required, list) else ())]
    names += [*(known if isinstance(known, dict) else ())]
    return str(names[0]) if names else ""
