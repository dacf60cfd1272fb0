"""Whole conversations to tokens, with turns that were sampled given by the tokens they were.

The template is shown marks in place of what a sampled turn says. Where every mark comes out, in
the surroundings that the turn was sampled in, the turn's own tokens go between what lies before
and behind; only those are encoded. A turn of which the template drops a part is encoded anew from
what is left of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from practicum.chat.as_dicts import CallShape
from practicum.chat.habits import Habits, after_completion, tool_answered
from practicum.chat.preparing import Entry, Preparing
from practicum.chat.rendering import QUESTION, REMEMBERED, Rendering
from practicum.core.conversing import SampledTurn
from practicum.core.trace import Message, ToolCall

__all__ = ["Splicing"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around the words of a turn that is the last of its conversation."""

    prompt: str
    """What the template writes where the assistant begins."""
    before: str
    """What stands between there and the first of the turn's words."""
    after: str
    """What stands behind the last of them, up to where the turn ends."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a turn lies in a rendered conversation."""

    start: int
    end: int
    """Where the token that closes it stands."""
    turn: SampledTurn


@dataclass(frozen=True, slots=True)
class Form:
    """Which parts a turn has; turns of one form stand in the same surroundings."""

    after_tool: bool
    content: bool
    reasoning: bool
    calls: tuple[bool, ...]
    """One entry a call: whether it has arguments."""

    def marked(self, index: int) -> Message:
        """A turn of this form that says nothing but marks."""
        calls = tuple(
            ToolCall(
                name=_mark(index, f"name {n}"),
                arguments={_mark(index, f"argument {n}"): ""} if has_arguments else {},
                id=f"call_{n}",
            )
            for n, has_arguments in enumerate(self.calls)
        )
        return Message(
            role="assistant",
            content=_mark(index, "content") if self.content else "",
            reasoning=_mark(index, "reasoning") if self.reasoning else "",
            tool_calls=calls,
        )

    def marks(self, index: int) -> list[str]:
        """Every mark in it."""
        turn = self.marked(index)
        calls = [text for call in turn.tool_calls for text in (call.name, *call.arguments)]
        return [mark for mark in (turn.reasoning, turn.content, *calls) if mark]


