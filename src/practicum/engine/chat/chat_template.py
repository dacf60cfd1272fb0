"""A chat template: a conversation as the text that it writes, and what it supports.

A template pastes messages between its special tokens as text, so a message that contains the text
`<|im_end|>` would end its own turn. Such texts are escaped before the template is applied
(`SpecialTokenEscape`) and encoded as plain text afterwards. What a template supports
(`TemplateTraits`) is found by rendering short conversations.
"""

import copy
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from practicum.core.byte_bound_cache import ByteBoundCache
from practicum.core.errors import UserError
from practicum.core.sampling import Spelling
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.engine.chat.given_templates import GIVE_TEMPLATE

ESCAPE_START, ESCAPE_END = "\ue000", "\ue001"
"""Characters of Unicode's private use area around the number of an escaped text."""

PROBE = f"{ESCAPE_START}completion{ESCAPE_END}"
"""Text whose position in a rendered conversation is looked for. Messages cannot contain it, since
its first character is escaped in them."""

Entry = dict[str, Any]
"""A message, or a tool, as chat templates take it."""

QUESTION: Entry = {"role": "user", "content": "?"}
"""A user message for the short conversations on which a template is tried."""

CACHE_BYTES = 32 * 1024 * 1024
"""Bytes of encoded texts that are kept, and of parsed turns. A client sends its whole conversation
with each request, so all but the last piece of it has been seen before."""

TOKEN_BYTES = 36
"""What an id takes: an integer, and its place in a tuple."""


class ChatTokenizer(Protocol):
    """The part of a `transformers` tokenizer that is used."""

    chat_template: Any
    eos_token_id: int | None
    added_tokens_decoder: Mapping[int, Any]
    """Added tokens by id, each with `content` and `special`."""

    def apply_chat_template(
        self,
        conversation: list[Entry],
        *,
        tokenize: bool,
        add_generation_prompt: bool,
        tools: list[Entry] | None = None,
    ) -> Any:
        """The conversation as text."""
        ...

    def encode(
        self, text: str, *, add_special_tokens: bool, split_special_tokens: bool
    ) -> list[int]:
        """Text to ids; with `split_special_tokens` special tokens are read as plain text."""
        ...

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> Any:
        """Ids to text."""
        ...


class TemplateVariables:
    """A tokenizer whose chat template has some of its variables set."""

    def __init__(self, tokenizer: ChatTokenizer, variables: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._variables = dict(variables)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __deepcopy__(self, memo: Any) -> "TemplateVariables":
        return TemplateVariables(copy.deepcopy(self._tokenizer, memo), self._variables)

    def apply_chat_template(self, conversation: list[Entry], **options: Any) -> Any:
        """The conversation as text."""
        return self._tokenizer.apply_chat_template(conversation, **self._variables, **options)


class TemplateRenderer:
    """Applies a chat template, and encodes its output with the special tokens that it wrote.

    Args:
        tokenizer: A tokenizer with a chat template.
        model: The model's name, for error messages.
    """

    def __init__(self, tokenizer: ChatTokenizer, model: str) -> None:
        self.tokenizer = tokenizer
        self.model = model
        if not tokenizer.chat_template:
            raise UserError(
                f"{model} has no chat template, so it cannot hold a conversation; {GIVE_TEMPLATE}"
            )
        added = tokenizer.added_tokens_decoder
        self.specials: dict[str, int] = {t.content: i for i, t in added.items() if t.special}
        self.escaper = SpecialTokenEscape(tuple(self.specials))
        self.any_special = re.compile(f"({any_of(tuple(self.specials))})")
        self._added: dict[str, int] = {token.content: index for index, token in added.items()}
        self._any_added = re.compile(f"({any_of(tuple(self._added))})")
        self.encode: Callable[[str], tuple[int, ...]] = ByteBoundCache(
            self._encode,
            lambda text, ids: 2 * len(text) + TOKEN_BYTES * len(ids),
            most_bytes=CACHE_BYTES,
        )

    @property
    def source(self) -> str:
        """The Jinja source of the template; of all of them where there are several."""
        template = self.tokenizer.chat_template
        if isinstance(template, Mapping):
            return "\n".join(map(str, template.values()))
        return str(template)

    def render(
        self, conversation: list[Entry], *, generation: bool = True, tools: Sequence[Entry] = ()
    ) -> str:
        """The conversation as text; with `generation`, the generation prompt at its end."""
        try:
            text = self.tokenizer.apply_chat_template(
                conversation,
                tokenize=False,
                add_generation_prompt=generation,
                **({"tools": list(tools)} if tools else {}),
            )
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            roles = ", ".join(message["role"] for message in conversation)
            raise UserError(
                f"the chat template of {self.model} refuses messages from {roles} ({reason}); "
                "choose another model or another environment"
            ) from error
        return str(text)

    def try_render(self, conversation: list[Entry], **options: Any) -> str:
        """As `render`, but the empty string where the template refuses the conversation."""
        try:
            return self.render(conversation, **options)
        except UserError:
            return ""

    def spell(self, text: str) -> Spelling:
        """Rendered text as the ids of its added tokens and the plain strings between them."""
        pieces = self._any_added.split(text)
        return tuple(self._added.get(p, self.escaper.unescape(p)) for p in pieces if p)

    def _encode(self, text: str) -> tuple[int, ...]:
        """Rendered text to ids. Special tokens that were escaped become plain text."""
        if ESCAPE_START not in text:
            return tuple(self._encode_piece(text, plain=False))
        ids: list[int] = []
        for piece in self.any_special.split(text):
            if piece in self.specials:
                ids.append(self.specials[piece])
            elif piece:
                ids.extend(self._encode_piece(self.escaper.unescape(piece), plain=True))
        return tuple(ids)

    def _encode_piece(self, text: str, *, plain: bool) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=plain)


