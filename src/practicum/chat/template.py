"""Messages to tokens and back, by the chat template that travels with a tokenizer.

Tokens already seen are never made again: a conversation is opened once, and after each completion
only what follows it is added; a client that sends its whole conversation gets the tokens of the
turns that were sampled in it. Whatever a message says stays plain text: the words `<|im_end|>`
inside a message never become the token that ends a turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from practicum.chat.as_dicts import CallShape, tool_as_dict
from practicum.chat.families import Markup, markup_of
from practicum.chat.habits import BEHIND_THINKING, after_completion, observe
from practicum.chat.held_calls import THOUGHT, HeldCalls, Writing
from practicum.chat.preparing import Preparing, with_calls_as_text
from practicum.chat.reading import TurnReading
from practicum.chat.rendering import MARK, QUESTION, REMEMBERED, ChatTokenizer, Rendering
from practicum.chat.splicing import Splicing
from practicum.chat.token_text import TokenText
from practicum.core.conversing import SampledTurn
from practicum.core.errors import UserError
from practicum.core.tool_calls import call_as_json
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.core.turn_forms import CallsForm, ThoughtForm

__all__ = ["ChatTokenizer", "TemplateCodec"]

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

    A template that refuses a system message gets its text at the head of the first user message;
    one that does not show tools gets them as text, and what they answer from the user.

    Args:
        tokenizer: A tokenizer with a chat template.
        extra_end_ids: More ids that end a turn, from the model's generation settings.
        model: The model's name, for error messages.
    """

    def __init__(
        self, tokenizer: ChatTokenizer, *, extra_end_ids: Sequence[int] = (), model: str = ""
    ) -> None:
        self._tokenizer = tokenizer
        self._model = f"the model {model!r}" if model else "this model"
        rendering = Rendering(tokenizer, self._model)
        habits = observe(rendering)
        self._rendering, self._habits = rendering, habits
        self._preparing = Preparing(habits, rendering.disguise)
        self._splicing = Splicing(rendering, habits, self._preparing)
        self._markup: Markup = markup_of(rendering.source, habits)
        self._shape = habits.call_shape or CallShape()
        self._writes_calls = habits.takes_tools and self._shows(
            {"tool_calls": [self._shape.call(ToolCall(name=MARK))]}
        )
        self._writes_reasoning = self._shows({"reasoning_content": MARK})
        self._thought = lru_cache(maxsize=REMEMBERED)(self._read_thought)
        self._plain_turn = self._turn({"role": "assistant", "content": MARK})
        self._held_calls = HeldCalls(
            self._ways_to_call(),
            lambda text, tools: self.read(rendering.encode(text), tools),
            rendering.spell,
            "" if habits.thinking is None else habits.thinking.closing,
        )
        self.turn_end_id: int = self._find_turn_end()
        """The id that the template itself closes an assistant's turn with."""
        specials = rendering.specials
        self.end_of_turn_ids: frozenset[int] = frozenset(
            {
                self.turn_end_id,
                *(specials[text] for text in TURN_ENDINGS if text in specials),
                *((tokenizer.eos_token_id,) if tokenizer.eos_token_id is not None else ()),
                *extra_end_ids,
            }
        )
        """Every id that ends a turn when the model samples it."""

    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> tuple[int, ...]:
        """Tokens of the opening messages, up to where the assistant begins to write."""
        return self.prompt(messages, tools)

    def prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        turns: Mapping[int, SampledTurn] | None = None,
    ) -> tuple[int, ...]:
        """Tokens of a whole conversation, up to where the assistant begins to write.

        An assistant's message whose index is in `turns` is given by the tokens it was sampled as,
        provided that the template shows all of it where it stands; a turn of which the template
        drops a part (thinking, mostly) is encoded anew from the rest.
        """
        turns = turns or {}
        whole = [
            self._with_thought(message, turns[index]) if index in turns else message
            for index, message in enumerate(messages)
        ]
        entries = self._preparing.conversation(whole, tools, turns)
        shown = [self._rendering.disguise.put_on(tool_as_dict(tool)) for tool in tools]
        return self._splicing.encode(entries, shown if self._habits.takes_tools else [])

    def extend(self, messages: Sequence[Message], ended_turn: bool) -> tuple[int, ...]:
        """Tokens to append after a completion so that `messages` follow it.

        `ended_turn` says whether the completion itself ended with the end-of-turn token; if it was
        cut off, the turn is closed here.
        """
        tail = after_completion(self._rendering, self._preparing.following(messages))
        before_closing = self._habits.before_closing
        if not tail.startswith(before_closing + (self._habits.closing or "")):
            return self._rendering.encode(tail)
        return self._splicing.behind(tail.removeprefix(before_closing), ended_turn)

    def write(self, message: Message) -> tuple[int, ...]:
        """Tokens of an assistant's turn as the model would have sampled it, its end included.

        What it says stays plain text and is not trimmed. Tool calls are in the form the template
        writes them, or as text where it knows no tools; reasoning is there where the template has
        a place for it.
        """
        return (*self._rendering.encode(self._written(message)), self.turn_end_id)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of sampled tokens, without special ones."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def read(self, token_ids: Sequence[int], tools: Sequence[ToolSpec] = ()) -> Message:
        """A sampled turn as a message: its content, reasoning and tool calls.

        Calls are read in the form that the template writes them. One that cannot be read stays in
        the content; the reader's `faults` say what was wrong with it.
        """
        reading = self.reader(tools)
        reading.feed(token_ids)
        reading.end()
        return reading.message()

    def reader(self, tools: Sequence[ToolSpec] = ()) -> TurnReading:
        """The same while it is sampled."""
        specials = self._rendering.specials
        shown = {specials[text]: text for text in self._markup.texts if text in specials}
        hidden = {*specials.values(), *self.end_of_turn_ids} - (shown.keys() - self.end_of_turn_ids)
        text = TokenText(self._tokenizer, shown=shown, hidden=frozenset(hidden))
        return TurnReading(text, self._markup, tools)

    def calls_form(self, tools: Sequence[ToolSpec], *, many: bool = False) -> CallsForm:
        """How a turn that must call one of the tools is written, or several with `many`."""
        return self._held_calls.form(tools, many=many)

    @property
    def thought_form(self) -> ThoughtForm | None:
        """How the model thinks before what it says; None where it does not."""
        tags = self._habits.thinking
        if tags is None:
            return None
        opening = "" if self._habits.opens_thinking else tags.opening
        closing = self._rendering.spell(tags.closing)
        if len(closing) != 1:
            raise UserError(
                f"{self._model} ends its thinking with {tags.closing}, which is neither one token "
                "nor plain text, so its turns cannot be held to a form; leave the form out"
            )
        return ThoughtForm(
            opening=self._rendering.spell(opening), closing=closing[0], behind=BEHIND_THINKING
        )

    def _written(self, message: Message) -> str:
        """The text of an assistant's turn, its end left out; what it says is disguised."""
        shown = dict[str, Any]()
        if message.reasoning and self._writes_reasoning:
            shown["reasoning_content"] = message.reasoning
        are_shown = self._writes_calls and (
            len(message.tool_calls) <= 1 or self._habits.takes_many_calls
        )
        if message.tool_calls and are_shown:
            shown["tool_calls"] = [self._shape.call(call) for call in message.tool_calls]
        elif message.tool_calls:
            message = with_calls_as_text(message)
        thought = "" if self._writes_reasoning else self._thought_before(message)
        disguise = self._rendering.disguise.put_on
        turn = self._plain_turn
        if shown:
            # Nothing said is not an empty text to every template.
            said = {"role": "assistant", "content": MARK if message.content else ""}
            turn = self._turn(said | disguise(shown))
        return thought + turn.replace(MARK, disguise(message.content))

    def _ways_to_call(self) -> tuple[Writing, ...]:
        """How calls may be written in a turn of their own, as the model is used to them first."""
        tags = self._habits.thinking
        thought = "" if tags is None else tags.around(THOUGHT)
        begun = thought.removeprefix(self._habits.opened_thinking)

        def written(calls: Sequence[ToolCall]) -> str:
            turn = Message(role="assistant", content="", reasoning=THOUGHT, tool_calls=tuple(calls))
            return self._written(turn)

        def shown(calls: Sequence[ToolCall]) -> str:
            as_dicts = [self._shape.call(call) for call in calls]
            said = {"role": "assistant", "content": "", "tool_calls": as_dicts}
            return begun + self._turn(self._rendering.disguise.put_on(said))

        def within(opening: str, closing: str) -> Writing:
            return lambda calls: (
                begun + "\n".join(f"{opening}{call_as_json(call)}{closing}" for call in calls)
            )

        marks = [(section.opening, section.closing or "") for section in self._markup.sections]
        return (written, shown, *(within(*pair) for pair in [*marks, ("", "")]))

    def _thought_before(self, message: Message) -> str:
        """What was thought, as the model writes it where the template has no place for it."""
        habits = self._habits
        writes = habits.opens_thinking or habits.thinks_in_content
        if not message.reasoning or habits.thinking is None or not writes:
            return ""
        thought = habits.thinking.around(self._rendering.disguise.put_on(message.reasoning))
        return thought.removeprefix(habits.opened_thinking)

    def _with_thought(self, message: Message, turn: SampledTurn) -> Message:
        """The message with what was thought before it, which most clients do not send back."""
        if message.reasoning or self._habits.thinking is None:
            return message
        return replace(message, reasoning=self._thought(turn.token_ids))

    def _read_thought(self, token_ids: tuple[int, ...]) -> str:
        return self.read(token_ids).reasoning

    def _turn(self, written: dict[str, Any]) -> str:
        """What the template writes between where a turn begins and the token that closes it."""
        before = self._rendering.render([QUESTION])
        text = self._rendering.render([QUESTION, written], generation=False)
        if not text.startswith(before):  # it opens a turn otherwise than it shows one
            before = text.partition(MARK)[0]
        turn = text[len(before) :]
        closing = self._habits.closing
        if closing is None:
            return turn.removesuffix(after_completion(self._rendering, [], generation=False))
        return turn.rpartition(closing)[0]

    def _shows(self, said: dict[str, Any]) -> bool:
        """Whether the template shows a part of a turn as the model would go on from its prompt."""
        written = {"role": "assistant", "content": "", **said}
        opened = self._rendering.render([QUESTION])
        text = self._rendering.attempt([QUESTION, written], generation=False)
        closes = (self._habits.closing or "") in text.partition(MARK)[2]
        return MARK in text and closes and text.startswith(opened)

    def _find_turn_end(self) -> int:
        if self._habits.closing is not None:
            return self._rendering.specials[self._habits.closing]
        if self._tokenizer.eos_token_id is None:
            raise UserError(
                f"the tokenizer of {self._model} has no token that ends a turn; "
                "choose an instruct model, such as smollm2-135m"
            )
        return self._tokenizer.eos_token_id