class Splicing:
    """Encodes conversations around the turns that were sampled in them."""

    def __init__(self, rendering: Rendering, habits: Habits, preparing: Preparing) -> None:
        self._rendering = rendering
        self._habits = habits
        self._preparing = preparing
        self._known: dict[Form, Surroundings | None] = {}
        self._thought = lru_cache(maxsize=REMEMBERED)(self._has_thought)

    def encode(self, entries: Sequence[Entry], tools: Sequence[dict[str, Any]]) -> tuple[int, ...]:
        """The tokens of the conversation, up to where the assistant begins to write."""
        sampled = {i for i, entry in enumerate(entries) if entry.turn is not None}
        while True:
            text = self._rendering.render(
                [
                    self._marked(entry.message, i)
                    if i in sampled
                    else self._preparing.as_dict(entry.message)
                    for i, entry in enumerate(entries)
                ],
                tools=tools,
            )
            places = self._places(text, entries, sorted(sampled))
            if len(places) == len(sampled):
                return self._encode_around(text, list(places.values()))
            # Encoding one anew cannot bring another back, so this ends.
            sampled = set(places)

    def _encode_around(self, text: str, places: Sequence[Place]) -> tuple[int, ...]:
        if not places:
            return self._rendering.encode(text)
        ids = [*self._rendering.encode(text[: places[0].start])]
        ends = [*(place.start for place in places[1:]), len(text)]
        for place, end in zip(places, ends, strict=True):
            ids += place.turn.token_ids
            ids += self.behind(text[place.end : end], place.turn.ended_turn)
        return tuple(ids)

    def behind(self, text: str, ended_turn: bool) -> tuple[int, ...]:
        """Tokens of what stands behind a turn, from the token that closes it on."""
        habits = self._habits
        if habits.closing is None:
            return self._rendering.encode(text)
        if not ended_turn:
            return self._rendering.encode(habits.before_closing + text)
        # Encoded behind the closing token, as it is in a whole conversation, and the token taken
        # off afterwards. Blanks that the template puts before it were not sampled.
        return self._rendering.encode(text)[1:]

    def _places(
        self, text: str, entries: Sequence[Entry], sampled: Sequence[int]
    ) -> dict[int, Place]:
        places: dict[int, Place] = {}
        done = 0
        for index in sampled:
            after_tool = index > 0 and entries[index - 1].message.role == "tool"
            place = self._place(text, done, index, entries[index], after_tool)
            if place is not None:
                places[index] = place
                done = place.end
        return places

    def _place(
        self, text: str, done: int, index: int, entry: Entry, after_tool: bool
    ) -> Place | None:
        """Where the turn lies, or None where the template does not show it as it was sampled."""
        form = _form(entry.message, after_tool)
        marks = form.marks(index)
        around = self._surroundings(form)
        if around is None or entry.turn is None:
            return None
        found = [text.find(mark, done) for mark in marks]
        if min(found) < done:
            return None
        first = min(found)
        last = max(at + len(mark) for at, mark in zip(found, marks, strict=True))
        start = self._start(text[done:first], around, entry.turn)
        end = self._end(text, last, around)
        if start is None or end is None:
            return None
        return Place(start=done + start, end=end, turn=entry.turn)

    def _start(self, before: str, around: Surroundings, turn: SampledTurn) -> int | None:
        markups = [around.before]
        tags = self._habits.thinking
        if tags is not None:
            opening, found, after = around.before.partition(tags.opening)
            inside, closed, rest = after.partition(tags.closing)
            if found and closed and not inside.strip() and not self._thought(turn.token_ids):
                markups.append(opening + rest.lstrip())
        for markup in markups:
            if before.endswith(around.prompt + markup):
                return len(before) - len(markup)
        return None

    def _has_thought(self, token_ids: tuple[int, ...]) -> bool:
        """Whether any thinking, even an empty one, was sampled."""
        tags = self._habits.thinking
        text = str(self._rendering.tokenizer.decode(list(token_ids), skip_special_tokens=False))
        return tags is not None and (tags.opening in text or tags.closing in text)

    def _end(self, text: str, last: int, around: Surroundings) -> int | None:
        if self._habits.closing is None:
            return last + len(around.after) if text.startswith(around.after, last) else None
        at = text.find(self._habits.closing, last)
        return at if at >= 0 else None

    def _surroundings(self, form: Form) -> Surroundings | None:
        if form not in self._known:
            self._known[form] = self._find_surroundings(form)
        return self._known[form]

    def _find_surroundings(self, form: Form) -> Surroundings | None:
        before = tool_answered("?") if form.after_tool else [QUESTION]
        turn = self._as_dict(form.marked(0))
        ended = self._rendering.attempt(before, generation=False)
        opened = self._rendering.attempt(before)
        shown = self._rendering.attempt([*before, turn], generation=False)
        found = [(at, mark) for mark in form.marks(0) if (at := shown.find(mark)) >= 0]
        if not opened or not found or not shown.startswith(opened):
            return None
        last = max(at + len(mark) for at, mark in found)
        ending = after_completion(self._rendering, [], generation=False)
        return Surroundings(
            prompt=opened[len(ended) :] if opened.startswith(ended) else "",
            before=shown[len(opened) : min(found)[0]],
            after=shown[last:].removesuffix(ending),
        )

    def _marked(self, message: Message, index: int) -> dict[str, Any]:
        """What the template is shown of a sampled turn."""
        marked = _form(message, after_tool=False).marked(index)
        calls = tuple(
            replace(call, id=self._rendering.disguise.put_on(said.id))
            for call, said in zip(marked.tool_calls, message.tool_calls, strict=True)
        )
        return self._as_dict(replace(marked, tool_calls=calls))

    def _as_dict(self, marked: Message) -> dict[str, Any]:
        shape = self._habits.call_shape or CallShape()
        return self._preparing.with_thinking(shape.message(marked))


def _mark(index: int, part: str) -> str:
    return f"\ue000{index} {part}\ue001"


def _form(message: Message, after_tool: bool) -> Form:
    return Form(
        after_tool=after_tool,
        # A turn of nothing at all has its place where its words would be.
        content=bool(message.content) or not (message.reasoning or message.tool_calls),
        reasoning=bool(message.reasoning),
        calls=tuple(bool(call.arguments) for call in message.tool_calls),
    )
