"""`TemplateTraits`: what a chat template supports, found by rendering short conversations."""

from dataclasses import dataclass
from typing import Any

from practicum.core.errors import UserError
from practicum.core.trace import ToolCall, ToolSpec
from practicum.engine.chat.rendering import (
    CALL_SHAPES,
    ESCAPE_END,
    ESCAPE_START,
    PROBE,
    QUESTION,
    CallShape,
    TemplateRenderer,
    tool_as_dict,
)

OTHER_PROBE = f"{ESCAPE_START}other{ESCAPE_END}"

AFTER_THINKING = "\n\n"
"""Whitespace between the thinking block and the content."""


@dataclass(frozen=True, slots=True)
class ThinkingTags:
    """The tags that a model writes around its reasoning."""

    opening: str
    closing: str

    def around(self, reasoning: str) -> str:
        """The reasoning as a thinking block before the content."""
        return f"{self.opening}\n{reasoning}\n{self.closing}{AFTER_THINKING}"


THINKING = (ThinkingTags("<think>", "</think>"), ThinkingTags("[THINK]", "[/THINK]"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateTraits:
    """What a template supports, and how it writes an assistant's turn."""

    takes_system: bool
    takes_tools: bool
    """It lists tools and shows messages with the role `tool`."""
    call_shape: CallShape | None
    """How it takes tool calls; None if it does not show them."""
    takes_many_calls: bool
    """It shows several calls of one turn."""
    takes_runs: bool
    """It accepts two user messages in a row."""
    closing: str | None
    """The special token that closes a completion, if there is one."""
    before_closing: str
    """Whitespace that it puts between a completion and that token."""
    thinking: ThinkingTags | None
    """None if the template mentions no thinking tags."""
    takes_reasoning: bool
    """It shows the field `reasoning_content`."""
    thinks_in_content: bool
    """It does not, but keeps a thinking block that is part of the content."""
    opened_thinking: str
    """The thinking tag at the end of the generation prompt, with all that follows it. Empty if the
    prompt opens no thinking block."""

    @property
    def opens_thinking(self) -> bool:
        """Whether a completion begins inside a thinking block."""
        return bool(self.opened_thinking)


def observe_traits(renderer: TemplateRenderer) -> TemplateTraits:
    """Finds the traits of the renderer's template."""
    tail = after_completion(renderer, [], generation=False)
    first = renderer.any_special.search(tail)
    closes = first is not None and not tail[: first.start()].strip()
    shape = _call_shape(renderer)
    thinking = _thinking_tags(renderer.source)
    reasons = PROBE in _try_turn(renderer, {"reasoning_content": PROBE})
    return TemplateTraits(
        takes_system=PROBE in renderer.try_render([{"role": "system", "content": PROBE}, QUESTION]),
        takes_tools=_takes_tools(renderer),
        call_shape=shape,
        takes_many_calls=shape is not None and _takes_many_calls(renderer, shape),
        takes_runs=bool(renderer.try_render([QUESTION, QUESTION])),
        closing=first[0] if first is not None and closes else None,
        before_closing=tail[: first.start()] if first is not None and closes else "",
        thinking=thinking,
        takes_reasoning=reasons,
        thinks_in_content=not reasons
        and thinking is not None
        and PROBE in _try_turn(renderer, {"content": thinking.around(PROBE) + "?"}),
        opened_thinking=_opened_thinking(renderer.render([QUESTION]), thinking),
    )


def after_completion(
    renderer: TemplateRenderer, messages: list[dict[str, Any]], *, generation: bool = True
) -> str:
    """What the template writes after a completion that `messages` follow."""
    conversation = [QUESTION, {"role": "assistant", "content": PROBE}, *messages]
    _, found, after = renderer.render(conversation, generation=generation).partition(PROBE)
    if not found or PROBE in after:
        raise UserError(
            f"the chat template of {renderer.model} does not show an assistant's message as it "
            "was written; choose another model"
        )
    return after


def with_tool_result(content: str) -> list[dict[str, Any]]:
    """A short conversation that ends with a tool's result."""
    # Every template accepts an id of nine letters and digits.
    answer = {"role": "tool", "content": content, "tool_call_id": "call00000"}
    return [QUESTION, {"role": "assistant", "content": "?"}, answer]


def _try_turn(renderer: TemplateRenderer, parts: dict[str, Any]) -> str:
    turn = {"role": "assistant", "content": "", **parts}
    return renderer.try_render([QUESTION, turn], generation=False)


def _takes_tools(renderer: TemplateRenderer) -> bool:
    tool = tool_as_dict(ToolSpec(name=PROBE, parameters={"type": "object", "properties": {}}))
    listed = renderer.try_render([QUESTION], tools=[tool])
    answered = renderer.try_render(with_tool_result(PROBE))
    return PROBE in listed and PROBE in answered


def _call_shape(renderer: TemplateRenderer) -> CallShape | None:
    """The first shape of which the template shows both name and arguments."""
    call = ToolCall(name=PROBE, arguments={OTHER_PROBE: ""}, id="call_0")
    for shape in CALL_SHAPES:
        text = _try_turn(renderer, {"tool_calls": [shape.call(call)]})
        # Quotes like these mean that it pasted Python's repr of a dictionary, which is not JSON.
        if PROBE in text and OTHER_PROBE in text and f"'{OTHER_PROBE}'" not in text:
            return shape
    return None


def _takes_many_calls(renderer: TemplateRenderer, shape: CallShape) -> bool:
    calls = [ToolCall(name=mark, id=f"call_{i}") for i, mark in enumerate((PROBE, OTHER_PROBE))]
    text = _try_turn(renderer, {"tool_calls": [shape.call(call) for call in calls]})
    return PROBE in text and OTHER_PROBE in text


def _thinking_tags(source: str) -> ThinkingTags | None:
    for tags in THINKING:
        if tags.opening in source or tags.closing in source:
            return tags
    return None


def _opened_thinking(prompt: str, tags: ThinkingTags | None) -> str:
    at = prompt.rfind(tags.opening) if tags is not None else -1
    return prompt[at:] if tags is not None and at > prompt.rfind(tags.closing) else ""
