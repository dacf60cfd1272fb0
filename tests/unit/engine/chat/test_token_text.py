"""Text of tokens as they come: the same however many of them come together."""

import random

import pytest
from tests.unit.engine.chat.families import FAMILIES, tokenizer_of

from practicum.engine.chat.turn_parser import IncrementalDetokenizer

TOKENIZER = tokenizer_of(FAMILIES["chatml"])
WORDS = "grün 漢字 🙂👍🏽 naïve — \ufffd end"


def texts(pieces: list[list[int]]) -> list[str]:
    """What is certain after each piece, from the beginning."""
    text, told, found = IncrementalDetokenizer(TOKENIZER, shown={}, hidden=frozenset()), "", []
    for piece in pieces:
        told += text.push(piece)
        found.append(told)
    return [*found, told + text.flush()]


@pytest.mark.parametrize("seed", range(40))
def test_pieces_say_what_single_tokens_say(seed: int) -> None:
    """Bytes of words, cut anywhere, and bytes that are no characters at all."""
    dice = random.Random(seed)
    ids = TOKENIZER.encode(WORDS, add_special_tokens=False, split_special_tokens=True)
    wild = [dice.choice(ids) for _ in range(dice.randint(0, 30))]
    tokens = [*ids[: dice.randint(0, len(ids))], *wild, *ids]
    pieces, at = [], 0
    while at < len(tokens):
        size = dice.choice([1, 2, 3, 7, 30])
        pieces.append(tokens[at : at + size])
        at += size
    singly = texts([[token] for token in tokens])
    ends = [sum(map(len, pieces[: n + 1])) for n in range(len(pieces))]
    assert texts(pieces) == [*(singly[end - 1] for end in ends), singly[-1]]