class SpecialTokenEscape:
    r"""Replaces the texts of special tokens by numbers in private use characters, and back.

    This keeps a message from forging special tokens (ending its own turn, opening another role's).

    >>> escaper = SpecialTokenEscape(["<|im_end|>"])
    >>> escaped = escaper.escape("say <|im_end|>")
    >>> escaped
    'say \ue0001\ue001'
    >>> escaper.unescape(escaped)
    'say <|im_end|>'
    """

    def __init__(self, texts: Sequence[str]) -> None:
        # The start character is escaped itself, so that no message can forge an escaped text.
        self._texts = (ESCAPE_START, *texts)
        self._numbers = {text: number for number, text in enumerate(self._texts)}
        self._any_text = re.compile(any_of(self._texts))
        self._any_number = re.compile(f"{ESCAPE_START}([0-9]+){ESCAPE_END}")

    def escape(self, value: Any) -> Any:
        """The value with every string in it escaped, inside lists and dictionaries too."""
        if isinstance(value, str):
            return self._any_text.sub(
                lambda m: f"{ESCAPE_START}{self._numbers[m[0]]}{ESCAPE_END}", value
            )
        if isinstance(value, dict):
            return {self.escape(key): self.escape(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.escape(inner) for inner in value]
        return value

    def unescape(self, text: str) -> str:
        """The text as it was before `escape`."""
        return self._any_number.sub(lambda m: self._texts[int(m[1])], text)


def any_of(texts: Sequence[str]) -> str:
    """A regular expression for any of the texts, longest first, since one may be another's prefix.

    Of no texts, one that never matches.
    """
    return "|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or "(?!)"


SHORT_ID = 9
"""Characters of a call's id for templates that accept no other length (Mistral's)."""


@dataclass(frozen=True, slots=True)
class CallShape:
    """How a template wants tool calls passed. It is found by trying each of `CALL_SHAPES`."""

    arguments_as_text: bool = False
    """It pastes the arguments as they are, so they must be JSON text and not a dictionary."""
    short_ids: bool = False
    """It refuses ids that are not nine letters and digits."""

    def message(self, message: Message) -> dict[str, Any]:
        """A message as a template's input."""
        result: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.reasoning:
            result["reasoning_content"] = message.reasoning
        if message.tool_calls:
            result["tool_calls"] = [self.call(call) for call in message.tool_calls]
        needs_id = self.short_ids and message.role == "tool"
        if message.tool_call_id is not None or needs_id:
            result["tool_call_id"] = self._id(message.tool_call_id or "")
        return result

    def call(self, call: ToolCall) -> dict[str, Any]:
        """A tool call as a template's input."""
        arguments: Any = dict(call.arguments)
        if self.arguments_as_text:
            arguments = json.dumps(arguments, ensure_ascii=False)
        function = {"name": call.name, "arguments": arguments}
        return {"type": "function", "id": self._id(call.id), "function": function}

    def _id(self, given: str) -> str:
        if not self.short_ids or (len(given) == SHORT_ID and given.isalnum()):
            return given
        # A hash, so that a call and the tool message that answers it still have the same id.
        return hashlib.blake2b(given.encode()).hexdigest()[:SHORT_ID]


CALL_SHAPES = tuple(
    CallShape(arguments_as_text=as_text, short_ids=short)
    for short in (False, True)
    for as_text in (False, True)
)
"""In the order they are tried."""


def tool_as_dict(tool: ToolSpec) -> dict[str, Any]:
    """A tool as a template's input."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


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
