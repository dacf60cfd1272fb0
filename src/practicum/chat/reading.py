"""Sampled tokens to a message, while they are sampled.

What could still become markup is held back: the beginning of a mark, blanks before a call, and a
whole call until it is certain that it can be read. So what was given out is never taken back, and
all that is given out makes up the message.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from practicum.chat.call_forms import read_json_calls
from practicum.chat.families import Markup, Section
from practicum.chat.token_text import TokenText
from practicum.core.conversing import TurnDelta
from practicum.core.tool_calls import MalformedCall
from practicum.core.trace import Message, ToolCall, ToolSpec

__all__ = ["TurnReading"]

State = Literal["start", "reasoning", "content", "section", "bare"]

JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
FIRST_KEY = re.compile(r'\{\s*"([^"]*)"')
CALL_KEYS = ("name", "type", "function", "id", "arguments", "parameters")
"""Keys that a bare call may begin with."""
NAMES_A_TOOL = re.compile(r'"name".*"(arguments|parameters)"', re.DOTALL)


class TurnReading:
    """The `TurnReader` of one turn.

    Args:
        text: Turns the tokens into text.
        markup: What in that text is not content.
        tools: Those that may be called; without any, nothing is read as a call.
    """

    def __init__(self, text: TokenText, markup: Markup, tools: Sequence[ToolSpec]) -> None:
        self._text = text
        self._markup = markup
        self._tools = tuple(tools)
        self._sections = markup.sections if tools else ()
        self._section: Section | None = None
        self._may_be_bare = markup.bare_calls and bool(tools)
        self._state: State = "start"
        if markup.opens_thinking:
            self._state = "reasoning"
        self._held = ""
        """Text that is not understood yet."""
        self._searched = 0
        """How much of it was searched for the end of a section."""
        self._content = _Words()
        self._reasoning = _Words(trims=True)
        self._calls: list[ToolCall] = []
        self._deltas: list[TurnDelta] = []
        self.faults: list[str] = []
        """What was wrong with calls that stayed in the content, a sentence each."""

    def feed(self, token_ids: Sequence[int]) -> list[TurnDelta]:
        """What is certain now."""
        text = self._text.push(token_ids)
        if text:
            self._held += text
            self._go_on(final=False)
        return self._give_out()

    def end(self) -> list[TurnDelta]:
        """The rest, once the turn is over."""
        self._held += self._text.flush()
        self._go_on(final=True)
        self._add("content", self._content.end())
        return self._give_out()

    def message(self) -> Message:
        """The whole turn, after `end`."""
        return Message(
            role="assistant",
            content=self._content.said,
            reasoning=self._reasoning.said,
            tool_calls=tuple(self._calls),
        )

    def _give_out(self) -> list[TurnDelta]:
        given, self._deltas = self._deltas, []
        return given

    def _add(self, kind: Literal["content", "reasoning"], text: str) -> None:
        if not text:
            return
        if self._deltas and self._deltas[-1].kind == kind:
            last = self._deltas.pop()
            text = last.text + text
        self._deltas.append(TurnDelta(kind=kind, text=text))

    def _go_on(self, *, final: bool) -> None:
        """Understand as much of the text as can be understood."""
        steps = {
            "start": self._start,
            "reasoning": self._reason,
            "content": self._speak,
            "section": self._call,
            "bare": self._call_bare,
        }
        seen: tuple[State, str] | None = None
        while seen != (self._state, self._held):
            seen = (self._state, self._held)
            steps[self._state](final)

    def _start(self, final: bool) -> None:
        """Before the first word: thinking may follow."""
        tags, text = self._markup.thinking, self._held.lstrip()
        if tags is None:
            self._state = "content"
        elif text.startswith(tags.opening):
            self._state, self._held = "reasoning", text.removeprefix(tags.opening)
        elif final or not tags.opening.startswith(text):
            self._state = "content"

    def _reason(self, final: bool) -> None:
        closing = self._markup.thinking.closing if self._markup.thinking else ""
        thought, found, rest = self._held.partition(closing)
        if not found and not final:
            thought, rest = _split_certain(self._held, [closing])
        self._add("reasoning", self._reasoning.say(thought))
        self._held = rest
        if found:
            self._state = "content"
            self._content.trims = True

    def _speak(self, final: bool) -> None:
        if self._may_be_bare and self._held.lstrip().startswith("{"):
            self._state = "bare"
            return
        found = [
            (at, section)
            for section in self._sections
            if (at := self._held.find(section.opening)) >= 0
        ]
        if found:
            at, self._section = min(found, key=lambda pair: pair[0])
            words, rest = self._held[:at], self._held[at + len(self._section.opening) :]
            self._state, self._searched = "section", 0
        elif final:
            words, rest = self._held, ""
        else:
            words, rest = _split_certain(self._held, [s.opening for s in self._sections])
        self._held = rest
        self._say(words)

    def _say(self, words: str) -> None:
        if words.strip():
            self._may_be_bare = False
        self._add("content", self._content.say(words))

    def _call(self, final: bool) -> None:
        """Inside a section: wait for its end, then read it."""
        section = self._section
        if section is None:
            raise AssertionError("no section is open")
        end = self._section_end(section.closing, final) if section.closing else -1
        if end < 0 and not final:
            return
        body = self._held[:end] if end >= 0 else self._held
        self._state = "content"
        try:
            self._take(section.read(body, self._tools))
        except MalformedCall as wrong:
            self.faults.append(str(wrong))
            # What is inside is looked through for calls again.
            self._say(section.opening)
        else:
            self._held = self._held[len(body) + len(section.closing or "") :]

    def _section_end(self, closing: str, final: bool) -> int:
        """Where the section ends, or -1; its end inside a JSON text is part of that text."""
        at = self._held.find(closing, max(0, self._searched - len(closing)))
        while at >= 0 and _is_inside_text(self._held[:at]):
            at = self._held.find(closing, at + 1)
        self._searched = len(self._held)
        # A text that is never closed cannot be read: then the section ends at its first end.
        return self._held.find(closing) if at < 0 and final else at

    def _call_bare(self, final: bool) -> None:
        """A turn that began like an object: a call if it is one and nothing else."""
        text = self._held.strip()
        first = FIRST_KEY.match(text)
        if first is not None and first[1] not in CALL_KEYS:
            self._state, self._may_be_bare = "content", False
        elif final:
            self._state, self._may_be_bare = "content", False
            try:
                self._take(read_json_calls(text, self._tools))
            except MalformedCall as wrong:
                if NAMES_A_TOOL.search(text):
                    self.faults.append(str(wrong))
            else:
                self._held = ""

    def _take(self, calls: list[ToolCall]) -> None:
        if len(self._calls) + len(calls) > 1 and not self._markup.many_calls:
            raise MalformedCall("only one tool can be called in a turn")
        self._may_be_bare = False
        self._content.forget_blank()
        for call in calls:
            index = len(self._calls)
            self._calls.append(replace(call, id=f"call_{index}"))
            arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
            self._deltas.append(TurnDelta(kind="call", text=call.name, index=index))
            self._deltas.append(TurnDelta(kind="arguments", text=arguments, index=index))


class _Words:
    """Text of which blanks at the end are kept back until it is known what follows them."""

    def __init__(self, *, trims: bool = False) -> None:
        self.said = ""
        self.trims = trims
        """Whether blanks at its start are left out."""
        self._blank = ""
        self._ends_with_call = False

    def say(self, text: str) -> str:
        """What can be given out now."""
        if self.trims and not self.said:
            text = text.lstrip()
        words = (self._blank + text).rstrip()
        if not words:
            self._blank += text
            return ""
        self._blank = (self._blank + text)[len(words) :]
        self._ends_with_call = False
        self.said += words
        return words

    def forget_blank(self) -> None:
        """A call follows: blanks before it, and alone behind it, are not said."""
        self._blank = ""
        self._ends_with_call = True
        self.trims = True

    def end(self) -> str:
        """The blanks at the very end."""
        blank = "" if self._ends_with_call else self._blank
        self.said += blank
        return blank


def _split_certain(text: str, marks: Sequence[str]) -> tuple[str, str]:
    """What cannot be part of a mark any more, and the rest."""
    longest = max((_overlap(text, mark) for mark in marks), default=0)
    return text[: len(text) - longest], text[len(text) - longest :]


def _overlap(text: str, mark: str) -> int:
    """How much of the text's end is a beginning of the mark."""
    sizes = range(min(len(mark) - 1, len(text)), 0, -1)
    return next((size for size in sizes if text.endswith(mark[:size])), 0)


def _is_inside_text(body: str) -> bool:
    """Whether JSON, or a function in tags, that goes so far is still in the middle of a text."""
    begun = body.lstrip()
    if begun.startswith("<function="):
        return not body.rstrip().endswith("</function>")
    return begun.startswith(("{", "[")) and '"' in JSON_TEXT.sub("", body)
