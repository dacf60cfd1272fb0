"""What a chat template does, found out by trying it on short conversations."""

from dataclasses import dataclass
from typing import Any

from practicum.chat.as_dicts import CALL_SHAPES, CallShape, tool_as_dict
from practicum.chat.rendering import MARK, QUESTION, Rendering
from practicum.core.errors import UserError
from practicum.core.trace import ToolCall, ToolSpec

__all__ = [
    "BEHIND_THINKING",
    "Habits",
    "ThinkingTags",
    "after_completion",
    "observe",
    "tool_answered",
]

OTHER_MARK = "\ue000other\ue001"


BEHIND_THINKING = "\n\n"
"""Blanks between thinking and what is said."""


@dataclass(frozen=True, slots=True)
class ThinkingTags:
    """What a model writes around its thinking."""

    opening: str
    closing: str

    def around(self, reasoning: str) -> str:
        """Thinking as it stands before what is said."""
        return f"{self.opening}\n{reasoning}\n{self.closing}{BEHIND_THINKING}"


THINKING = (ThinkingTags("<think>", "</think>"), ThinkingTags("[THINK]", "[/THINK]"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a template treats what it is given."""

    takes_system: bool
    takes_tools: bool
    """It lists tools and takes their answers."""
    call_shape: CallShape | None
    """None where it does not show calls."""
    takes_many_calls: bool
    takes_runs: bool
    """Two messages of the user may follow each other."""
    closing: str | None
    """The special token that closes a completion, if there is one."""
    before_closing: str
    """Blanks that it puts between a completion and that token."""
    thinking: ThinkingTags | None
    """None where the template speaks of no thinking."""
    takes_reasoning: bool
    """It has a place of its own for reasoning."""
    thinks_in_content: bool
    """It has not, but leaves thinking that stands in the content where it is."""
    opened_thinking: str
    """How thinking begins where the template itself begins it: then the assistant starts in the
    middle of it. Empty where it does not."""

    @property
    def opens_thinking(self) -> bool:
        """Whether the assistant is already thinking when it begins to write."""
        return bool(self.opened_thinking)


def observe(rendering: Rendering) -> Habits:
    """Try the template."""
    tail = after_completion(rendering, [], generation=False)
    first = rendering.any_special.search(tail)
    closes = first is not None and not tail[: first.start()].strip()
    shape = _call_shape(rendering)
    thinking = _thinking_tags(rendering.source)
    reasons = MARK in _said(rendering, {"reasoning_content": MARK})
    return Habits(
        takes_system=MARK in rendering.attempt([{"role": "system", "content": MARK}, QUESTION]),
        takes_tools=_takes_tools(rendering),
        call_shape=shape,
        takes_many_calls=shape is not None and _takes_many(rendering, shape),
        takes_runs=bool(rendering.attempt([QUESTION, QUESTION])),
        closing=first[0] if first is not None and closes else None,
        before_closing=tail[: first.start()] if first is not None and closes else "",
        thinking=thinking,
        takes_reasoning=reasons,
        thinks_in_content=not reasons
        and thinking is not None
        and MARK in _said(rendering, {"content": thinking.around(MARK) + "?"}),
        opened_thinking=_opened_thinking(rendering.render([QUESTION]), thinking),
    )


def after_completion(
    rendering: Rendering, messages: list[dict[str, Any]], *, generation: bool = True
) -> str:
    """What the template writes behind a completion that `messages` follow."""
    conversation = [QUESTION, {"role": "assistant", "content": MARK}, *messages]
    _, found, after = rendering.render(conversation, generation=generation).partition(MARK)
    if not found or MARK in after:
        raise UserError(
            f"the chat template of {rendering.model} does not show an assistant's message as it "
            "was written; choose another model"
        )
    return after


def tool_answered(content: str) -> list[dict[str, Any]]:
    """A short conversation that ends with what a tool said."""
    # Nine letters and digits are an id for every template.
    answer = {"role": "tool", "content": content, "tool_call_id": "call00000"}
    return [QUESTION, {"role": "assistant", "content": "?"}, answer]


def _said(rendering: Rendering, said: dict[str, Any]) -> str:
    written = {"role": "assistant", "content": "", **said}
    return rendering.attempt([QUESTION, written], generation=False)


def _takes_tools(rendering: Rendering) -> bool:
    probe = tool_as_dict(ToolSpec(name=MARK, parameters={"type": "object", "properties": {}}))
    listed = rendering.attempt([QUESTION], tools=[probe])
    answered = rendering.attempt(tool_answered(MARK))
    return MARK in listed and MARK in answered


def _call_shape(rendering: Rendering) -> CallShape | None:
    """The first shape of calls that the template shows, name and arguments."""
    call = ToolCall(name=MARK, arguments={OTHER_MARK: ""}, id="call_0")
    for shape in CALL_SHAPES:
        text = _said(rendering, {"tool_calls": [shape.call(call)]})
        # Arguments pasted as Python writes them are not JSON.
        if MARK in text and OTHER_MARK in text and f"'{OTHER_MARK}'" not in text:
            return shape
    return None


def _takes_many(rendering: Rendering, shape: CallShape) -> bool:
    calls = [ToolCall(name=mark, id=f"call_{i}") for i, mark in enumerate((MARK, OTHER_MARK))]
    text = _said(rendering, {"tool_calls": [shape.call(call) for call in calls]})
    return MARK in text and OTHER_MARK in text


def _thinking_tags(source: str) -> ThinkingTags | None:
    for tags in THINKING:
        if tags.opening in source or tags.closing in source:
            return tags
    return None


def _opened_thinking(prompt: str, tags: ThinkingTags | None) -> str:
    at = prompt.rfind(tags.opening) if tags is not None else -1
    return prompt[at:] if tags is not None and at > prompt.rfind(tags.closing) else ""
