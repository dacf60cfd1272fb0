"""Parses sampled tokens into a message while they are sampled (streaming).

`IncrementalDetokenizer` turns tokens into text, `TurnParser` text into content, reasoning and tool
calls. Text that could still become markup is buffered: the start of a tag, whitespace before a
call, and a call until it is complete and readable. So no delta is ever revoked, and all deltas
together are the message.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from practicum.core.conversation import CutCall, TurnDelta
from practicum.core.tool_calls import MalformedCall
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.engine.chat.chat_template import ChatTokenizer
from practicum.engine.chat.tool_call_formats import (
    Markup,
    Section,
    read_cut_call,
    read_json_calls,
)

REPLACEMENT = "\ufffd"
"""What an incomplete UTF-8 character is decoded as."""

SHORT_TAG = 3
"""Characters at the end of a turn that are no tag yet, though one begins like them."""

LONGEST_CHARACTER = 4
"""Bytes of a UTF-8 character, each of which may be a token of its own."""


class IncrementalDetokenizer:
    """Decodes tokens as they arrive.

    A token's text can depend on the one before it (some tokenizers drop a leading space), so
    tokens are decoded together with those decoded last. A character may take several tokens, so
    text that ends in an incomplete one waits for the rest.

    Args:
        tokenizer: The tokenizer of the tokens.
        shown: Special tokens that the parser needs to see, and their texts.
        hidden: Ids that add nothing to the text.
    """

    def __init__(
        self, tokenizer: ChatTokenizer, *, shown: Mapping[int, str], hidden: frozenset[int]
    ) -> None:
        self._decode_ids = _fast_decode(tokenizer)
        self._shown = shown
        self._hidden = hidden
        self._context: list[int] = []
        self._pending: list[int] = []

    def push(self, tokens: Sequence[int]) -> str:
        """Adds tokens; gives the text up to the last complete character."""
        if len(tokens) == 1 or any(t in self._hidden or t in self._shown for t in tokens):
            return "".join(map(self._push_one, tokens))
        pending = [*self._pending, *tokens]
        for whole in range(len(pending), max(len(pending) - LONGEST_CHARACTER, 0), -1):
            text = self._text_of(pending[:whole])
            if not text.endswith(REPLACEMENT):
                self._context, self._pending = pending[:whole], pending[whole:]
                return text
        return "".join(map(self._push_one, tokens))

    def _push_one(self, token: int) -> str:
        if token in self._hidden:
            return self.flush()
        if token in self._shown:
            text = self.flush() + self._shown[token]
            self._context = []
            return text
        self._pending.append(token)
        text = self._text_of(self._pending)
        if text.endswith(REPLACEMENT):
            return ""
        self._context, self._pending = self._pending, []
        return text

    def flush(self) -> str:
        """The text of the tokens that wait, complete or not."""
        if not self._pending:
            return ""
        text = self._text_of(self._pending)
        # Without context: a half character must not be completed by the tokens that come next.
        self._context, self._pending = [], []
        return text

    def _text_of(self, pending: list[int]) -> str:
        known = self._decode(self._context)
        return self._decode([*self._context, *pending])[len(known) :]

    def _decode(self, ids: list[int]) -> str:
        return self._decode_ids(ids) if ids else ""


def _fast_decode(tokenizer: ChatTokenizer) -> Callable[[list[int]], str]:
    """A function from ids to text, by the `tokenizers` backend if `transformers` adds nothing.

    Streaming decodes every few tokens, for which `transformers` takes longer than the backend.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or getattr(tokenizer, "clean_up_tokenization_spaces", True):
        return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=False))
    return lambda ids: str(backend.decode(ids, skip_special_tokens=False))


State = Literal["start", "reasoning", "content", "section", "bare"]

JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
FIRST_KEY = re.compile(r'\{\s*"([^"]*)"')
CALL_KEYS = ("name", "type", "function", "id", "arguments", "parameters")
"""Keys that a bare call may begin with."""
LIKE_A_CALL = re.compile(r'"name".*"(arguments|parameters)"', re.DOTALL)


