"""Messages between the host and a first process that may lie."""

import os
import random

import pytest

from practicum.sandboxes.inside.frames import FRAME_LIMIT, LENGTH, FrameError, pack, unpack


@pytest.mark.parametrize(
    "parts", [[], [b""], [b"", b""], [b"a", b"\0" * 5, b"\xff"], [b"x" * 70000]]
)
def test_a_message_comes_back_as_it_was(parts: list[bytes]) -> None:
    message = pack(parts)
    assert LENGTH.unpack(message[:4])[0] == len(message) - 4
    assert unpack(message[4:]) == parts


def test_random_messages_come_back_as_they_were() -> None:
    chance = random.Random(4)
    for _ in range(300):
        parts = [
            chance.randbytes(chance.choice([0, 1, 7, 300])) for _ in range(chance.randrange(9))
        ]
        assert unpack(pack(parts)[4:]) == parts


def test_garbage_is_an_error_or_a_message_of_the_same_bytes() -> None:
    chance = random.Random(5)
    refused = 0
    for _ in range(2000):
        body = chance.randbytes(chance.randrange(40))
        if chance.random() < 0.5:
            body = bytes(b % 4 if b < 128 else 0 for b in body)
        try:
            parts = unpack(body)
        except FrameError:
            refused += 1
        else:
            assert pack(parts)[4:] == body
    assert 0 < refused < 2000


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_message_that_is_cut_is_refused_or_shorter(cut: int) -> None:
    body = pack([b"abc", b"defgh"])[4:]
    short = body[:-cut]
    if short == body[:7]:
        assert unpack(short) == [b"abc"]
    else:
        with pytest.raises(FrameError):
            unpack(short)


def test_a_length_beyond_the_message_is_refused_without_being_allocated() -> None:
    with pytest.raises(FrameError):
        unpack(LENGTH.pack(0xFFFFFFFF) + os.urandom(8))
    assert FRAME_LIMIT < 0xFFFFFFFF
