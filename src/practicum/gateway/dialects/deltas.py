"""A whole turn as deltas, for streams of turns that were not told while they were sampled."""

import json
from collections.abc import Iterator

from practicum.core.conversing import TurnDelta
from practicum.core.trace import Message

__all__ = ["deltas_of"]


def deltas_of(said: Message) -> Iterator[TurnDelta]:
    """The turn in as few pieces as it has parts.

    >>> [delta.kind for delta in deltas_of(Message(role="assistant", content="Yes."))]
    ['content']
    """
    if said.reasoning:
        yield TurnDelta(kind="reasoning", text=said.reasoning)
    if said.content:
        yield TurnDelta(kind="content", text=said.content)
    for index, call in enumerate(said.tool_calls):
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        yield TurnDelta(kind="call", text=call.name, index=index)
        yield TurnDelta(kind="arguments", text=arguments, index=index)
