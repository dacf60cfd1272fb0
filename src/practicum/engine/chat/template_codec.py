"""`TemplateCodec`: messages to tokens and back, by a tokenizer's chat template.

Sampled tokens are never encoded again. A conversation is opened once, and after each completion
only the messages that follow it are encoded; for a client that sends its whole conversation, the
tokens of sampled turns are reused. The content of messages stays plain text: `<|im_end|>` inside
a message never becomes the token that ends a turn.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from practicum.core.byte_bound_cache import ByteBoundCache
from practicum.core.conversation import Messages, SampledTurn, Turns
from practicum.core.errors import UserError
from practicum.core.sampling import CallsForm, ThoughtForm
from practicum.core.tool_calls import call_as_json
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.engine.chat.chat_template import (
    AFTER_THINKING,
    CACHE_BYTES,
    PROBE,
    QUESTION,
    TOKEN_BYTES,
    CallShape,
    ChatTokenizer,
    TemplateRenderer,
    TemplateVariables,
    after_completion,
    observe_traits,
    tool_as_dict,
)
from practicum.engine.chat.splicing import MessageNormalizer, TurnSplicer, with_calls_as_text
from practicum.engine.chat.tool_call_formats import Markup, markup_of
from practicum.engine.chat.tool_call_grammar import DUMMY_REASONING, CallWriter, ToolCallGrammar
from practicum.engine.chat.turn_parser import IncrementalDetokenizer, TurnParser

MOST_VARIANTS = 16
"""Settings of a template's variables that a model is used with: each has a codec of its own."""

TURN_ENDINGS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<|end_of_text|>",
)
"""Special tokens that end a turn in the templates in common use."""