class TurnParser:
    """Parses one turn; a `TurnReader`.

    Args:
        detokenizer: Turns the tokens into text.
        markup: What in that text is not content.
        tools: The tools that may be called; without any, nothing is read as a call.
        may_be_json: Whether a turn that does not begin with a call has none.
    """

    def __init__(
        self,
        detokenizer: IncrementalDetokenizer,
        markup: Markup,
        tools: Sequence[ToolSpec],
        *,
        may_be_json: bool = False,
    ) -> None:
        self._may_be_json = may_be_json and bool(tools)
        self._detokenizer = detokenizer
        self._markup = markup
        self._tools = tuple(tools)
        self._sections = markup.sections if tools else ()
        self._section: Section | None = None
        self._may_be_bare = markup.bare_calls and bool(tools)
        self._state: State = "reasoning" if markup.opens_thinking else "start"
        self._buffer = ""
        """Text that is not parsed yet."""
        self._searched = 0
        """Characters of it that were searched for the end of a section."""
        self._content = _StreamedText()
        self._reasoning = _StreamedText(trims=True)
        self._calls: list[ToolCall] = []
        self._deltas: list[TurnDelta] = []
        self._is_cut = False
        self.cut_call: CutCall | None = None
        """The call that the end cut off."""
        self.faults: list[str] = []
        """Why calls stayed in the content: one sentence for each."""

    def feed(self, token_ids: Sequence[int]) -> list[TurnDelta]:
        """Adds sampled tokens; gives the deltas that are certain now."""
        text = self._detokenizer.push(token_ids)
        if text:
            self._buffer += text
            self._parse(final=False)
        return self._take_deltas()

    def end(self, *, is_cut: bool = False) -> list[TurnDelta]:
        """Ends the turn; gives the deltas that are left.

        Of a call that the token limit cut off, no markup becomes content.
        """
        self._is_cut = is_cut
        self._buffer += self._detokenizer.flush()
        self._parse(final=True)
        self._add("content", self._content.end())
        return self._take_deltas()

    def message(self) -> Message:
        """The whole turn, after `end`."""
        return Message(
            role="assistant",
            content=self._content.text,
            reasoning=self._reasoning.text,
            tool_calls=tuple(self._calls),
        )

    def _take_deltas(self) -> list[TurnDelta]:
        deltas, self._deltas = self._deltas, []
        return deltas

    def _add(self, kind: Literal["content", "reasoning"], text: str) -> None:
        if not text:
            return
        if self._deltas and self._deltas[-1].kind == kind:
            last = self._deltas.pop()
            text = last.text + text
        self._deltas.append(TurnDelta(kind=kind, text=text))

    def _parse(self, *, final: bool) -> None:
        """Parses the buffer until no state changes anything; `final` if no text will follow."""
        steps = {
            "start": self._parse_start,
            "reasoning": self._parse_reasoning,
            "content": self._parse_content,
            "section": self._parse_section,
            "bare": self._parse_bare_call,
        }
        seen: tuple[State, str] | None = None
        while seen != (self._state, self._buffer):
            seen = (self._state, self._buffer)
            steps[self._state](final)

    def _parse_start(self, final: bool) -> None:
        """At the start of a turn, where a thinking block may open."""
        tags, text = self._markup.thinking, self._buffer.lstrip()
        if tags is None:
            self._state = "content"
        elif text.startswith(tags.opening):
            self._state, self._buffer = "reasoning", text.removeprefix(tags.opening)
        elif final or not tags.opening.startswith(text):
            self._state = "content"

    def _parse_reasoning(self, final: bool) -> None:
        closing = self._markup.thinking.closing if self._markup.thinking else ""
        reasoning, found, rest = self._buffer.partition(closing)
        if not found and not final:
            reasoning, rest = _split_certain(self._buffer, [closing])
        self._add("reasoning", self._reasoning.add(reasoning))
        self._buffer = rest
        if found:
            self._state = "content"
            self._content.trims = True

    def _parse_content(self, final: bool) -> None:
        if self._may_be_json and not self._knows_beginning(final):
            return
        if self._may_be_bare and self._buffer.lstrip().startswith("{"):
            self._state = "bare"
            return
        found = [
            (at, section)
            for section in self._sections
            if (at := self._buffer.find(section.opening)) >= 0
        ]
        if found:
            at, self._section = min(found, key=lambda pair: pair[0])
            content, rest = self._buffer[:at], self._buffer[at + len(self._section.opening) :]
            self._state, self._searched = "section", 0
        elif final:
            tags = [s.opening for s in self._sections if len(s.opening) > SHORT_TAG]
            content, begun = (
                _split_certain(self._buffer, tags) if self._is_cut else (self._buffer, "")
            )
            content += begun if len(begun) < SHORT_TAG else ""  # else a call's tag, cut off
            rest = ""
        else:
            content, rest = _split_certain(self._buffer, [s.opening for s in self._sections])
        self._buffer = rest
        self._add_content(content)

    def _knows_beginning(self, final: bool) -> bool:
        """Whether what a turn begins with is known; from then on JSON has no calls in it."""
        text = self._buffer.lstrip()
        tags = [section.opening for section in self._sections]
        if not final and any(tag.startswith(text) for tag in tags):
            return False
        self._may_be_json = False
        if not text.startswith(tuple(tags)):
            self._sections = ()
        return True

    def _add_content(self, text: str) -> None:
        if text.strip():
            self._may_be_bare = False
        self._add("content", self._content.add(text))

    def _parse_section(self, final: bool) -> None:
        """Inside a section: waits for its end, then reads its calls."""
        section = self._section
        if section is None:
            raise AssertionError("no section is open")
        end = self._section_end(section.closing, final) if section.closing else -1
        if end < 0 and not final:
            return
        body = self._buffer[:end] if end >= 0 else self._buffer
        self._state = "content"
        try:
            self._add_calls(section.read(body, self._tools))
        except MalformedCall as wrong:
            self.faults.append(str(wrong))
            if self._is_cut and end < 0:
                self._cut_off(body)
                return
            # Only the tag becomes content: what follows it may hold a readable call.
            self._add_content(section.opening)
        else:
            self._buffer = self._buffer[len(body) + len(section.closing or "") :]

    def _cut_off(self, body: str) -> None:
        """Ends the turn within a call."""
        self._buffer = ""
        self._content.drop_whitespace()
        self.cut_call = read_cut_call(body, self._tools)
        if self.cut_call is not None:
            index = len(self._calls)
            self._deltas.append(TurnDelta(kind="call", text=self.cut_call.name, index=index))
            if self.cut_call.arguments:
                arguments = self.cut_call.arguments
                self._deltas.append(TurnDelta(kind="arguments", text=arguments, index=index))

    def _section_end(self, closing: str, final: bool) -> int:
        """The position of the closing tag, or -1. Inside a JSON string the tag does not count."""
        at = self._buffer.find(closing, max(0, self._searched - len(closing)))
        while at >= 0 and _is_inside_string(self._buffer[:at]):
            at = self._buffer.find(closing, at + 1)
        self._searched = len(self._buffer)
        # A string that is never closed is not readable JSON: take the first closing tag then.
        return self._buffer.find(closing) if at < 0 and final else at

    def _parse_bare_call(self, final: bool) -> None:
        """A turn that began with `{`: a call if the object names a tool and nothing follows it."""
        text = self._buffer.strip()
        first = FIRST_KEY.match(text)
        if first is not None and first[1] not in CALL_KEYS:
            self._state, self._may_be_bare = "content", False
        elif final:
            self._state, self._may_be_bare = "content", False
            try:
                self._add_calls(read_json_calls(text, self._tools))
            except MalformedCall as wrong:
                if self._is_cut and read_cut_call(text, self._tools) is not None:
                    self._cut_off(text)
                if LIKE_A_CALL.search(text):
                    self.faults.append(str(wrong))
            else:
                self._buffer = ""

    def _add_calls(self, calls: list[ToolCall]) -> None:
        if len(self._calls) + len(calls) > 1 and not self._markup.many_calls:
            raise MalformedCall("only one tool can be called in a turn")
        self._may_be_bare = False
        self._content.drop_whitespace()
        for call in calls:
            index = len(self._calls)
            self._calls.append(replace(call, id=f"call_{index}"))
            arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
            self._deltas.append(TurnDelta(kind="call", text=call.name, index=index))
            self._deltas.append(TurnDelta(kind="arguments", text=arguments, index=index))


