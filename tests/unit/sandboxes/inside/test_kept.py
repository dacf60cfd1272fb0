"""What is kept of a command's output: a property over random pieces."""

import random

import pytest

from practicum.sandboxes.inside.kept import Kept


@pytest.mark.parametrize("seed", range(30))
def test_beginning_and_end_are_the_outputs_own(seed: int) -> None:
    chance = random.Random(seed)
    limit = chance.choice([0, 1, 2, 3, 10, 64, 1000])
    kept, whole = Kept(limit), b""
    for _ in range(chance.randrange(12)):
        piece = chance.randbytes(chance.choice([0, 1, 5, 40, 900]))
        kept.add(piece)
        whole += piece
    half = limit // 2
    assert kept.total == len(whole)
    if len(whole) <= 2 * half:
        assert not kept.is_cut
        assert kept.content() == whole
    else:
        notice = b"\n[%d bytes are left out here]\n" % (len(whole) - 2 * half)
        assert kept.is_cut
        assert kept.content() == whole[:half] + notice + (whole[-half:] if half else b"")


def test_memory_stays_bounded() -> None:
    kept = Kept(100)
    for _ in range(1000):
        kept.add(b"x" * 10_000)
    assert kept.total == 10_000_000
    assert len(kept.content()) < 200


def test_pieces_do_not_matter() -> None:
    one, many = Kept(9), Kept(9)
    text = bytes(range(100))
    one.add(text)
    for byte in text:
        many.add(bytes([byte]))
    assert one.content() == many.content()