class TemplateCodec:
    r"""The `HistoryCodec` of a tokenizer with a chat template.

    With ChatML, `open` gives the tokens of

        <|im_start|>user\nSolve 3x + 7 = 16<|im_end|>\n<|im_start|>assistant\n

    and after a completion that ended its turn, `extend` those of

        \n<|im_start|>user\n3x = 9<|im_end|>\n<|im_start|>assistant\n

    For a template that refuses a system message, its text goes to the start of the first user
    message. For one that does not list tools, they are described in the system message, calls are
    written as text, and tool results are user messages.

    Args:
        tokenizer: A tokenizer with a chat template.
        extra_end_ids: More ids that end a turn, from the model's generation settings.
        model: The model's name, for error messages.
    """

    def __init__(
        self, tokenizer: ChatTokenizer, *, extra_end_ids: Sequence[int] = (), model: str = ""
    ) -> None:
        self._tokenizer = tokenizer
        self._extra_end_ids, self._name = tuple(extra_end_ids), model
        self._variants: dict[tuple[tuple[str, Any], ...], TemplateCodec] = {}
        self._model = f"the model {model!r}" if model else "this model"
        renderer = TemplateRenderer(tokenizer, self._model)
        traits = observe_traits(renderer)
        self._renderer, self._traits = renderer, traits
        self._normalizer = MessageNormalizer(traits, renderer.escaper)
        self._splicer = TurnSplicer(renderer, traits, self._normalizer)
        self._markup: Markup = markup_of(renderer.source, traits)
        self._shape = traits.call_shape or CallShape()
        self._writes_calls = traits.takes_tools and self._shows(
            {"tool_calls": [self._shape.call(ToolCall(name=PROBE))]}
        )
        self._writes_reasoning = self._shows({"reasoning_content": PROBE})
        self._reasoning_of = ByteBoundCache[tuple[int, ...], str](
            lambda ids: self.read(ids).reasoning,
            lambda ids, text: TOKEN_BYTES * len(ids) + 2 * len(text),
            most_bytes=CACHE_BYTES,
        )
        self._plain_turn = self._rendered_turn({"role": "assistant", "content": PROBE})
        self._call_grammar = ToolCallGrammar(
            self._call_writers(),
            lambda text, tools: self.read(renderer.encode(text), tools),
            renderer.spell,
            "" if traits.thinking is None else traits.thinking.closing,
        )
        self.turn_end_id: int = self._find_turn_end()
        """The id with which the template closes an assistant's turn."""
        specials = renderer.specials
        self.end_of_turn_ids: frozenset[int] = frozenset(
            {
                self.turn_end_id,
                *(specials[text] for text in TURN_ENDINGS if text in specials),
                *((tokenizer.eos_token_id,) if tokenizer.eos_token_id is not None else ()),
                *extra_end_ids,
            }
        )
        """Every id that ends a turn when the model samples it."""

    def aside(self) -> "TemplateCodec":
        """The same codec for one other thread, with a tokenizer of its own.

        A tokenizer holds settings of the text that it encodes, so two threads cannot share one.
        """
        return self._aside

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Tokens of a text as it is; special tokens in it are special."""
        return tuple(
            self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=False)
        )

    def with_variables(self, variables: tuple[tuple[str, Any], ...]) -> "TemplateCodec":
        """The codec with variables of the template set, such as `enable_thinking`."""
        if variables not in self._variants:
            if len(self._variants) >= MOST_VARIANTS:
                raise UserError(
                    f"{self._model} is used with {MOST_VARIANTS} settings of its chat template "
                    "already; choose among fewer"
                )
            own: Any = TemplateVariables(self._tokenizer, dict(variables))
            self._variants[variables] = TemplateCodec(
                own, extra_end_ids=self._extra_end_ids, model=self._name
            )
        return self._variants[variables]

    def longest_token(self) -> int:
        """Characters of the longest token: a text has at least its length over this many tokens."""
        return self._longest_token

    @cached_property
    def _aside(self) -> "TemplateCodec":
        own: Any = copy.deepcopy(self._tokenizer)
        return TemplateCodec(own, extra_end_ids=self._extra_end_ids, model=self._name)

    @cached_property
    def _longest_token(self) -> int:
        tokenizer: Any = self._tokenizer
        return max(map(len, tokenizer.get_vocab()), default=1)

    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> tuple[int, ...]:
        """Tokens of the opening messages, up to where the assistant begins to write."""
        return self.prompt(messages, tools)

    def prompt(
        self, messages: Messages, tools: Sequence[ToolSpec] = (), turns: Turns | None = None
    ) -> tuple[int, ...]:
        """Tokens of a whole conversation and the generation prompt.

        An assistant's message whose index is in `turns` keeps the tokens it was sampled as, if the
        template shows all of it there. A turn of which the template drops a part (reasoning,
        mostly) is encoded again from the rest.
        """
        turns = turns or {}
        whole = [
            self._with_reasoning(message, turns[index]) if index in turns else message
            for index, message in enumerate(messages)
        ]
        entries = self._normalizer.conversation(whole, tools, turns)
        shown = [self._renderer.escaper.escape(tool_as_dict(tool)) for tool in tools]
        return self._splicer.encode(entries, shown if self._traits.takes_tools else [])

    def extend(self, messages: Sequence[Message], ended_turn: bool) -> tuple[int, ...]:
        """Tokens to append after a completion so that `messages` follow it.

        `ended_turn` says whether the completion itself ended with the end-of-turn token; if it was
        cut off, the turn is closed here.
        """
        tail = after_completion(self._renderer, self._normalizer.following(messages))
        before_closing = self._traits.before_closing
        if not tail.startswith(before_closing + (self._traits.closing or "")):
            return self._renderer.encode(tail)
        return self._splicer.encode_after_turn(tail.removeprefix(before_closing), ended_turn)

    def write(self, message: Message) -> tuple[int, ...]:
        """Tokens of an assistant's turn as the model would have sampled it, its end included.

        Its content stays plain text and is not trimmed. Tool calls are written as the template
        writes them, or as text if it supports no tools; reasoning is included if the template
        shows it.
        """
        return (*self._renderer.encode(self._turn_text(message)), self.turn_end_id)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of sampled tokens, without special ones."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def read(self, token_ids: Sequence[int], tools: Sequence[ToolSpec] = ()) -> Message:
        """Parses a sampled turn into content, reasoning and tool calls.

        Calls are read in the format of the template. One that cannot be read stays in the content,
        and the `faults` of the parser (see `reader`) say what was wrong with it.
        """
        parser = self.reader(tools)
        parser.feed(token_ids)
        parser.end()
        return parser.message()

    def reader(
        self,
        tools: Sequence[ToolSpec] = (),
        *,
        may_be_json: bool = False,
        is_plain: bool = False,
    ) -> TurnParser:
        """A parser that does the same incrementally, while the turn is sampled.

        With `may_be_json`, a turn that does not begin with a call has none: its text is an answer
        in a form that was asked for, whatever it looks like. With `is_plain`, tags are content.
        """
        specials = self._renderer.specials
        shown = {specials[text]: text for text in self._markup.texts if text in specials}
        hidden = {*specials.values(), *self.end_of_turn_ids} - (shown.keys() - self.end_of_turn_ids)
        text = IncrementalDetokenizer(self._tokenizer, shown=shown, hidden=frozenset(hidden))
        markup = self._markup
        if is_plain:
            bare = replace(markup, thinking=None, opens_thinking=False)
            return TurnParser(text, bare, ())
        if may_be_json and markup.bare_calls and not self._call_grammar.is_bare:
            markup = replace(markup, bare_calls=False)
        return TurnParser(text, markup, tools, may_be_json=may_be_json)

    def calls_form(self, tools: Sequence[ToolSpec], *, many: bool = False) -> CallsForm:
        """The format of a turn that must call one of the tools, or several with `many`."""
        return self._call_grammar.form(tools, many=many)

    @property
    def thought_form(self) -> ThoughtForm | None:
        """The format of the model's thinking before its content; None if it does not think."""
        tags = self._traits.thinking
        if tags is None:
            return None
        opening = "" if self._traits.opens_thinking else tags.opening
        closing = self._renderer.spell(tags.closing)
        if len(closing) != 1:
            raise UserError(
                f"{self._model} ends its thinking with {tags.closing}, which is neither one token "
                "nor plain text, so its turns cannot be held to a form; leave the form out"
            )
        return ThoughtForm(
            opening=self._renderer.spell(opening), closing=closing[0], behind=AFTER_THINKING
        )

    def _turn_text(self, message: Message) -> str:
        """The text of an assistant's turn without its end; special tokens in it are escaped."""
        shown = dict[str, Any]()
        if message.reasoning and self._writes_reasoning:
            shown["reasoning_content"] = message.reasoning
        are_shown = self._writes_calls and (
            len(message.tool_calls) <= 1 or self._traits.takes_many_calls
        )
        if message.tool_calls and are_shown:
            shown["tool_calls"] = [self._shape.call(call) for call in message.tool_calls]
        elif message.tool_calls:
            message = with_calls_as_text(message)
        thinking = "" if self._writes_reasoning else self._reasoning_in_content(message)
        escape = self._renderer.escaper.escape
        turn = self._plain_turn
        if shown:
            # Templates differ on empty content (some write a newline for any content at all), so
            # an empty one must not become a probe.
            content = PROBE if message.content else ""
            turn = self._rendered_turn({"role": "assistant", "content": content, **escape(shown)})
        return thinking + turn.replace(PROBE, escape(message.content))

    def _call_writers(self) -> tuple[CallWriter, ...]:
        """Functions that write a turn of calls only; the model's usual format comes first."""
        tags = self._traits.thinking
        thinking = "" if tags is None else tags.around(DUMMY_REASONING)
        begun = thinking.removeprefix(self._traits.opened_thinking)

        def written(calls: Sequence[ToolCall]) -> str:
            turn = Message(
                role="assistant", content="", reasoning=DUMMY_REASONING, tool_calls=tuple(calls)
            )
            return self._turn_text(turn)

        def shown(calls: Sequence[ToolCall]) -> str:
            as_dicts = [self._shape.call(call) for call in calls]
            message = {"role": "assistant", "content": "", "tool_calls": as_dicts}
            return begun + self._rendered_turn(self._renderer.escaper.escape(message))

        def within(opening: str, closing: str) -> CallWriter:
            return lambda calls: (
                begun + "\n".join(f"{opening}{call_as_json(call)}{closing}" for call in calls)
            )

        tags_of_calls = [(one.opening, one.closing or "") for one in self._markup.sections]
        return (written, shown, *(within(*pair) for pair in [*tags_of_calls, ("", "")]))

    def _reasoning_in_content(self, message: Message) -> str:
        """The reasoning as the model samples it, for a template that has no field for it."""
        traits = self._traits
        writes = traits.opens_thinking or traits.thinks_in_content
        if not message.reasoning or traits.thinking is None or not writes:
            return ""
        thinking = traits.thinking.around(self._renderer.escaper.escape(message.reasoning))
        return thinking.removeprefix(traits.opened_thinking)

    def _with_reasoning(self, message: Message, turn: SampledTurn) -> Message:
        """The message with the reasoning that was sampled; most clients do not send it back."""
        if message.reasoning or self._traits.thinking is None:
            return message
        return replace(message, reasoning=self._reasoning_of(turn.token_ids))

    def _rendered_turn(self, message: dict[str, Any]) -> str:
        """What the template writes between the generation prompt and the closing token."""
        before = self._renderer.render([QUESTION])
        text = self._renderer.render([QUESTION, message], generation=False)
        if not text.startswith(before):  # its generation prompt differs from how it shows turns
            before = text.partition(PROBE)[0]
        turn = text[len(before) :]
        closing = self._traits.closing
        if closing is None:
            return turn.removesuffix(after_completion(self._renderer, [], generation=False))
        return turn.rpartition(closing)[0]

    def _shows(self, part: dict[str, Any]) -> bool:
        """Whether the template shows this part of a turn right after its generation prompt."""
        message = {"role": "assistant", "content": "", **part}
        opened = self._renderer.render([QUESTION])
        text = self._renderer.try_render([QUESTION, message], generation=False)
        closes = (self._traits.closing or "") in text.partition(PROBE)[2]
        return PROBE in text and closes and text.startswith(opened)

    def _find_turn_end(self) -> int:
        if self._traits.closing is not None:
            return self._renderer.specials[self._traits.closing]
        if self._tokenizer.eos_token_id is None:
            raise UserError(
                f"the tokenizer of {self._model} has no token that ends a turn; "
                "choose an instruct model, such as smollm2-135m"
            )
        return self._tokenizer.eos_token_id
