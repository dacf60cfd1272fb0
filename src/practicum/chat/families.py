"""Which marks a model writes around tool calls, found in the text of its chat template.

Models of one family share their marks, and a model's name does not say its family; the template
that it was trained with does, since it shows the model its own calls.
"""

from dataclasses import dataclass

from practicum.chat.call_forms import (
    ReadCalls,
    read_deepseek,
    read_json_calls,
    read_mistral,
    read_python_call,
    read_python_tag,
    read_tagged,
)
from practicum.chat.habits import Habits, ThinkingTags

__all__ = ["Markup", "Section", "markup_of"]


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of a turn that holds calls."""

    opening: str
    closing: str | None
    """None where it goes on to the end of the turn."""
    read: ReadCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class Markup:
    """What in a turn is not content."""

    thinking: ThinkingTags | None
    opens_thinking: bool
    sections: tuple[Section, ...]
    bare_calls: bool
    """Whether a turn that is one JSON object alone may be a call."""
    many_calls: bool
    texts: frozenset[str]
    """All that may be a special token."""


TAGGED = Section("<tool_call>", "</tool_call>", read_tagged)
PYTHON_TAG = Section("<|python_tag|>", None, read_python_tag)
MISTRAL = Section("[TOOL_CALLS]", None, read_mistral)
PHI = Section("<|tool_call|>", "<|/tool_call|>", read_json_calls)
DEEPSEEK = Section("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", read_deepseek)
FENCES = (
    Section("```tool_code\n", "\n```", read_python_call),
    Section("```tool_call\n", "\n```", read_json_calls),
    Section("```json\n", "\n```", read_json_calls),
)

SIGNS: tuple[tuple[str, tuple[Section, ...]], ...] = (
    ("<tool_call>", (TAGGED,)),
    ("<|python_tag|>", (PYTHON_TAG,)),
    ("<|start_header_id|>", (PYTHON_TAG,)),
    ("[TOOL_CALLS]", (MISTRAL,)),
    ("<|tool_call|>", (PHI,)),
    ("<|tool|>", (PHI,)),
    ("<｜tool▁calls▁begin｜>", (DEEPSEEK,)),
    ("tool_code", FENCES),
    ("<start_of_turn>", FENCES),
)
"""Words of a template, and what a model that knows them writes around its calls."""

INSIDE = ("[ARGS]", "[CALL_ID]", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>")
"""Marks that stand inside a section."""


def markup_of(source: str, habits: Habits) -> Markup:
    """The marks of the model whose template has this text."""
    found = dict.fromkeys(section for sign, known in SIGNS if sign in source for section in known)
    if not found or not habits.takes_tools:
        # The tools are told as text, with our own form of calls, or the template's is unknown.
        found[TAGGED] = None
    tags = habits.thinking
    marks = [text for section in found for text in (section.opening, section.closing)]
    thinking = [tags.opening, tags.closing] if tags is not None else []
    return Markup(
        thinking=tags,
        opens_thinking=habits.opens_thinking,
        sections=tuple(found),
        bare_calls=PYTHON_TAG in found or not habits.takes_tools,
        # Calls that the template cannot show again are shown as text.
        many_calls=habits.takes_many_calls or not habits.takes_tools,
        texts=frozenset(text for text in (*marks, *INSIDE, *thinking) if text),
    )
