from collections.abc import Sequence

import numpy as np
import pytest
from tests.unit.rewards.learned.talks import answered, mixed_talks, said, talk, user

from practicum.rewards.learned.features import (
    READ_AT_ONCE,
    FeatureSpace,
    RawFeatures,
    read_features,
    trace_text,
)


class LengthEmbedder:
    """Embeds a text as its length and a constant."""

    name = "length"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.calls.append(len(texts))
        return np.array([[len(text), 7.0] for text in texts])


def test_each_block_has_a_mean_squared_length_of_about_one() -> None:
    traces, _ = mixed_talks(60, seed=0)
    raw = read_features(traces, LengthEmbedder())
    rows = FeatureSpace.fit(raw).transform(raw)
    facts, words = raw.facts.shape[1], raw.words.shape[1]
    blocks = np.split(rows, [facts, facts + words], axis=1)
    lengths = [float((block**2).sum(axis=1).mean()) for block in blocks]
    assert lengths == pytest.approx([1.0, 1.0, 1.0], abs=0.05)


def test_what_never_varies_counts_nothing_even_when_it_does_later() -> None:
    traces, _ = mixed_talks(20, seed=0)
    raw = read_features(traces, LengthEmbedder())
    space = FeatureSpace.fit(raw)
    later = RawFeatures(
        facts=raw.facts, words=raw.words, embeddings=raw.embeddings + np.array([0.0, 1000.0])
    )
    assert np.array_equal(space.transform(raw), space.transform(later))
    assert space.width == space.transform(raw).shape[1]


def test_a_fact_far_outside_what_is_usual_is_cut_off() -> None:
    traces, _ = mixed_talks(20, seed=0)
    raw = read_features(traces)
    space = FeatureSpace.fit(raw)
    wild = RawFeatures(facts=raw.facts * 1e9, words=raw.words, embeddings=raw.embeddings)
    assert np.abs(space.transform(wild)).max() < 10


def test_traces_are_read_in_parts_and_each_is_counted() -> None:
    traces, _ = mixed_talks(READ_AT_ONCE + 3, seed=0)
    embedder, ticks = LengthEmbedder(), []
    raw = read_features(traces, embedder, lambda: ticks.append(1))
    assert embedder.calls == [READ_AT_ONCE, 3]
    assert len(ticks) == len(raw) == len(traces)
    assert raw.embeddings[0, 0] == len(trace_text(traces[0]))
    assert np.array_equal(raw.take([5]).facts[0], raw.facts[5])


def test_no_traces_are_no_rows() -> None:
    raw = read_features([])
    assert (len(raw), raw.embeddings.shape) == (0, (0, 0))


def test_a_trace_as_text_says_who_said_what_and_called_what() -> None:
    trace = talk("a", user("go"), said("looking", "ls"), answered("x"))
    assert trace_text(trace) == (
        "user: go\n\nassistant: looking\n[call bash {'script': 'ls'}]\n\ntool: x"
    )
