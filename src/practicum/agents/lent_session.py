"""A session as a function in another thread may use it."""

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from typing import Any

from practicum.core.trace import ToolCall

__all__ = ["LentSession"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LentSession:
    """Carries calls to the thread that the session belongs to.

    For an async function `call`, `act` and `outcome` are awaited; for a blocking one they return
    what the session answers.
    """

    session: Any
    home: asyncio.AbstractEventLoop
    blocking: bool

    @classmethod
    def of(cls, session: Any, *, blocking: bool) -> "LentSession":
        """A session of the running event loop."""
        return cls(session=session, home=asyncio.get_running_loop(), blocking=blocking)

    def prompt(self) -> Any:
        """The messages that open the conversation."""
        return self.session.prompt()

    def tools(self) -> Any:
        """Tools that can be called; none in a discrete session."""
        return self.session.tools() if hasattr(self.session, "tools") else []

    def actions(self) -> Any:
        """The ways to act now; none in a session with tools."""
        return self.session.actions() if hasattr(self.session, "actions") else ()

    def call(self, call: ToolCall) -> Any:
        """Carry out one tool call."""
        return self._at_home(self.session.call(call))

    def act(self, text: str) -> Any:
        """Carry out the action written as `text`."""
        return self._at_home(self.session.act(text))

    def outcome(self) -> Any:
        """The evidence so far."""
        return self._at_home(self.session.outcome())

    def _at_home(self, coroutine: Coroutine[Any, Any, Any]) -> Awaitable[Any] | Any:
        pending = asyncio.run_coroutine_threadsafe(coroutine, self.home)
        return pending.result() if self.blocking else asyncio.wrap_future(pending)
