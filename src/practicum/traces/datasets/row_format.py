"""Dataset rows: writing them, and reading their messages and tools.

TRL's columns, then our own:

    sft    messages                          weight, reward, given
    kto    prompt, completion, label         weight, reward
    dpo    prompt, chosen, rejected          weight, chosen_reward, rejected_reward
    grpo   prompt, completions, rewards      weights

Every row also has `id`, `task_id` and `env`, `tools` if there are any, and where the sampled tokens
are known `token_ids`, `loss_mask` and `tokens_of` (the model).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from practicum.core.sample import Example
from practicum.core.trace import Message, Role, ToolCall, ToolSpec
from practicum.traces.datasets.build import Kind, Unit

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class RowFault(Exception):
    """What is wrong with a row; the end of a sentence that begins with its place."""


def write_message(message: Message, *, learned: bool = True) -> dict[str, Any]:
    """A message in OpenAI's format; an assistant message without loss has `weight` 0.

    Call arguments are JSON in a string, as OpenAI's are, so that all rows have the same columns.
    """
    row: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        row["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _dump(dict(call.arguments))},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        row["tool_call_id"] = message.tool_call_id
    if message.reasoning:
        row["reasoning_content"] = message.reasoning
    if message.is_error:
        row["is_error"] = True
    if not learned:
        row["weight"] = 0
    return row


def write_tool(tool: ToolSpec) -> dict[str, Any]:
    """A tool in OpenAI's format."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def read_messages(value: object, column: str, role: Role) -> tuple[Message, ...]:
    """The messages of a column; a plain text is one message of `role`."""
    if isinstance(value, str):
        return (Message(role=role, content=value),)
    if not isinstance(value, Sequence) or not value:
        raise RowFault(f"{column!r} is neither a text nor a list of messages")
    return tuple(_read_message(item, column) for item in value)


def read_shown(value: object) -> list[int]:
    """Indices of the messages with `weight` 0, OpenAI's mark for messages without loss."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return []
    return [
        place
        for place, item in enumerate(value)
        if isinstance(item, Mapping) and item.get("weight") == 0
    ]


def read_tools(value: object) -> tuple[ToolSpec, ...]:
    """The tools of a row, as a list or as JSON inside a string."""
    if isinstance(value, str):
        value = _load(value, "'tools'")
    if value is None:
        return ()
    if not isinstance(value, Sequence):
        raise RowFault("'tools' is not a list")
    return tuple(_read_tool(item) for item in value)


def _read_message(item: object, column: str) -> Message:
    if not isinstance(item, Mapping):
        raise RowFault(f"a message of {column!r} is not an object")
    said = item.get("role", item.get("from"))
    role = ROLES.get(said) if isinstance(said, str) else None
    if role is None:
        raise RowFault(f"a message of {column!r} is from {said!r}, not one of {', '.join(ROLES)}")
    calls = item.get("tool_calls")
    if calls is not None and not isinstance(calls, Sequence):
        raise RowFault(f"'tool_calls' in {column!r} is not a list")
    answered = item.get("tool_call_id")
    return Message(
        role=role,
        content=_read_content(item.get("content", item.get("value")), column),
        tool_calls=tuple(_read_call(call, column) for call in calls or ()),
        tool_call_id=None if answered is None else str(answered),
        reasoning=str(item.get("reasoning_content") or ""),
        is_error=bool(item.get("is_error")),
    )


def _read_content(content: object, column: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise RowFault(f"the content of a message of {column!r} is not a text")
    texts: list[str] = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            raise RowFault(f"a message of {column!r} has a part that is not text")
        texts.append(text)
    return "".join(texts)


def _read_call(call: object, column: str) -> ToolCall:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RowFault(f"a tool call of {column!r} has no name")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = _load(arguments, "the arguments of a tool call")
    if not isinstance(arguments, Mapping | None):
        raise RowFault("the arguments of a tool call are not an object")
    name = call.get("id") if isinstance(call, Mapping) else None
    return ToolCall(name=function["name"], arguments=dict(arguments or {}), id=str(name or ""))


def _read_tool(item: object) -> ToolSpec:
    function = item.get("function", item) if isinstance(item, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RowFault("a tool has no name")
    parameters = function.get("parameters")
    return ToolSpec(
        name=function["name"],
        description=str(function.get("description") or ""),
        parameters=dict(parameters) if isinstance(parameters, Mapping) else {},
    )


def _load(text: str, what: str) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError as error:
        raise RowFault(f"{what} is not valid JSON ({error})") from None


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


TOKENS = ("token_ids", "loss_mask", "tokens_of")


def write_row(kind: Kind, unit: Unit) -> dict[str, Any]:
    """One example, pair or group as a row; `dataset_reading.read_row` reads it back."""
    first = unit[0]
    row: dict[str, Any] = {"id": first.id, "task_id": first.task_id, "env": first.env}
    row |= BODIES[kind](unit)
    if first.tools:
        row["tools"] = [write_tool(tool) for tool in first.tools]
    return row


def _sft(unit: Unit) -> dict[str, Any]:
    (example,) = unit
    return {
        "messages": _messages(example, 0),
        "given": example.opening,
        "weight": example.weight,
        "reward": example.reward,
        **_tokens(example),
    }


def _kto(unit: Unit) -> dict[str, Any]:
    (example,) = unit
    return {
        "prompt": _prompt(example),
        "completion": _messages(example, example.opening),
        "label": example.label,
        "weight": example.weight,
        "reward": example.reward,
        **_tokens(example),
    }


def _dpo(unit: Unit) -> dict[str, Any]:
    chosen, rejected = unit
    return {
        "id": chosen.pair,
        "prompt": _prompt(chosen),
        "chosen": _messages(chosen, chosen.opening),
        "rejected": _messages(rejected, rejected.opening),
        "weight": chosen.weight,
        **_side(chosen, "chosen"),
        **_side(rejected, "rejected"),
    }


def _side(example: Example, side: str) -> dict[str, Any]:
    values = {"id": example.id, "reward": example.reward, **_tokens(example)}
    return {f"{side}_{name}": value for name, value in values.items()}


def _grpo(unit: Unit) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": f"group of {unit[0].id}",
        "prompt": _prompt(unit[0]),
        "completions": [_messages(example, example.opening) for example in unit],
        "rewards": [example.reward for example in unit],
        "weights": [example.weight for example in unit],
        "ids": [example.id for example in unit],
    }
    if any(example.token_ids for example in unit):
        row |= {name: [_plain(getattr(example, name)) for example in unit] for name in TOKENS}
    return row


BODIES = {"sft": _sft, "kto": _kto, "dpo": _dpo, "grpo": _grpo}


def _prompt(example: Example) -> list[dict[str, Any]]:
    return [write_message(message) for message in example.prompt]


def _messages(example: Example, begin: int) -> list[dict[str, Any]]:
    """The messages from index `begin` on; those without loss are marked."""
    numbered = list(enumerate(example.messages))[begin:]
    return [write_message(m, learned=place not in example.shown) for place, m in numbered]


def _tokens(example: Example) -> Mapping[str, Any]:
    if not example.token_ids:
        return {}
    return {name: _plain(getattr(example, name)) for name in TOKENS}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
