"""From traces to rows of numbers that one linear model can weigh."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from practicum.core.errors import UserError
from practicum.core.trace import Message, Trace
from practicum.rewards.learned.facts import FACT_NAMES, count_facts, read_transcript
from practicum.rewards.learned.ngrams import PLACES, hash_words

__all__ = ["Array", "Embedder", "FeatureSpace", "RawFeatures", "read_features", "trace_text"]

Array = npt.NDArray[np.float64]

FARTHEST = 5.0
"""Standard deviations beyond which a fact is not believed to be any stranger."""

READ_AT_ONCE = 32
"""Traces that an embedder is given at once."""


class Embedder(Protocol):
    """Turns texts into vectors; the local language model, most often."""

    @property
    def name(self) -> str:
        """The model's name, then in brackets which weights and settings.

        Vectors that were made otherwise do not compare with its own.
        """
        ...

    def embed(self, texts: Sequence[str]) -> Array:
        """One row for each text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFeatures:
    """What was read off each trace, a row each, before anything is brought to scale."""

    facts: Array  # (n, F)
    words: Array  # (n, W)
    embeddings: Array  # (n, E), no columns without an embedder

    def __len__(self) -> int:
        return int(self.facts.shape[0])

    def take(self, rows: Sequence[int]) -> "RawFeatures":
        """Only these rows."""
        kept = list(rows)
        return RawFeatures(
            facts=self.facts[kept], words=self.words[kept], embeddings=self.embeddings[kept]
        )


def read_features(
    traces: Sequence[Trace],
    embedder: Embedder | None = None,
    on_trace: Callable[[], None] = lambda: None,
) -> RawFeatures:
    """Features of traces, a row each; `on_trace` is called after each one."""
    n = len(traces)
    facts, words = np.zeros((n, len(FACT_NAMES))), np.zeros((n, PLACES))
    embedded: list[Array] = []
    for start in range(0, n, READ_AT_ONCE):
        part = traces[start : start + READ_AT_ONCE]
        for row, trace in enumerate(part, start):
            told = read_transcript(trace)
            facts[row], words[row] = count_facts(trace, told), hash_words(told)
        if embedder is not None:
            embedded.append(embedder.embed([trace_text(trace) for trace in part]))
        for _ in part:
            on_trace()
    return RawFeatures(
        facts=facts,
        words=words,
        embeddings=np.concatenate(embedded) if embedded else np.zeros((n, 0)),
    )


def trace_text(trace: Trace) -> str:
    """A trace as one text, for a model to read."""
    return "\n\n".join(_message_text(message) for message in trace.messages())


def _message_text(message: Message) -> str:
    calls = [f"[call {call.name} {dict(call.arguments)}]" for call in message.tool_calls]
    said = [part for part in (message.reasoning, message.content, *calls) if part]
    return f"{message.role}: " + "\n".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSpace:
    """How raw features are brought to scale, as learned from traces without looking at labels.

    Facts, words and embeddings each come to a mean squared length of about 1, so that none
    outweighs the others by the number of its columns.
    """

    fact_mean: Array
    fact_scale: Array
    """What a fact is divided by; infinite for one that never varies, which then counts nothing."""
    word_rarity: Array
    """What each place of the words is multiplied by: rare ones say more."""
    embedding_mean: Array
    embedding_scale: Array

    @classmethod
    def fit(cls, raw: RawFeatures) -> "FeatureSpace":
        """The scales of these traces."""
        if not len(raw):
            raise UserError("there are no traces to learn from; practicum traces import adds some")
        seen = (raw.words != 0).sum(axis=0)
        return cls(
            fact_mean=raw.facts.mean(axis=0),
            fact_scale=_scale(raw.facts),
            word_rarity=np.log((1 + len(raw)) / (1 + seen)) + 1,
            embedding_mean=raw.embeddings.mean(axis=0),
            embedding_scale=_scale(raw.embeddings),
        )

    @property
    def width(self) -> int:
        """Columns of what `transform` gives."""
        return self.fact_mean.size + self.word_rarity.size + self.embedding_mean.size

    def transform(self, raw: RawFeatures) -> Array:
        """One row for each trace."""
        facts = np.clip((raw.facts - self.fact_mean) / self.fact_scale, -FARTHEST, FARTHEST)
        words = raw.words * self.word_rarity
        lengths = np.sqrt((words**2).sum(axis=1, keepdims=True))
        embedded = (raw.embeddings - self.embedding_mean) / self.embedding_scale
        return np.hstack(
            [
                facts / _root_count(self.fact_scale),
                words / np.where(lengths > 0, lengths, 1.0),
                embedded / _root_count(self.embedding_scale),
            ]
        )


def _scale(columns: Array) -> Array:
    spread = columns.std(axis=0)
    return np.where(spread > 1e-9, spread, np.inf)


def _root_count(scale: Array) -> float:
    return math.sqrt(max(1, int(np.isfinite(scale).sum())))
