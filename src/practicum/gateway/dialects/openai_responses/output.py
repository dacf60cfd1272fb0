"""A turn as output items: reasoning, a message, calls."""

import json
from typing import Any

from practicum.core.trace import Message
from practicum.gateway.dialects.call_ids import call_id

__all__ = [
    "call_item",
    "item_id",
    "items_of_message",
    "message_item",
    "reasoning_item",
    "text_part",
]

Item = dict[str, Any]


def items_of_message(said: Message, answer_id: str, status: str) -> list[Item]:
    """The items of a turn, in the order they are written."""
    items: list[Item] = []
    if said.reasoning:
        items.append(reasoning_item(item_id(answer_id, len(items)), said.reasoning, status))
    if said.content or not said.tool_calls:
        items.append(message_item(item_id(answer_id, len(items)), said.content, status))
    for index, call in enumerate(said.tool_calls):
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        at, name = item_id(answer_id, len(items)), call_id(answer_id, index)
        items.append(call_item(at, name, call.name, arguments, status))
    return items


def item_id(answer_id: str, index: int) -> str:
    """An item's id: unique in the rollout, because its answer's is."""
    return f"item_{answer_id}_{index}"


def reasoning_item(at: str, words: str, status: str) -> Item:
    """What the model thought before it spoke."""
    content = [{"type": "reasoning_text", "text": words}] if words else []
    return {"id": at, "type": "reasoning", "summary": [], "content": content, "status": status}


def message_item(at: str, words: str, status: str) -> Item:
    """What the model said."""
    return {
        "id": at,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [text_part(words)],
    }


def text_part(words: str) -> Item:
    """Words of a message."""
    return {"type": "output_text", "text": words, "annotations": [], "logprobs": []}


def call_item(at: str, call_id: str, name: str, arguments: str, status: str) -> Item:
    """A call of a tool."""
    return {
        "id": at,
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": status,
    }
