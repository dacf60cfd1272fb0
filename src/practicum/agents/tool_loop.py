"""The agent of environments with tools: one call a turn until something ends the episode."""

from dataclasses import dataclass

from practicum.core.errors import ContextFull, EnvironmentFailure, boundary
from practicum.core.interfaces import Conversation, Session
from practicum.core.tool_calls import MalformedCall, read_tool_call
from practicum.core.trace import Message, StopReason

__all__ = ["ToolLoopAgent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLoopAgent:
    """Samples a tool call, carries it out, shows the model what came of it.

    A call that cannot be read costs a turn and is answered with what is wrong about it.
    """

    max_turns: int = 8

    async def run(self, session: Session, conversation: Conversation) -> StopReason:
        """Drive the session call by call."""
        with boundary(EnvironmentFailure, "the environment"):
            messages = session.prompt()
            tools = tuple(session.tools())
        for _ in range(self.max_turns):
            try:
                completion = await conversation.complete(messages, tools=tools)
            except ContextFull:
                return StopReason.CONTEXT_FULL
            try:
                call = read_tool_call(completion.text, tools)
            except MalformedCall as wrong:
                messages = [Message(role="tool", content=f"Error: {wrong}.", is_error=True)]
                continue
            with boundary(EnvironmentFailure, "the environment"):
                observation = await session.call(call)
            if observation.terminated:
                return StopReason.FINISHED
            messages = [observation.message]
        return StopReason.MAX_TURNS
