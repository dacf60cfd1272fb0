"""Encodes whole conversations, keeping the sampled tokens of the turns that were sampled.

`TurnSplicer` renders the conversation with placeholders in place of the parts of each sampled turn.
Where all of a turn's placeholders come out, between the same texts as when the turn was sampled,
the turn's own tokens are spliced in and only the text around them is encoded. A turn of which the
template drops a part (reasoning, mostly) is encoded again from the text that is left of it.
`MessageNormalizer` first rewrites what the template does not support.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from practicum.core.byte_bound_cache import ByteBoundCache
from practicum.core.conversation import SampledTurn
from practicum.core.tool_calls import tools_as_text, write_tool_call
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.engine.chat.chat_template import (
    CACHE_BYTES,
    ESCAPE_END,
    ESCAPE_START,
    QUESTION,
    TOKEN_BYTES,
    CallShape,
    SpecialTokenEscape,
    TemplateRenderer,
    TemplateTraits,
    after_completion,
    with_tool_result,
)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A message, with the tokens it was sampled as where they are known."""

    message: Message
    turn: SampledTurn | None = None
    was_tool: bool = False
    """Whether this is a tool's result that is passed as a user message."""


class MessageNormalizer:
    """Rewrites messages that a template does not support into ones that it does."""

    def __init__(self, traits: TemplateTraits, escaper: SpecialTokenEscape) -> None:
        self._traits = traits
        self._escaper = escaper

    def conversation(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        turns: Mapping[int, SampledTurn],
    ) -> list[HistoryEntry]:
        """A whole conversation; tools are described as text if the template does not list them."""
        traits = self._traits
        describes = bool(tools) and not traits.takes_tools
        as_text = describes or traits.call_shape is None
        entries = [HistoryEntry(message, turns.get(i)) for i, message in enumerate(messages)]
        if describes:
            system = tools_as_text(tools)
            if entries and entries[0].message.role == "system":
                system = f"{entries.pop(0).message.content}\n\n{system}"
            entries.insert(0, HistoryEntry(Message(role="system", content=system)))
        supported = [self._rewrite(entry, calls_as_text=as_text) for entry in entries]
        return self._fold_system(self._merge_tool_results(supported))

    def following(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Messages that follow a completion, as a template's input."""
        as_text = not self._traits.takes_tools or self._traits.call_shape is None
        entries = [self._rewrite(HistoryEntry(one), calls_as_text=as_text) for one in messages]
        return [self.as_dict(entry.message) for entry in self._merge_tool_results(entries)]

    def as_dict(self, message: Message) -> dict[str, Any]:
        """A message as a template's input, special tokens in it escaped."""
        shape = self._traits.call_shape or CallShape()
        plain: dict[str, Any] = self._escaper.escape(shape.message(message))
        return self.with_thinking(plain)

    def with_thinking(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message with its reasoning inside the content, if the template wants it there."""
        tags = self._traits.thinking
        if not self._traits.thinks_in_content or tags is None or "reasoning_content" not in message:
            return message
        reasoning = tags.around(message["reasoning_content"])
        others = {key: value for key, value in message.items() if key != "reasoning_content"}
        return {**others, "content": reasoning + message["content"]}

    def _rewrite(self, entry: HistoryEntry, *, calls_as_text: bool) -> HistoryEntry:
        """Tool results as user messages and calls as text, if the template supports neither."""
        message, traits = entry.message, self._traits
        if message.role == "tool" and calls_as_text and not traits.takes_tools:
            return HistoryEntry(Message(role="user", content=message.content), was_tool=True)
        too_many = len(message.tool_calls) > 1 and not traits.takes_many_calls
        if message.tool_calls and (calls_as_text or too_many):
            return replace(entry, message=with_calls_as_text(message))
        return entry

    def _merge_tool_results(self, entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
        """Tool results and the user messages beside them as one, if roles must alternate."""
        if self._traits.takes_runs:
            return list(entries)
        merged: list[HistoryEntry] = []
        for entry in entries:
            last = merged[-1] if merged else None
            is_run = last is not None and last.message.role == entry.message.role == "user"
            if last is not None and is_run and (last.was_tool or entry.was_tool):
                together = f"{last.message.content}\n{entry.message.content}"
                merged[-1] = HistoryEntry(Message(role="user", content=together), was_tool=True)
            else:
                merged.append(entry)
        return merged

    def _fold_system(self, entries: list[HistoryEntry]) -> list[HistoryEntry]:
        """The system message at the start of the first user message, if it takes no system role."""
        if self._traits.takes_system or not entries or entries[0].message.role != "system":
            return entries
        system, *others = entries
        content = system.message.content
        if others and others[0].message.role == "user":
            content = f"{content}\n\n{others[0].message.content}"
            others = others[1:]
        return [HistoryEntry(Message(role="user", content=content)), *others]


def with_calls_as_text(message: Message) -> Message:
    """The message with its calls written as text, in the form that `tools_as_text` asks for."""
    calls = [write_tool_call(call) for call in message.tool_calls]
    content = "\n".join([message.content, *calls] if message.content else calls)
    return replace(message, content=content, tool_calls=())


@dataclass(frozen=True, slots=True)
class TurnAffixes:
    """The template's text around the parts of an assistant turn that ends its conversation."""

    prompt: str
    """The generation prompt."""
    before: str
    """Between the generation prompt and the turn's first part."""
    after: str
    """Between the turn's last part and the turn's end."""


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """The characters of a rendered conversation that a sampled turn takes up."""

    start: int
    end: int
    """Position of the token that closes the turn."""
    turn: SampledTurn


@dataclass(frozen=True, slots=True)
class TurnParts:
    """Which parts a turn has. Turns with the same parts have the same `TurnAffixes`."""

    after_tool: bool
    content: bool
    reasoning: bool
    calls: tuple[bool, ...]
    """For each call, whether it has arguments."""

    def with_placeholders(self, index: int) -> Message:
        """A turn with these parts, each a placeholder; `index` is its place among the messages."""
        calls = tuple(
            ToolCall(
                name=_placeholder(index, f"name {n}"),
                arguments={_placeholder(index, f"argument {n}"): ""} if has_arguments else {},
                id=f"call_{n}",
            )
            for n, has_arguments in enumerate(self.calls)
        )
        return Message(
            role="assistant",
            content=_placeholder(index, "content") if self.content else "",
            reasoning=_placeholder(index, "reasoning") if self.reasoning else "",
            tool_calls=calls,
        )

    def placeholders(self, index: int) -> list[str]:
        """Every placeholder in that turn."""
        turn = self.with_placeholders(index)
        calls = [text for call in turn.tool_calls for text in (call.name, *call.arguments)]
        return [text for text in (turn.reasoning, turn.content, *calls) if text]


class TurnSplicer:
    """Encodes conversations around the turns that were sampled in them."""

    def __init__(
        self, renderer: TemplateRenderer, traits: TemplateTraits, normalizer: MessageNormalizer
    ) -> None:
        self._renderer = renderer
        self._traits = traits
        self._normalizer = normalizer
        self._known_affixes: dict[TurnParts, TurnAffixes | None] = {}
        self._samples_thinking: Callable[[tuple[int, ...]], bool] = ByteBoundCache(
            self._has_thinking, lambda ids, _: TOKEN_BYTES * len(ids), most_bytes=CACHE_BYTES
        )

    def encode(
        self, entries: Sequence[HistoryEntry], tools: Sequence[dict[str, Any]]
    ) -> tuple[int, ...]:
        """The tokens of the conversation and the generation prompt."""
        sampled = {i for i, entry in enumerate(entries) if entry.turn is not None}
        while True:
            text = self._renderer.render(
                [
                    self._with_placeholders(entry.message, i)
                    if i in sampled
                    else self._normalizer.as_dict(entry.message)
                    for i, entry in enumerate(entries)
                ],
                tools=tools,
            )
            spans = self._find_spans(text, entries, sorted(sampled))
            if len(spans) == len(sampled):
                return self._encode_around(text, list(spans.values()))
            # Turns that were not found are rendered with their real text instead. `sampled` only
            # shrinks, so this ends.
            sampled = set(spans)

    def _encode_around(self, text: str, spans: Sequence[TurnSpan]) -> tuple[int, ...]:
        if not spans:
            return self._renderer.encode(text)
        ids = [*self._renderer.encode(text[: spans[0].start])]
        ends = [*(span.start for span in spans[1:]), len(text)]
        for span, end in zip(spans, ends, strict=True):
            ids += span.turn.token_ids
            ids += self.encode_after_turn(text[span.end : end], span.turn.ended_turn)
        return tuple(ids)

    def encode_after_turn(self, text: str, ended_turn: bool) -> tuple[int, ...]:
        """Tokens of the text after a turn; the text begins with the token that closes the turn."""
        traits = self._traits
        if traits.closing is None:
            return self._renderer.encode(text)
        if not ended_turn:
            return self._renderer.encode(traits.before_closing + text)
        # The closing token was sampled. It is encoded and dropped again, because a tokenizer may
        # encode what follows a special token otherwise than the start of a text. Whitespace that
        # the template puts before it was not sampled.
        return self._renderer.encode(text)[1:]

    def _find_spans(
        self, text: str, entries: Sequence[HistoryEntry], sampled: Sequence[int]
    ) -> dict[int, TurnSpan]:
        spans: dict[int, TurnSpan] = {}
        done = 0
        for index in sampled:
            after_tool = index > 0 and entries[index - 1].message.role == "tool"
            span = self._find_span(text, done, index, entries[index], after_tool)
            if span is not None:
                spans[index] = span
                done = span.end
        return spans

    def _find_span(
        self, text: str, done: int, index: int, entry: HistoryEntry, after_tool: bool
    ) -> TurnSpan | None:
        """The turn's span after `done`, or None where it is not shown as it was sampled."""
        parts = _parts_of(entry.message, after_tool)
        placeholders = parts.placeholders(index)
        affixes = self._affixes(parts)
        if affixes is None or entry.turn is None:
            return None
        found = [text.find(one, done) for one in placeholders]
        if min(found) < done:
            return None
        first = min(found)
        last = max(at + len(one) for at, one in zip(found, placeholders, strict=True))
        start = self._start(text[done:first], affixes, entry.turn)
        end = self._end(text, last, affixes)
        if start is None or end is None:
            return None
        return TurnSpan(start=done + start, end=end, turn=entry.turn)

    def _start(self, before: str, affixes: TurnAffixes, turn: SampledTurn) -> int | None:
        markups = [affixes.before]
        tags = self._traits.thinking
        if tags is not None:
            opening, found, after = affixes.before.partition(tags.opening)
            inside, closed, rest = after.partition(tags.closing)
            # Some templates write an empty thinking block into the last turn and into no earlier
            # one; a turn that was sampled without thinking is found with or without that block.
            if (
                found
                and closed
                and not inside.strip()
                and not self._samples_thinking(turn.token_ids)
            ):
                markups.append(opening + rest.lstrip())
        for markup in markups:
            if before.endswith(affixes.prompt + markup):
                return len(before) - len(markup)
        return None

    def _has_thinking(self, token_ids: tuple[int, ...]) -> bool:
        """Whether a thinking tag was sampled, even around no reasoning."""
        tags = self._traits.thinking
        text = str(self._renderer.tokenizer.decode(list(token_ids), skip_special_tokens=False))
        return tags is not None and (tags.opening in text or tags.closing in text)

    def _end(self, text: str, last: int, affixes: TurnAffixes) -> int | None:
        if self._traits.closing is None:
            return last + len(affixes.after) if text.startswith(affixes.after, last) else None
        at = text.find(self._traits.closing, last)
        return at if at >= 0 else None

    def _affixes(self, parts: TurnParts) -> TurnAffixes | None:
        if parts not in self._known_affixes:
            self._known_affixes[parts] = self._find_affixes(parts)
        return self._known_affixes[parts]

    def _find_affixes(self, parts: TurnParts) -> TurnAffixes | None:
        before = with_tool_result("?") if parts.after_tool else [QUESTION]
        turn = self._as_dict(parts.with_placeholders(0))
        ended = self._renderer.try_render(before, generation=False)
        opened = self._renderer.try_render(before)
        shown = self._renderer.try_render([*before, turn], generation=False)
        found = [(at, one) for one in parts.placeholders(0) if (at := shown.find(one)) >= 0]
        if not opened or not found or not shown.startswith(opened):
            return None
        last = max(at + len(one) for at, one in found)
        ending = after_completion(self._renderer, [], generation=False)
        return TurnAffixes(
            prompt=opened[len(ended) :] if opened.startswith(ended) else "",
            before=shown[len(opened) : min(found)[0]],
            after=shown[last:].removesuffix(ending),
        )

    def _with_placeholders(self, message: Message, index: int) -> dict[str, Any]:
        """A sampled turn as the template's input: placeholders, and the real ids of its calls."""
        turn = _parts_of(message, after_tool=False).with_placeholders(index)
        calls = tuple(
            replace(call, id=self._renderer.escaper.escape(sampled.id))
            for call, sampled in zip(turn.tool_calls, message.tool_calls, strict=True)
        )
        return self._as_dict(replace(turn, tool_calls=calls))

    def _as_dict(self, turn: Message) -> dict[str, Any]:
        """As `MessageNormalizer.as_dict`, but placeholders are not escaped."""
        shape = self._traits.call_shape or CallShape()
        return self._normalizer.with_thinking(shape.message(turn))


def _placeholder(index: int, part: str) -> str:
    return f"{ESCAPE_START}{index} {part}{ESCAPE_END}"


def _parts_of(message: Message, after_tool: bool) -> TurnParts:
    return TurnParts(
        after_tool=after_tool,
        # An empty turn gets a content placeholder too, so that its position is found.
        content=bool(message.content) or not (message.reasoning or message.tool_calls),
        reasoning=bool(message.reasoning),
        calls=tuple(bool(call.arguments) for call in message.tool_calls),
    )
