"""A turn as the events of a streamed Anthropic message, while it is sampled."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from practicum.core.conversing import TurnDelta
from practicum.gateway.dialects.anthropic.answer import (
    empty_message,
    stop_of,
    token_ids_of,
    usage_of,
)
from practicum.gateway.dialects.call_ids import call_id
from practicum.gateway.dialects.deltas import deltas_of
from practicum.gateway.dialects.sse import typed_event
from practicum.gateway.requests import AnswerFacts, Asked, ChatTurn, Happening

__all__ = ["MessageWriter", "stream_events"]

Event = dict[str, Any]


async def stream_events(
    asked: Asked, facts: AnswerFacts, happenings: AsyncIterator[Happening]
) -> AsyncIterator[str]:
    """The answer as server-sent events."""
    writer = MessageWriter(asked, facts)
    for event in writer.start():
        yield typed_event(event)
    async for happening in happenings:
        if happening.delta is not None:
            for event in writer.delta(happening.delta):
                yield typed_event(event)
        if happening.turn is not None:
            for event in writer.end(happening.turn):
                yield typed_event(event)


class MessageWriter:
    """Turns deltas into events. Blocks are opened and closed one after another."""

    def __init__(self, asked: Asked, facts: AnswerFacts) -> None:
        self._asked = asked
        self._facts = facts
        self._open: tuple[str, int] | None = None
        """Kind of the block under way, and which call it is."""
        self._index = 0

    def start(self) -> Iterator[Event]:
        """What is sent before the first token."""
        yield {"type": "message_start", "message": empty_message(self._facts)}

    def delta(self, delta: TurnDelta) -> Iterator[Event]:
        """What a piece of the turn adds."""
        if delta.kind == "call":
            name = {"id": call_id(self._facts.id, delta.index), "name": delta.text}
            block = {"type": "tool_use", **name, "input": {}}
            yield from self._begin(("call", delta.index), block)
            return
        if delta.kind == "arguments":
            piece = {"type": "input_json_delta", "partial_json": delta.text}
        elif delta.kind == "reasoning":
            if self._open != ("reasoning", 0):
                block = {"type": "thinking", "thinking": "", "signature": ""}
                yield from self._begin(("reasoning", 0), block)
            piece = {"type": "thinking_delta", "thinking": delta.text}
        else:
            if self._open != ("content", 0):
                yield from self._begin(("content", 0), {"type": "text", "text": ""})
            piece = {"type": "text_delta", "text": delta.text}
        yield {"type": "content_block_delta", "index": self._index, "delta": piece}

    def end(self, turn: ChatTurn) -> Iterator[Event]:
        """The last block's end, why the turn ended, and what it cost."""
        if self._index == 0 and self._open is None:  # it was not told while it was sampled
            for delta in deltas_of(turn.message):
                yield from self.delta(delta)
        yield from self._close()
        ids = token_ids_of(self._asked, turn)
        yield {"type": "message_delta", "delta": stop_of(turn), "usage": usage_of(turn), **ids}
        yield {"type": "message_stop"}

    def _begin(self, kind: tuple[str, int], block: dict[str, Any]) -> Iterator[Event]:
        yield from self._close()
        self._open = kind
        yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def _close(self) -> Iterator[Event]:
        if self._open is None:
            return
        yield {"type": "content_block_stop", "index": self._index}
        self._index += 1
        self._open = None