class _StreamedText:
    """Text that holds back its trailing whitespace until it is known what follows."""

    def __init__(self, *, trims: bool = False) -> None:
        self.text = ""
        self.trims = trims
        """Whether leading whitespace is dropped."""
        self._whitespace = ""
        self._ends_with_call = False

    def add(self, text: str) -> str:
        """Adds text; gives what can be streamed now."""
        if self.trims and not self.text:
            text = text.lstrip()
        added = (self._whitespace + text).rstrip()
        if not added:
            self._whitespace += text
            return ""
        self._whitespace = (self._whitespace + text)[len(added) :]
        self._ends_with_call = False
        self.text += added
        return added

    def drop_whitespace(self) -> None:
        """Before a call: drops the whitespace before it, and later that after it if it is last."""
        self._whitespace = ""
        self._ends_with_call = True
        self.trims = True

    def end(self) -> str:
        """Ends the text; gives its trailing whitespace."""
        whitespace = "" if self._ends_with_call else self._whitespace
        self.text += whitespace
        return whitespace


def _split_certain(text: str, tags: Sequence[str]) -> tuple[str, str]:
    """Splits off the longest end of the text that may be the start of a tag."""
    longest = max((_overlap(text, tag) for tag in tags), default=0)
    return text[: len(text) - longest], text[len(text) - longest :]


def _overlap(text: str, tag: str) -> int:
    """Characters at the end of the text that are a proper prefix of the tag."""
    sizes = range(min(len(tag) - 1, len(text)), 0, -1)
    return next((size for size in sizes if text.endswith(tag[:size])), 0)


def _is_inside_string(body: str) -> bool:
    """Whether JSON, or a `<function=...>`, that is cut here ends inside a string or a value."""
    begun = body.lstrip()
    if begun.startswith("<function="):
        return not body.rstrip().endswith("</function>")
    return begun.startswith(("{", "[")) and '"' in JSON_STRING.sub("", body)
