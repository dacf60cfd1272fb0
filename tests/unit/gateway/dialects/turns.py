"""Turns as a model could have sampled them, for the tests of dialects."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from practicum.core.conversation import TurnDelta
from practicum.core.sampling import Completion
from practicum.core.trace import Message, ToolCall
from practicum.gateway.requests import AnswerFacts, ChatTurn, StreamEvent

FACTS = AnswerFacts(id="a1", model="tiny", created=1_700_000_000, token_text=chr)

WEATHER = ToolCall(name="weather", arguments={"city": "Köln", "days": 2}, id="call_0")
CLOCK = ToolCall(name="clock", arguments={}, id="call_1")

SPOKEN = Message(role="assistant", content="It rains.")
CALLING = Message(role="assistant", content="", tool_calls=(WEATHER,))
EVERYTHING = Message(
    role="assistant", content="Let me see.", reasoning="Which city?", tool_calls=(WEATHER, CLOCK)
)
SILENT = Message(role="assistant", content="")
TURNS = {"spoken": SPOKEN, "calling": CALLING, "everything": EVERYTHING, "silent": SILENT}


def turn_of(message: Message, **changes: object) -> ChatTurn:
    """An answered request; its tokens are the bytes of what was said."""
    ids = tuple(message.content.encode())
    completion = Completion(
        token_ids=ids,
        text=message.content,
        logprobs=tuple(-0.5 for _ in ids),
        loss_mask=(True,) * len(ids),
        log_kept=(),
        choices=(),
        temperature=1.0,
        fingerprint="f",
        finished=True,
        ended_turn=True,
        cached_tokens=3,
    )
    completion = replace(completion, **changes)  # type: ignore[arg-type]
    return ChatTurn(
        message=message, completion=completion, prompt_tokens=10, node=1, prompt_ids=(7,) * 10
    )


def in_small_pieces(deltas: Sequence[TurnDelta]) -> list[TurnDelta]:
    """The same turn, told a character at a time; names of tools come whole."""
    return [
        replace(delta, text=piece)
        for delta in deltas
        for piece in ([delta.text] if delta.kind == "call" else delta.text)
    ]


async def stream_of(deltas: Sequence[TurnDelta], turn: ChatTurn) -> AsyncIterator[StreamEvent]:
    """What the server would tell of a turn while it is sampled."""
    for delta in deltas:
        yield StreamEvent(delta=delta)
    yield StreamEvent(turn=turn)


def without_ids(message: Message) -> Message:
    """What was said, whatever its calls are called."""
    calls = tuple(replace(call, id="") for call in message.tool_calls)
    return replace(message, tool_calls=calls)
