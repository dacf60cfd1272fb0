"""Messages to tokens, by the chat template that travels with a tokenizer.

Tokens already seen are never made again: a conversation is opened once, and after each completion
only what follows it is added. Whatever a message says stays plain text: the words `<|im_end|>`
inside a message never become the token that ends a turn.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from practicum.chat.literals import DISGUISED, Disguise, any_of
from practicum.core.errors import UserError
from practicum.core.tool_calls import tools_as_text, write_tool_call
from practicum.core.trace import Message, ToolCall, ToolSpec

__all__ = ["ChatTokenizer", "TemplateCodec"]

TURN_ENDINGS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|end_of_text|>")
"""Special tokens that end a turn in the templates in common use."""

QUESTION = Message(role="user", content="?")
"""Stands before an assistant turn when only what comes after that turn matters."""

MARK = "\ue000completion\ue001"
"""Stands for a text whose place in a rendered conversation is looked for. Its first character is
disguised in messages, so none of them can contain it."""


class ChatTokenizer(Protocol):
    """What is needed of a `transformers` tokenizer."""

    chat_template: Any
    eos_token_id: int | None
    added_tokens_decoder: Mapping[int, Any]
    """Added tokens by id, each with `content` and `special`."""

    def apply_chat_template(
        self,
        conversation: list[dict[str, Any]],
        *,
        tokenize: bool,
        add_generation_prompt: bool,
        tools: list[dict[str, Any]] | None = None,
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


class TemplateCodec:
    r"""The `ChatCodec` of a tokenizer with a chat template.

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
        if not tokenizer.chat_template:
            raise UserError(
                f"{self._model} has no chat template, so it cannot hold a conversation; "
                "choose an instruct model, such as smollm2-135m"
            )
        self._specials = {
            token.content: index
            for index, token in tokenizer.added_tokens_decoder.items()
            if token.special
        }
        self._disguise = Disguise(tuple(self._specials))
        self._any_special = re.compile(f"({any_of(tuple(self._specials))})")
        self._takes_system = self._shows_system()
        self._takes_tools = self._shows_tools()
        self._closing = self._find_closing()
        self._takes_calls = self._takes_tools and self._shows(
            {"tool_calls": [_call_as_dict(ToolCall(name=MARK))]}
        )
        self._takes_reasoning = self._shows({"reasoning_content": MARK})
        self._plain_turn = self._turn({"role": "assistant", "content": MARK})
        self.turn_end_id: int = self._find_turn_end()
        """The id that the template itself closes an assistant's turn with."""
        self.end_of_turn_ids: frozenset[int] = frozenset(
            {
                self.turn_end_id,
                *(self._specials[text] for text in TURN_ENDINGS if text in self._specials),
                *((tokenizer.eos_token_id,) if tokenizer.eos_token_id is not None else ()),
                *extra_end_ids,
            }
        )
        """Every id that ends a turn when the model samples it."""

    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> tuple[int, ...]:
        """Tokens of the opening messages, up to where the assistant begins to write."""
        if tools and not self._takes_tools:
            told = _with_tools_told(messages, tools)
            messages = [self._as_known(message) for message in told]
        disguised = [
            self._disguise.put_on(_as_dict(message)) for message in self._fold_system(messages)
        ]
        shown = [self._disguise.put_on(_tool_as_dict(tool)) for tool in tools]
        return self._encode(self._render(disguised, tools=shown if self._takes_tools else []))

    def extend(self, messages: Sequence[Message], ended_turn: bool) -> tuple[int, ...]:
        """Tokens to append after a completion so that `messages` follow it.

        `ended_turn` says whether the completion itself ended with the end-of-turn token; if it was
        cut off, the turn is closed here.
        """
        tail = self._after_completion(messages)
        head, closing, rest = tail.partition(self._closing) if self._closing else (tail, "", "")
        if not ended_turn or not closing or head.strip():
            return self._encode(tail)
        # The rest is encoded behind the closing token, as it is in a whole conversation, and the
        # token taken off afterwards. Blanks that the template puts before it were not sampled.
        return self._encode(closing + rest)[1:]

    def write(self, message: Message) -> tuple[int, ...]:
        """Tokens of an assistant's turn as the model would have sampled it, its end included.

        What it says stays plain text and is not trimmed. Tool calls are in the form the template
        writes them, or as text where it knows no tools; reasoning is there where the template has
        a place for it.
        """
        content, shown = message.content, dict[str, Any]()
        if message.reasoning and self._takes_reasoning:
            shown["reasoning_content"] = message.reasoning
        if message.tool_calls and self._takes_calls:
            shown["tool_calls"] = [_call_as_dict(call) for call in message.tool_calls]
        elif message.tool_calls:
            calls = [write_tool_call(call) for call in message.tool_calls]
            content = "\n".join([content, *calls] if content else calls)
        turn = self._plain_turn
        if shown:
            # Nothing said is not an empty text to every template.
            said = {"role": "assistant", "content": MARK if content else ""}
            turn = self._turn(said | self._disguise.put_on(shown))
        return (*self._encode(turn.replace(MARK, self._disguise.put_on(content))), self.turn_end_id)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of sampled tokens, without special ones."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def _after_completion(self, messages: Sequence[Message], *, generation: bool = True) -> str:
        """What the template writes behind a completion that `messages` follow."""
        conversation = [
            _as_dict(QUESTION),
            {"role": "assistant", "content": MARK},
            *(self._disguise.put_on(_as_dict(self._as_known(message))) for message in messages),
        ]
        _, found, after = self._render(conversation, generation=generation).partition(MARK)
        if not found or MARK in after:
            raise UserError(
                f"the chat template of {self._model} does not show an assistant's message as it "
                "was written; choose another model"
            )
        return after

    def _turn(self, written: dict[str, Any]) -> str:
        """What the template writes between where a turn begins and the token that closes it."""
        before = self._render([_as_dict(QUESTION)])
        text = self._render([_as_dict(QUESTION), written], generation=False)
        if not text.startswith(before):  # it opens a turn otherwise than it shows one
            before = text.partition(MARK)[0]
        turn = text[len(before) :]
        if self._closing is None:
            return turn.removesuffix(self._after_completion([], generation=False))
        return turn.rpartition(self._closing)[0]

    def _shows(self, said: dict[str, Any]) -> bool:
        """Whether the template shows a part of an assistant's message that contains the mark."""
        written = {"role": "assistant", "content": "", **said}
        try:
            opened = self._render([_as_dict(QUESTION)])
            text = self._render([_as_dict(QUESTION), written], generation=False)
        except UserError:
            return False
        closes = (self._closing or "") in text.partition(MARK)[2]
        return MARK in text and closes and text.startswith(opened)

    def _find_closing(self) -> str | None:
        """The special token that closes a completion, if the template has one."""
        tail = self._after_completion([], generation=False)
        first = self._any_special.search(tail)
        return first[0] if first and not tail[: first.start()].strip() else None

    def _find_turn_end(self) -> int:
        if self._closing is not None:
            return self._specials[self._closing]
        if self._tokenizer.eos_token_id is None:
            raise UserError(
                f"the tokenizer of {self._model} has no token that ends a turn; "
                "choose an instruct model, such as smollm2-135m"
            )
        return self._tokenizer.eos_token_id

    def _shows_system(self) -> bool:
        try:
            conversation = [{"role": "system", "content": MARK}, _as_dict(QUESTION)]
            return MARK in self._render(conversation)
        except UserError:
            return False

    def _shows_tools(self) -> bool:
        """Whether the template lists tools and takes their answers."""
        probe = _tool_as_dict(ToolSpec(name=MARK, parameters={"type": "object", "properties": {}}))
        answered = [
            _as_dict(QUESTION),
            {"role": "assistant", "content": "?"},
            {"role": "tool", "content": MARK},
        ]
        try:
            return MARK in self._render([_as_dict(QUESTION)], tools=[probe]) and (
                MARK in self._render(answered)
            )
        except UserError:
            return False

    def _as_known(self, message: Message) -> Message:
        """A tool's answer from the user where the template knows no tools."""
        if message.role != "tool" or self._takes_tools:
            return message
        return Message(role="user", content=message.content)

    def _fold_system(self, messages: Sequence[Message]) -> list[Message]:
        """The messages as the template can take them."""
        if self._takes_system or not messages or messages[0].role != "system":
            return list(messages)
        system, *others = messages
        if others and others[0].role == "user":
            together = f"{system.content}\n\n{others[0].content}"
            return [Message(role="user", content=together), *others[1:]]
        return [Message(role="user", content=system.content), *others]

    def _render(
        self,
        conversation: list[dict[str, Any]],
        *,
        generation: bool = True,
        tools: Sequence[dict[str, Any]] = (),
    ) -> str:
        try:
            text = self._tokenizer.apply_chat_template(
                conversation,
                tokenize=False,
                add_generation_prompt=generation,
                **({"tools": list(tools)} if tools else {}),
            )
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            roles = ", ".join(message["role"] for message in conversation)
            raise UserError(
                f"the chat template of {self._model} refuses messages from {roles} ({reason}); "
                "choose another model or another environment"
            ) from error
        return str(text)

    def _encode(self, text: str) -> tuple[int, ...]:
        if DISGUISED not in text:
            return tuple(self._plain_or_special(text, plain=False))
        ids: list[int] = []
        for piece in self._any_special.split(text):
            if piece in self._specials:
                ids.append(self._specials[piece])
            elif piece:
                ids.extend(self._plain_or_special(self._disguise.take_off(piece), plain=True))
        return tuple(ids)

    def _plain_or_special(self, text: str, *, plain: bool) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=plain)


def _as_dict(message: Message) -> dict[str, Any]:
    """A message in the form that chat templates read."""
    result: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        result["tool_calls"] = [_call_as_dict(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        result["tool_call_id"] = message.tool_call_id
    return result


def _call_as_dict(call: ToolCall) -> dict[str, Any]:
    """A tool call in the form that chat templates read."""
    function = {"name": call.name, "arguments": dict(call.arguments)}
    return {"type": "function", "id": call.id, "function": function}


def _tool_as_dict(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the form that chat templates read."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _with_tools_told(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Message]:
    """The messages with the tools described in the system message."""
    told = tools_as_text(tools)
    if messages and messages[0].role == "system":
        system, *others = messages
        return [Message(role="system", content=f"{system.content}\n\n{told}"), *others]
    return [Message(role="system", content=told), *messages]
