"""A turn as the events of a streamed Response, while it is sampled."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from practicum.core.conversing import TurnDelta
from practicum.gateway.dialects.call_ids import call_id
from practicum.gateway.dialects.deltas import deltas_of
from practicum.gateway.dialects.openai_responses.answer import (
    complete_body,
    status_of,
    without_output,
)
from practicum.gateway.dialects.openai_responses.output import (
    call_item,
    item_id,
    message_item,
    reasoning_item,
    text_part,
)
from practicum.gateway.dialects.sse import typed_event
from practicum.gateway.requests import AnswerFacts, Asked, ChatTurn, Happening

__all__ = ["ResponseWriter", "stream_events"]

Event = dict[str, Any]


async def stream_events(
    asked: Asked, facts: AnswerFacts, happenings: AsyncIterator[Happening]
) -> AsyncIterator[str]:
    """The answer as server-sent events."""
    writer = ResponseWriter(asked, facts)
    for event in writer.start():
        yield typed_event(event)
    async for happening in happenings:
        if happening.delta is not None:
            for event in writer.delta(happening.delta):
                yield typed_event(event)
        if happening.turn is not None:
            for event in writer.end(happening.turn):
                yield typed_event(event)


class ResponseWriter:
    """Turns deltas into events. Items are opened and closed one after another."""

    def __init__(self, asked: Asked, facts: AnswerFacts) -> None:
        self._asked = asked
        self._facts = facts
        self._sequence = 0
        self._done: list[dict[str, Any]] = []
        self._open: tuple[str, int] | None = None
        """Kind of the item under way, and which call it is."""
        self._name = ""
        self._words = ""

    def start(self) -> Iterator[Event]:
        """What is sent before the first token."""
        body = without_output(self._asked, self._facts, "in_progress")
        yield self._event("response.created", {"response": body})
        yield self._event("response.in_progress", {"response": body})

    def delta(self, delta: TurnDelta) -> Iterator[Event]:
        """What a piece of the turn adds."""
        if delta.kind == "call":
            yield from self._begin(("call", delta.index), delta.text)
            return
        kind = "call" if delta.kind == "arguments" else delta.kind
        if self._open != (kind, delta.index):
            yield from self._begin((kind, delta.index), "")
        self._words += delta.text
        beside: dict[str, Any] = {"logprobs": []} if kind == "content" else {}
        yield self._event(DELTAS[kind], {**self._place(), "delta": delta.text, **beside})

    def end(self, turn: ChatTurn) -> Iterator[Event]:
        """The last item's end and the whole Response."""
        status = status_of(turn)
        if not self._done and self._open is None:  # it was not told while it was sampled
            for delta in deltas_of(turn.message):
                yield from self.delta(delta)
        if not self._done and self._open is None:  # it is empty
            yield from self._begin(("content", 0), "")
        yield from self._close(status)
        body = complete_body(self._asked, self._facts, turn, self._done)
        yield self._event(f"response.{status}", {"response": body})

    def _begin(self, item: tuple[str, int], name: str) -> Iterator[Event]:
        yield from self._close("completed")
        self._open, self._name, self._words = item, name, ""
        shown = self._item("in_progress")
        if item[0] == "content":
            shown["content"] = []
        added = {"output_index": len(self._done), "item": shown}
        yield self._event("response.output_item.added", added)
        if item[0] == "content":
            part = {**self._place(), "part": text_part("")}
            yield self._event("response.content_part.added", part)

    def _close(self, status: str) -> Iterator[Event]:
        if self._open is None:
            return
        kind, place = self._open[0], self._place()
        item = self._item(status)
        if kind == "content":
            words = {"text": self._words, "logprobs": []}
            yield self._event("response.output_text.done", {**place, **words})
            part = {**place, "part": text_part(self._words)}
            yield self._event("response.content_part.done", part)
        elif kind == "reasoning":
            yield self._event("response.reasoning_text.done", {**place, "text": self._words})
        else:
            done = {**place, "name": item["name"], "arguments": item["arguments"]}
            yield self._event("response.function_call_arguments.done", done)
        closed = {"output_index": len(self._done), "item": item}
        yield self._event("response.output_item.done", closed)
        self._done.append(item)
        self._open = None

    def _item(self, status: str) -> dict[str, Any]:
        """The item under way, as far as it has come."""
        kind, index = self._open or ("content", 0)
        at = item_id(self._facts.id, len(self._done))
        if kind == "reasoning":
            return reasoning_item(at, self._words, status)
        if kind == "content":
            return message_item(at, self._words, status)
        arguments = self._words or ("" if status == "in_progress" else "{}")
        return call_item(at, call_id(self._facts.id, index), self._name, arguments, status)

    def _place(self) -> dict[str, Any]:
        place: dict[str, Any] = {
            "item_id": item_id(self._facts.id, len(self._done)),
            "output_index": len(self._done),
        }
        is_call = self._open is not None and self._open[0] == "call"
        return place if is_call else {**place, "content_index": 0}

    def _event(self, kind: str, fields: Mapping[str, Any]) -> Event:
        number = self._sequence
        self._sequence += 1
        return {"type": kind, "sequence_number": number, **fields}


DELTAS = {
    "content": "response.output_text.delta",
    "reasoning": "response.reasoning_text.delta",
    "call": "response.function_call_arguments.delta",
}
