"""Input items of the Responses API as messages.

One turn of ours is answered as several items: reasoning, a message, calls. Items that come back
are put together again into the one message they were, because a turn is recognised as a whole.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from practicum.core.trace import Message, Role, ToolCall
from practicum.gateway.dialects.dialect import Earlier
from practicum.gateway.dialects.fields import Fields, arguments_of, refuse
from practicum.gateway.dialects.openai_responses.output import items_of_message

__all__ = ["messages_of_items"]

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
TEXT_PARTS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
}
"""Kinds of content that are words, and the field that holds the words."""


def messages_of_items(
    items: Sequence[Mapping[str, Any]], earlier: Earlier | None = None
) -> list[Message]:
    """The conversation that input items state; `earlier` finds answers that items refer to."""
    found: list[Message] = []
    for index, value in enumerate(items):
        item = Fields(value, f"input[{index}]")
        kind = item.text("type", "message" if item.has("role") else "item_reference")
        if kind == "item_reference":
            item = _referred(item, earlier)
            kind = item.text("type")
        read = READERS.get(kind)
        if read is None:
            allowed = ", ".join(READERS)
            raise refuse(
                f"{item.where} is a {kind!r:.60}; items of these types are read: {allowed}",
                item.where,
            )
        read(found, item)
    return found


def _referred(item: Fields, earlier: Earlier | None) -> Fields:
    """An item of an answer of this rollout, found by its id."""
    name = item.text("id")
    answer, _, index = name.removeprefix("item_").rpartition("_")
    conversation = earlier(answer) if earlier and answer else None
    items = items_of_message(conversation[-1], answer, "completed") if conversation else []
    if not index.isdigit() or int(index) >= len(items):
        raise refuse(
            f"{item.where} refers to {name!r:.80}, which this rollout did not answer; send the "
            "item itself",
            item.where,
        )
    return Fields(items[int(index)], item.where)


def _read_message(found: list[Message], item: Fields) -> None:
    role = ROLES.get(item.text("role"))
    if role is None:
        allowed = ", ".join(ROLES)
        place = item.named("role")
        raise refuse(f"{place} is {item.text('role')!r:.60}; it must be {allowed}", place)
    content = _words_of(item, "content")
    if role != "assistant":
        found.append(Message(role=role, content=content))
    elif _is_open_turn(found) and not found[-1].content:
        found[-1] = replace(found[-1], content=content)
    else:
        found.append(Message(role=role, content=content))


def _read_reasoning(found: list[Message], item: Fields) -> None:
    words = _words_of(item, "content") or _words_of(item, "summary")
    found.append(Message(role="assistant", content="", reasoning=words))


def _read_call(found: list[Message], item: Fields) -> None:
    call = ToolCall(
        id=item.text("call_id"),
        name=item.text("name"),
        arguments=arguments_of(item.text("arguments", ""), item.named("arguments")),
    )
    if not _is_open_turn(found):
        found.append(Message(role="assistant", content=""))
    found[-1] = replace(found[-1], tool_calls=(*found[-1].tool_calls, call))


def _read_result(found: list[Message], item: Fields) -> None:
    words = _words_of(item, "output")
    found.append(Message(role="tool", content=words, tool_call_id=item.text("call_id")))


READERS: Mapping[str, Callable[[list[Message], Fields], None]] = {
    "message": _read_message,
    "reasoning": _read_reasoning,
    "function_call": _read_call,
    "function_call_output": _read_result,
}


def _is_open_turn(found: list[Message]) -> bool:
    return bool(found) and found[-1].role == "assistant"


def _words_of(item: Fields, name: str) -> str:
    """A text, or a list of parts that are all text."""
    if isinstance(item.values.get(name), str):
        return item.text(name)
    words: list[str] = []
    for part in item.items(name):
        kind = part.text("type")
        if kind not in TEXT_PARTS:
            raise refuse(f"{part.where} is {kind!r:.60}; the model reads text only", part.where)
        words.append(part.text(TEXT_PARTS[kind]))
    return "".join(words)
