"""Turns that hold JSON, as rules in the language that llguidance compiles."""

import json
from collections.abc import Mapping
from typing import Any

from practicum.core.turn_forms import CallsForm, Spelling, ThoughtForm

__all__ = ["Rules", "call_rules", "json_rules"]

Rules = tuple[str, Mapping[str, Mapping[str, Any]]]
"""The rules, and the JSON schemas that they name."""

ANY_TEXT = "/(?s:.*)/"


def json_rules(schema: Mapping[str, Any], thought: ThoughtForm | None = None) -> Rules:
    """JSON that a schema allows.

    >>> json_rules({"type": "object"})
    ('start: @json', {'json': {'type': 'object'}})
    """
    rules = [f"start: {_before(thought)}@json", *_thought_rules(thought)]
    return "\n".join(rules), {"json": schema}


def call_rules(form: CallsForm, thought: ThoughtForm | None = None) -> Rules:
    """Calls of tools."""

    def any_call(before: list[Spelling]) -> str:
        return " | ".join(f"{_spelled(text)} @call_{n}" for n, text in enumerate(before))

    more = "later* " if form.many else ""
    rules = [
        f"start: {_before(thought)}first {more}{_spelled(form.closing)}",
        f"first: {any_call([call.first for call in form.calls])}",
        *_thought_rules(thought),
    ]
    if form.many:
        rules.append(f"later: {any_call([call.later for call in form.calls])}")
    return "\n".join(rules), {f"call_{n}": call.arguments for n, call in enumerate(form.calls)}


def _before(thought: ThoughtForm | None) -> str:
    if thought is None:
        return ""
    return "thought? " if thought.opening else "thought "


def _thought_rules(thought: ThoughtForm | None) -> list[str]:
    if thought is None:
        return []
    opening, behind = _spelled(thought.opening), _spelled((thought.behind,))
    if isinstance(thought.closing, int):  # no text contains a token that stands by itself
        return [f"thought: {opening} words <[{thought.closing}]> {behind}", f"words: {ANY_TEXT}"]
    closing = json.dumps(thought.closing, ensure_ascii=False)
    return [f"thought: {opening} words {behind}", f"words[suffix={closing}]: {ANY_TEXT}"]


def _spelled(text: Spelling) -> str:
    return " ".join(
        f"<[{piece}]>" if isinstance(piece, int) else json.dumps(piece, ensure_ascii=False)
        for piece in text
    )
