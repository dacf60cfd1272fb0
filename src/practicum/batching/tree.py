"""Samples to prefix trees: every token that samples share is computed once.

Sorting samples by their tokens puts them in the depth-first order of their prefix tree. Laying each
one down from where it leaves the sample before it gives the tree's tokens in that order:

    samples   a b c d        tokens    a b c d e f
              a b c e        position  0 1 2 3 3 2
              a b f          end       6 6 5 4 5 6

and token i descends from token j exactly when `j <= i < end[j]`.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from practicum.batching.split import split_runs
from practicum.core.prefix import common_prefix
from practicum.core.sample import Batch, Floats, Ints, Sample

__all__ = ["build_batch", "build_batches"]

Scalar = TypeVar("Scalar", bound=np.generic)


def build_batches(samples: Sequence[Sample], budget_tokens: int) -> list[Batch]:
    """Prefix trees of at most `budget_tokens` unique tokens each.

    A sample longer than the budget gets a batch of its own. The samples are divided between
    subtrees, where the least of what they share is repeated.
    """
    ordered = sorted(samples, key=_depth_first)
    lengths = np.asarray([s.token_ids.size for s in ordered], np.int64)
    runs = split_runs(lengths, _shared_with_previous(ordered), budget_tokens)
    return [build_batch(ordered[begin:end]) for begin, end in runs]


def build_batch(samples: Sequence[Sample]) -> Batch:
    """One prefix tree of samples that are already sorted by their tokens."""
    tree = _lay_down(samples)
    return Batch(
        token_ids=tree.token_ids,
        position=tree.position,
        end=tree.end,
        sample_ids=tuple(s.id for s in samples),
        row_tokens=tree.places.size,
        **_decisions(samples, tree),
    )


def _depth_first(sample: Sample) -> tuple[bytes, str]:
    """Big-endian bytes compare as the tokens do, a prefix before what extends it."""
    return sample.token_ids.astype(">i8").tobytes(), sample.trace_id


def _shared_with_previous(samples: Sequence[Sample]) -> Ints:
    """Tokens each sample has in common with the one before it; 0 for the first."""
    shared = [common_prefix(a.token_ids, b.token_ids) for a, b in pairwise(samples)]
    return np.asarray([0, *shared][: len(samples)], np.int64)


def _join(arrays: Iterable[npt.NDArray[Any]], dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """The arrays one after the other, also when there are none."""
    return np.concatenate([np.zeros(0, dtype), *arrays], dtype=dtype)


class _Tree(NamedTuple):
    """Tokens of the tree, and where the tokens of the samples are in it."""

    token_ids: Ints  # (T,)
    position: Ints  # (T,)
    end: Ints  # (T,)
    places: Ints  # (R,) index in the tree of each token of each sample, the samples end to end


def _lay_down(samples: Sequence[Sample]) -> _Tree:
    lengths = np.asarray([s.token_ids.size for s in samples], np.int64)
    shared = _shared_with_previous(samples)
    fresh = lengths - shared
    begins = np.cumsum(fresh) - fresh
    total = int(fresh.sum())
    end = np.full(total, total, np.int64)
    places = np.empty(int(lengths.sum()), np.int64)
    path, row_begin = places[:0], 0  # those of the sample laid down last
    steps = zip(lengths.tolist(), shared.tolist(), begins.tolist(), strict=True)
    for length, common, begin in steps:
        end[path[common:]] = begin  # the next token starts another branch
        row = places[row_begin : row_begin + length]
        row[:common] = path[:common]
        row[common:] = np.arange(begin, begin + length - common)
        path, row_begin = row, row_begin + length
    tails = (s.token_ids[n:] for s, n in zip(samples, shared.tolist(), strict=True))
    return _Tree(
        token_ids=_join(tails, np.int64),
        position=np.arange(total) - np.repeat(begins - shared, fresh),
        end=end,
        places=places,
    )


def _decisions(samples: Sequence[Sample], tree: _Tree) -> dict[str, Any]:
    """Predictions to make, in the order of the tree, equal ones once; and the terms about them."""
    at = np.flatnonzero(_join((s.loss_mask for s in samples), np.bool_))  # (M,) of all R
    lengths = [s.token_ids.size for s in samples]
    owner = np.repeat(np.arange(len(samples)), lengths)[at]
    place = tree.places[at]
    on_first = np.flatnonzero(tree.position[place] == 0)
    if on_first.size:
        trace_id = samples[owner[on_first[0]]].trace_id
        raise ValueError(f"sample {trace_id!r} has loss on its first token")
    temperature = _join((s.temperatures for s in samples), np.float32)[at]
    degrees, degree = np.unique(temperature, return_inverse=True)
    choice_rows, choice = _number_choices(samples)
    # A token's place says both what predicts it and which token it is.
    key = (place * len(choice_rows) + choice) * degrees.size + degree
    _, first, decision = np.unique(key, return_index=True, return_inverse=True)
    return {
        "predictor": tree.places[at[first] - 1],
        "target": tree.token_ids[place[first]],
        "temperature": temperature[first],
        "choice_ids": choice_rows[choice[first]],
        "term_decision": decision,
        "term_old_logprob": _join((s.old_logprobs for s in samples), np.float32)[at],
        "term_advantage": _join((s.advantages for s in samples), np.float32)[at],
        "term_return": _join((_or_zeros(s.returns, s) for s in samples), np.float32)[at],
        "term_old_value": _join((_or_zeros(s.old_values, s) for s in samples), np.float32)[at],
        "term_weight": np.asarray([s.weight for s in samples], np.float32)[owner],
        "term_sample": owner,
    }


def _or_zeros(array: Floats | None, sample: Sample) -> Floats:
    return np.zeros(sample.token_ids.size, np.float32) if array is None else array


def _number_choices(samples: Sequence[Sample]) -> tuple[Ints, Ints]:
    """The different choices as rows padded with -1, and which row each loss token has."""
    numbers: dict[tuple[int, ...], int] = {(): 0}
    found = []
    for sample in samples:
        at = np.flatnonzero(sample.loss_mask)
        which = np.zeros(at.size, np.int64)
        if sample.choices:
            which[:] = [
                numbers.setdefault(sample.choices.get(i, ()), len(numbers)) for i in at.tolist()
            ]
        found.append(which)
    sizes = np.asarray([len(choices) for choices in numbers], np.int64)
    rows = np.full((sizes.size, sizes.max()), -1, np.int64)
    ids = np.fromiter(chain.from_iterable(numbers), np.int64, sizes.sum())
    rows[np.arange(sizes.max()) < sizes[:, None]] = ids
    return rows, _join(found, np.int64)
