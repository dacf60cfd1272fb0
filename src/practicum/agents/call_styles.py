"""How a model's turn says which tools to call, in each of the styles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from practicum.agents.react import OBSERVATION, final_answer, read_react_call, with_react_rules
from practicum.core.sampling import Completion
from practicum.core.tool_calls import MalformedCall, check_call, read_tool_call
from practicum.core.trace import Message, ToolCall, ToolSpec

__all__ = ["CallStyle", "NativeCalls", "ReactCalls", "ReadTurn", "TextCalls", "Wish"]

ReadTurn = Callable[[Sequence[int], Sequence[ToolSpec]], Message]
"""A sampled turn as a message with its tool calls; see `core.conversing.HistoryCodec.read`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One thing a turn asks for: a call, or what is wrong with it."""

    call: ToolCall
    wrong: str = ""
    """Why it cannot be carried out, as a sentence for the model."""
    is_text: bool = False
    """Whether the turn called nothing at all."""


class CallStyle(Protocol):
    """Shows tools to the model and reads its calls."""

    def opening(
        self, messages: Sequence[Message], tools: tuple[ToolSpec, ...]
    ) -> tuple[list[Message], tuple[ToolSpec, ...]]:
        """The opening messages, and the tools that the chat template is to show."""
        ...

    def wishes(self, completion: Completion, tools: Sequence[ToolSpec]) -> list[Wish]:
        """What a turn asks for, in its order; at least one."""
        ...

    def answer(self, message: Message, call: ToolCall) -> Message:
        """What a tool answered, as the model is shown it."""
        ...


class TextCalls:
    """The first JSON object of a turn is its call, tagged or not."""

    def opening(
        self, messages: Sequence[Message], tools: tuple[ToolSpec, ...]
    ) -> tuple[list[Message], tuple[ToolSpec, ...]]:
        """As they are: the template shows the tools."""
        return list(messages), tools

    def wishes(self, completion: Completion, tools: Sequence[ToolSpec]) -> list[Wish]:
        """The one call, or why there is none."""
        try:
            return [Wish(call=read_tool_call(completion.text, tools))]
        except MalformedCall as wrong:
            is_text = "{" not in completion.text and "<tool_call>" not in completion.text
            return [Wish(call=ToolCall(name=""), wrong=str(wrong), is_text=is_text)]

    def answer(self, message: Message, call: ToolCall) -> Message:
        """As it is."""
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCalls(TextCalls):
    """Calls as the model's chat template writes them, several in a turn if it likes.

    A turn in which none is found is read as text, so that a model that leaves out the markup, or
    gets it wrong, is understood or told what is wrong.
    """

    read: ReadTurn

    def wishes(self, completion: Completion, tools: Sequence[ToolSpec]) -> list[Wish]:
        """Every call of the turn, each checked on its own."""
        message = self.read(completion.token_ids, tools)
        if not message.tool_calls:
            return TextCalls.wishes(self, completion, tools)
        return [_checked(call, tools) for call in message.tool_calls]

    def answer(self, message: Message, call: ToolCall) -> Message:
        """With the id of the call that it answers."""
        return replace(message, tool_call_id=call.id) if call.id else message


class ReactCalls:
    """Lines that begin with Thought, Action and Action Input; answers are observations."""

    def opening(
        self, messages: Sequence[Message], tools: tuple[ToolSpec, ...]
    ) -> tuple[list[Message], tuple[ToolSpec, ...]]:
        """The form is explained in the system message, and the template shows no tools."""
        return with_react_rules(messages, tools), ()

    def wishes(self, completion: Completion, tools: Sequence[ToolSpec]) -> list[Wish]:
        """The one action; `Final Answer` is a turn without one."""
        try:
            return [Wish(call=read_react_call(completion.text, tools))]
        except MalformedCall as wrong:
            said = final_answer(completion.text)
            is_text = said is not None or "Action" not in completion.text
            return [Wish(call=ToolCall(name=""), wrong=str(wrong), is_text=is_text)]

    def answer(self, message: Message, call: ToolCall) -> Message:
        """From the user, after `Observation:`, since the template knows of no tools."""
        return Message(
            role="user", content=f"{OBSERVATION} {message.content}", is_error=message.is_error
        )


def _checked(call: ToolCall, tools: Sequence[ToolSpec]) -> Wish:
    try:
        return Wish(call=check_call(call, tools))
    except MalformedCall as wrong:
        return Wish(call=call, wrong=str(wrong))
