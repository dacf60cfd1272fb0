"""What an example says, as text: to compare examples by and to tell them apart."""

import hashlib
import json

from practicum.core.example import Example
from practicum.core.trace import Message

__all__ = ["answer_text", "asked_text", "content_hash", "prompt_hash", "task_key", "whole_text"]


def asked_text(example: Example) -> str:
    """What was asked: the prompt without the rules that a system message gives to every task."""
    prompt = example.prompt
    asked = [m for m in prompt if m.role != "system"] or prompt
    return "\n".join(_text(message) for message in asked)


def answer_text(example: Example) -> str:
    """What the assistant did, and what it was answered."""
    return "\n".join(_text(message) for message in example.completion)


def whole_text(example: Example) -> str:
    """The question and the answer."""
    return f"{asked_text(example)}\n{answer_text(example)}"


def prompt_hash(example: Example) -> str:
    """The same for examples that were given the same messages and tools."""
    tools = [[t.name, t.description, dict(t.parameters)] for t in example.tools]
    return _digest([[_parts(m) for m in example.prompt], tools])


def content_hash(example: Example) -> str:
    """The same for examples in which the same was said and answered."""
    return _digest([prompt_hash(example), [_parts(m) for m in example.completion]])


def task_key(example: Example) -> tuple[str, str]:
    """The task an example is about; where none is named, what was asked."""
    return example.env, example.task_id or f"prompt {prompt_hash(example)}"


def _text(message: Message) -> str:
    calls = [
        f"{c.name} {json.dumps(dict(c.arguments), sort_keys=True)}" for c in message.tool_calls
    ]
    return "\n".join(part for part in (message.content, *calls) if part)


def _parts(message: Message) -> list[object]:
    # Ids of calls are made anew each time; the same call under another id is the same.
    calls = [[c.name, dict(c.arguments)] for c in message.tool_calls]
    return [message.role, message.content, calls, message.reasoning]


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
