"""The text of tokens as they come, without halves of characters."""

from collections.abc import Callable, Mapping, Sequence

from practicum.chat.rendering import ChatTokenizer

__all__ = ["TokenText"]

BROKEN = "\ufffd"
"""What half a character is decoded as."""


LONGEST_CHARACTER = 4
"""Bytes of one, each of which may be a token of its own."""


class TokenText:
    """Decodes tokens as they come.

    A token's text can depend on the one before it (some tokenizers drop a blank at the start), so
    each is decoded behind the last ones; and a character may take several tokens, so text that
    ends in half of one is kept until the rest is there. Tokens that come together are decoded
    together, up to the last whole character.

    Args:
        tokenizer: Whose tokens they are.
        shown: Special tokens that are part of what is read, and their texts.
        hidden: Ids that add nothing to the text.
    """

    def __init__(
        self, tokenizer: ChatTokenizer, *, shown: Mapping[int, str], hidden: frozenset[int]
    ) -> None:
        self._decode_ids = _decoding(tokenizer)
        self._shown = shown
        self._hidden = hidden
        self._before: list[int] = []
        self._waiting: list[int] = []

    def push(self, tokens: Sequence[int]) -> str:
        """What is certain once these tokens are there."""
        if len(tokens) == 1 or any(t in self._hidden or t in self._shown for t in tokens):
            return "".join(map(self._push_one, tokens))
        waiting = [*self._waiting, *tokens]
        for whole in range(len(waiting), max(len(waiting) - LONGEST_CHARACTER, 0), -1):
            text = self._text_of(waiting[:whole])
            if not text.endswith(BROKEN):
                self._before, self._waiting = waiting[:whole], waiting[whole:]
                return text
        return "".join(map(self._push_one, tokens))

    def _push_one(self, token: int) -> str:
        if token in self._hidden:
            return self.flush()
        if token in self._shown:
            text = self.flush() + self._shown[token]
            self._before = []
            return text
        self._waiting.append(token)
        text = self._text_of(self._waiting)
        if text.endswith(BROKEN):
            return ""
        self._before, self._waiting = self._waiting, []
        return text

    def flush(self) -> str:
        """What was kept, broken or not."""
        if not self._waiting:
            return ""
        text = self._text_of(self._waiting)
        # Half a character must not become whole with what comes now.
        self._before, self._waiting = [], []
        return text

    def _text_of(self, waiting: list[int]) -> str:
        known = self._decode(self._before)
        return self._decode([*self._before, *waiting])[len(known) :]

    def _decode(self, ids: list[int]) -> str:
        return self._decode_ids(ids) if ids else ""


def _decoding(tokenizer: ChatTokenizer) -> Callable[[list[int]], str]:
    """Ids to text: by the library behind the tokenizer, where `transformers` adds nothing to it.

    Streamed text is decoded for every few tokens, and the way there takes longer than the work.
    """
    behind = getattr(tokenizer, "backend_tokenizer", None)
    if behind is None or getattr(tokenizer, "clean_up_tokenization_spaces", True):
        return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=False))
    return lambda ids: str(behind.decode(ids, skip_special_tokens=False))
