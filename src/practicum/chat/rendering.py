"""A tokenizer's chat template: conversations to text, and that text to tokens."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from practicum.chat.literals import DISGUISED, Disguise, any_of
from practicum.core.errors import UserError
from practicum.core.turn_forms import Spelling

__all__ = ["MARK", "QUESTION", "REMEMBERED", "ChatTokenizer", "Rendering"]

QUESTION: dict[str, Any] = {"role": "user", "content": "?"}
"""Stands before an assistant turn when only what comes after that turn matters."""

MARK = "\ue000completion\ue001"
"""Stands for a text whose place in a rendered conversation is looked for. Its first character is
disguised in messages, so none of them can contain it."""

REMEMBERED = 1024
"""Texts and turns that are kept once they are encoded or read. A client sends its whole
conversation with each request, so all but the last piece of it has been seen before."""


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


class Rendering:
    """Applies a template, and encodes what came out with the special tokens that it wrote.

    Args:
        tokenizer: A tokenizer with a chat template.
        model: What the model is called in error messages.
    """

    def __init__(self, tokenizer: ChatTokenizer, model: str) -> None:
        self.tokenizer = tokenizer
        self.model = model
        if not tokenizer.chat_template:
            raise UserError(
                f"{model} has no chat template, so it cannot hold a conversation; "
                "choose an instruct model, such as smollm2-135m"
            )
        self.specials: dict[str, int] = {
            token.content: index
            for index, token in tokenizer.added_tokens_decoder.items()
            if token.special
        }
        self.disguise = Disguise(tuple(self.specials))
        self.any_special = re.compile(f"({any_of(tuple(self.specials))})")
        self._added: dict[str, int] = {
            token.content: index for index, token in tokenizer.added_tokens_decoder.items()
        }
        self._any_added = re.compile(f"({any_of(tuple(self._added))})")
        self.encode = lru_cache(maxsize=REMEMBERED)(self._encode)

    @property
    def source(self) -> str:
        """The template's own text; of all of them where there are several."""
        template = self.tokenizer.chat_template
        if isinstance(template, Mapping):
            return "\n".join(map(str, template.values()))
        return str(template)

    def render(
        self,
        conversation: list[dict[str, Any]],
        *,
        generation: bool = True,
        tools: Sequence[dict[str, Any]] = (),
    ) -> str:
        """The conversation as text; with `generation`, up to where the assistant begins."""
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

    def attempt(
        self,
        conversation: list[dict[str, Any]],
        *,
        generation: bool = True,
        tools: Sequence[dict[str, Any]] = (),
    ) -> str:
        """The same, or nothing where the template refuses the conversation."""
        try:
            return self.render(conversation, generation=generation, tools=tools)
        except UserError:
            return ""

    def spell(self, text: str) -> Spelling:
        """The text that a template wrote, its added tokens apart from what is plain."""
        pieces = self._any_added.split(text)
        return tuple(self._added.get(p, self.disguise.take_off(p)) for p in pieces if p)

    def _encode(self, text: str) -> tuple[int, ...]:
        if DISGUISED not in text:
            return tuple(self._plain_or_special(text, plain=False))
        ids: list[int] = []
        for piece in self.any_special.split(text):
            if piece in self.specials:
                ids.append(self.specials[piece])
            elif piece:
                ids.extend(self._plain_or_special(self.disguise.take_off(piece), plain=True))
        return tuple(ids)

    def _plain_or_special(self, text: str, *, plain: bool) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=plain)
