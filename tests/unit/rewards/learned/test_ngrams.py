import math

import numpy as np
from tests.unit.rewards.learned.talks import answered, said, talk, user

from practicum.core.trace import Trace
from practicum.rewards.learned.features import KEPT_CHARS, PLACES, hash_words, read_transcript


def vector(trace: Trace) -> np.ndarray:
    return hash_words(read_transcript(trace))


def test_the_same_words_always_have_the_same_places() -> None:
    # Fixed numbers: a labeler saved on one machine must read the same on another, next year.
    found = vector(talk("a", user("go"), said("hello")))
    places = np.flatnonzero(found)
    assert found.shape == (PLACES,)
    assert len(places) == 2  # "hello" as a word of all that was said and of the last message
    assert np.allclose(np.abs(found[places]), math.log(2))
    assert np.array_equal(found, vector(talk("b", user("other prompt"), said("hello"))))


def test_who_said_it_makes_a_difference() -> None:
    assistant = vector(talk("a", user("go"), said("refused"), said("x")))
    tool = vector(talk("a", user("go"), said(""), answered("refused"), said("x")))
    assert not np.array_equal(assistant, tool)


def test_the_order_of_words_makes_a_difference() -> None:
    one = vector(talk("a", user("go"), said("rm then look")))
    other = vector(talk("a", user("go"), said("look then rm")))
    assert not np.array_equal(one, other)


def test_numbers_of_the_same_length_are_one_word() -> None:
    assert np.array_equal(
        vector(talk("a", user("go"), said("port 8080"))),
        vector(talk("a", user("go"), said("port 9999"))),
    )


def test_of_a_very_long_text_both_ends_are_kept() -> None:
    filler = "x " * KEPT_CHARS
    long = vector(talk("a", user("go"), said(f"begin {filler} end")))
    other = vector(talk("a", user("go"), said(f"begin {filler} stop")))
    middle = vector(talk("a", user("go"), said(f"begin {filler} middle {filler} end")))
    assert not np.array_equal(long, other)
    assert np.array_equal(long, middle)
