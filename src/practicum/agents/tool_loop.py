"""The agent of environments with tools: calls until something ends the episode."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from practicum.agents.budget import ContextBudget
from practicum.agents.call_styles import CallStyle, TextCalls, Wish
from practicum.core.errors import ContextFull, EnvironmentFailure, boundary
from practicum.core.interfaces import Conversation, Session
from practicum.core.trace import Message, StopReason

__all__ = ["ToolLoopAgent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLoopAgent:
    """Samples a turn, carries out its tool calls in order, shows the model what came of them.

    A call that cannot be read costs a turn and is answered with what is wrong about it.
    """

    max_turns: int = 8
    style: CallStyle = field(default_factory=TextCalls)
    budget: ContextBudget | None = None
    """How long the conversation may get; None is as long as the model takes."""
    on_text: Literal["ask", "finish"] = "ask"
    """A turn without any call is answered with how to call a tool; with `finish` only the first is,
    and the next one ends the episode."""

    async def run(self, session: Session, conversation: Conversation) -> StopReason:
        """Drive the session turn by turn."""
        if self.budget is not None:
            conversation = self.budget.within(conversation)
        with boundary(EnvironmentFailure, "the environment"):
            offered = tuple(session.tools())
            messages, shown = self.style.opening(session.prompt(), offered)
        was_asked = False
        for _ in range(self.max_turns):
            try:
                completion = await conversation.complete(messages, tools=shown)
            except ContextFull:
                return StopReason.CONTEXT_FULL
            wishes = self.style.wishes(completion, offered)
            if self.on_text == "finish" and wishes[0].is_text:
                if was_asked:
                    return StopReason.FINISHED
                was_asked = True
            messages, is_over = await self._carry_out(session, wishes)
            if is_over:
                return StopReason.FINISHED
        return StopReason.MAX_TURNS

    async def _carry_out(
        self, session: Session, wishes: Sequence[Wish]
    ) -> tuple[list[Message], bool]:
        """Answers to all calls of a turn, in order; those after the end are not carried out."""
        answers: list[Message] = []
        for wish in wishes:
            if wish.wrong:
                said = Message(role="tool", content=f"Error: {wish.wrong}.", is_error=True)
            else:
                with boundary(EnvironmentFailure, "the environment"):
                    observation = await session.call(wish.call)
                if observation.terminated:
                    return answers, True
                said = observation.message
            answers.append(self.style.answer(said, wish.call))
        return answers, False
