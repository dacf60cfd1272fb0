"""Samples to prefix trees: every token that samples share is computed once.

Sorting samples by their tokens puts them in the depth-first order of their prefix tree. Laying each
one down from where it leaves the sample before it gives the tree's tokens in that order:

    samples   a b c d        tokens    a b c d e f
              a b c e        position  0 1 2 3 3 2
              a b f          end       6 6 5 4 5 6

and token i descends from token j exactly when `j <= i < end[j]`.
"""

from collections.abc import Sequence

import numpy as np

from practicum.core.prefix import common_prefix
from practicum.core.sample import Batch, Ints, Sample

__all__ = ["build_batch", "build_batches"]


def build_batches(samples: Sequence[Sample], budget_tokens: int) -> list[Batch]:
    """Prefix trees of at most `budget_tokens` unique tokens each.

    A sample longer than the budget gets a batch of its own. Splitting between sorted samples
    repeats only the trunk they share.
    """
    ordered = sorted(samples, key=lambda s: (s.token_ids.tolist(), s.trace_id))
    batches: list[Batch] = []
    begin, used = 0, 0
    for i, sample in enumerate(ordered):
        shared = common_prefix(ordered[i - 1].token_ids, sample.token_ids) if i > begin else 0
        added = sample.token_ids.size - shared
        if i > begin and used + added > budget_tokens:
            batches.append(build_batch(ordered[begin:i]))
            begin, used, added = i, 0, sample.token_ids.size
        used += added
    if begin < len(ordered):
        batches.append(build_batch(ordered[begin:]))
    return batches


def build_batch(samples: Sequence[Sample]) -> Batch:
    """One prefix tree of samples that are already sorted by their tokens."""
    tokens: list[int] = []
    position: list[int] = []
    end: list[int] = []
    decisions = _Decisions()
    path = np.zeros(0, np.int64)  # index in the tree of each token of the sample laid down last
    previous = np.zeros(0, np.int64)
    for number, sample in enumerate(samples):
        shared = common_prefix(previous, sample.token_ids)
        for index in path[shared:]:
            end[index] = len(tokens)  # the next token starts another branch
        fresh = np.arange(len(tokens), len(tokens) + sample.token_ids.size - shared)
        tokens += sample.token_ids[shared:].tolist()
        position += range(shared, sample.token_ids.size)
        end += [0] * fresh.size
        path, previous = np.concatenate([path[:shared], fresh]), sample.token_ids
        decisions.add(sample, path, number)
    for index in path:
        end[index] = len(tokens)
    return Batch(
        token_ids=np.asarray(tokens, np.int64),
        position=np.asarray(position, np.int64),
        end=np.asarray(end, np.int64),
        sample_ids=tuple(s.trace_id for s in samples),
        row_tokens=sum(s.token_ids.size for s in samples),
        **decisions.arrays(),
    )


class _Decisions:
    """Collects predictions to make; equal ones are computed once."""

    def __init__(self) -> None:
        self._index: dict[tuple[int, int, float, tuple[int, ...]], int] = {}
        self._terms: list[tuple[int, float, float, float, int]] = []

    def add(self, sample: Sample, path: Ints, number: int) -> None:
        for at in np.flatnonzero(sample.loss_mask).tolist():
            if at == 0:
                raise ValueError(f"sample {sample.trace_id!r} has loss on its first token")
            key = (
                int(path[at - 1]),
                int(sample.token_ids[at]),
                float(sample.temperatures[at]),
                sample.choices.get(at, ()),
            )
            decision = self._index.setdefault(key, len(self._index))
            old, advantage = float(sample.old_logprobs[at]), float(sample.advantages[at])
            self._terms.append((decision, old, advantage, sample.weight, number))

    def arrays(self) -> dict[str, np.ndarray]:
        keys = list(self._index)
        width = max((len(key[3]) for key in keys), default=0)
        choice_ids = np.full((len(keys), width), -1, np.int64)
        for row, key in enumerate(keys):
            choice_ids[row, : len(key[3])] = key[3]
        terms = list(zip(*self._terms, strict=True)) or [()] * 5
        return {
            "predictor": np.asarray([key[0] for key in keys], np.int64),
            "target": np.asarray([key[1] for key in keys], np.int64),
            "temperature": np.asarray([key[2] for key in keys], np.float32),
            "choice_ids": choice_ids,
            "term_decision": np.asarray(terms[0], np.int64),
            "term_old_logprob": np.asarray(terms[1], np.float32),
            "term_advantage": np.asarray(terms[2], np.float32),
            "term_weight": np.asarray(terms[3], np.float32),
            "term_sample": np.asarray(terms[4], np.int64),
        }
