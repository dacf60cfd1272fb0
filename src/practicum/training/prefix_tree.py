"""Credited episodes to samples (root-to-leaf paths) to batches (prefix trees).

Tokens that samples have in common, such as the prompt of a group, are computed once. Sorting the
samples by their tokens puts them in the depth-first order of their prefix tree; each sample adds
the tokens after its common prefix with the sample before it:

    samples   a b c d        tokens    a b c d e f
              a b c e        position  0 1 2 3 3 2
              a b f          end       6 6 5 4 5 6

Token i descends from token j exactly when `j <= i < end[j]`, which is the attention mask.

A batch is a run of consecutive sorted samples. With `shared[k]` the length of the common prefix of
samples k - 1 and k, the run from i up to j has

    lengths[i] + sum of (lengths[k] - shared[k]) for i < k < j

tokens, and starting a run at i computes `shared[i]` tokens again, wherever the other cuts are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from practicum.core.sample import (
    Averaging,
    Batch,
    Credit,
    Episode,
    Floats,
    Ints,
    Sample,
    common_prefix,
)
from practicum.core.trace import SampledSpan, Trace

Scalar = TypeVar("Scalar", bound=np.generic)

CREDITED = ("advantages", "returns", "old_values")
"""Fields of `Credit` that become arrays of a `Sample`."""


def group_samples(
    episodes: Sequence[Episode],
    credits: Sequence[Credit],
    averaging: Averaging = "episode",
    constant: int = 1,
) -> list[Sample]:
    """Samples of the episodes of one optimizer step, weighted so that the loss is a mean.

    Args:
        episodes: The episodes to train on.
        credits: Their advantages.
        averaging: See `Averaging`.
        constant: The length to divide by, with `constant`.
    """
    lengths = [loss_tokens(episode.trace) for episode in episodes]
    total = {"episode": 1, "token": sum(lengths), "constant": constant}[averaging]
    count = 1 if averaging == "token" else len(episodes)
    samples: list[Sample] = []
    for episode, credit, length in zip(episodes, credits, lengths, strict=True):
        share = 1 if averaging == "episode" else length
        samples += episode_samples(episode.trace, credit, share / (count * (total or 1)))
    return samples


def episode_samples(trace: Trace, credit: Credit, weight: float) -> list[Sample]:
    """One sample for each path of a trace with loss; `weight` is divided among its loss tokens."""
    for part in (credit.advantages, credit.returns or credit.advantages):
        if len(part) != len(trace.turns):
            raise ValueError(
                f"trace {trace.id!r} has {len(trace.turns)} turns and credit for {len(part)}"
            )
    each = weight / (loss_tokens(trace) or 1)
    return [
        replace(_path_sample(trace, path, credit), weight=each, path=number)
        for number, path in enumerate(training_paths(trace))
    ]


class TrainingPath(NamedTuple):
    """A root-to-leaf path that becomes a sample."""

    sample_id: str
    nodes: tuple[int, ...]
    """Indices in `Trace.nodes`, root first."""
    fresh: list[int]
    """Those whose loss no earlier path of the trace carries: a shared turn is trained once."""


def training_paths(trace: Trace) -> list[TrainingPath]:
    """The root-to-leaf paths of a trace that have loss of their own; number n has the id `ID#n`."""
    found: list[TrainingPath] = []
    trained = set[int]()
    for leaf in trace.leaves():
        nodes = trace.path(leaf)
        spans = ((i, trace.nodes[i].sampled) for i in nodes if i not in trained)
        fresh = [i for i, span in spans if span is not None and any(span.loss_mask)]
        if fresh:
            trained.update(fresh)
            sample_id = f"{trace.id}#{len(found)}" if found else trace.id
            found.append(TrainingPath(sample_id, nodes, fresh))
    return found


def loss_tokens(trace: Trace) -> int:
    """Number of tokens of a trace with loss."""
    return sum(sum(n.sampled.loss_mask) for n in trace.nodes if n.sampled is not None)


def _path_sample(trace: Trace, path: TrainingPath, credit: Credit) -> Sample:
    length = sum(len(trace.nodes[i].token_ids) for i in path.nodes)  # T; every array is (T,)
    token_ids = np.zeros(length, np.int64)
    loss_mask = np.zeros(length, np.bool_)
    old_logprobs = np.zeros(length, np.float32)
    credited: dict[str, Any] = {
        name: np.zeros(length, np.float32)
        for name in CREDITED
        if name == "advantages" or getattr(credit, name)
    }
    turn_of = {node: turn for turn, node in enumerate(trace.turns)}
    temperatures = np.ones(length, np.float32)
    choices: dict[int, tuple[int, ...]] = {}
    at = 0
    for i in path.nodes:
        node = trace.nodes[i]
        span = slice(at, at + len(node.token_ids))
        token_ids[span] = node.token_ids
        if i in path.fresh and node.sampled is not None:
            loss_mask[span] = node.sampled.loss_mask
            old_logprobs[span] = untruncated_logprobs(node.sampled)
            for name, array in credited.items():
                array[span][loss_mask[span]] = getattr(credit, name)[turn_of[i]]
            temperatures[span] = node.sampled.temperature
            choices.update(
                (at + offset, allowed)
                for offset, allowed in enumerate(node.sampled.choices)
                if allowed and node.sampled.loss_mask[offset]
            )
        at = span.stop
    return Sample(
        token_ids=token_ids,
        loss_mask=loss_mask,
        old_logprobs=np.where(loss_mask, old_logprobs, np.float32(0)),
        temperatures=temperatures,
        choices=choices,
        trace_id=trace.id,
        **credited,
    )


def untruncated_logprobs(span: SampledSpan) -> Floats:
    """The sampler's log-probabilities before top-k, top-p and unlisted grammars, one per token.

    The learner recomputes these, because the policy gradient is of the whole distribution.
    """
    logprobs = np.asarray(span.logprobs, np.float32)
    return logprobs + np.asarray(span.log_kept, np.float32) if span.log_kept else logprobs


def build_batches(samples: Sequence[Sample], budget_tokens: int) -> list[Batch]:
    """Prefix trees of at most `budget_tokens` unique tokens each, as micro-batches.

    A sample longer than the budget gets a batch of its own.
    """
    ordered = sorted(samples, key=_depth_first)
    lengths = np.asarray([s.token_ids.size for s in ordered], np.int64)
    runs = split_runs(lengths, _shared_with_previous(ordered), budget_tokens)
    return [build_batch(ordered[begin:end]) for begin, end in runs]


def build_batch(samples: Sequence[Sample]) -> Batch:
    """The prefix tree of samples that are already sorted by their tokens."""
    tree = _build_tree(samples)
    return Batch(
        token_ids=tree.token_ids,
        position=tree.position,
        end=tree.end,
        sample_ids=tuple(s.id for s in samples),
        row_tokens=tree.places.size,
        **_decisions(samples, tree),
    )


def split_runs(lengths: Ints, shared: Ints, budget_tokens: int) -> list[tuple[int, int]]:
    """Cut sorted samples into runs (begin, end) that compute the fewest tokens twice.

    Ties go to the fewest runs, then to the smallest largest run. A sample longer than the budget
    is a run of its own. Exact dynamic programming over the positions of the last cut; each sample
    looks back only as far as the budget reaches.

    Args:
        lengths: Tokens of each sample, (B,).
        shared: Length of each sample's common prefix with the one before; 0 for the first, (B,).
        budget_tokens: Most unique tokens of a run.

    >>> split_runs(np.array([5, 5, 5, 5]), np.array([0, 4, 1, 4]), budget_tokens=10)
    [(0, 2), (2, 4)]
    """
    count = lengths.size
    laid = np.concatenate([[0], np.cumsum(lengths - shared)])  # (B + 1,) tree tokens before sample
    base = shared - laid[:-1]  # (B,) a run from i to j has base[i] + laid[j] tokens
    # A later begin never makes a run longer, so -base is sorted and can be searched.
    earliest = np.minimum(
        np.searchsorted(-base, laid[1:] - budget_tokens), np.arange(count)
    ).tolist()
    # Cost of all runs up to a cut at i, lexicographic in one integer: repeated tokens, then runs.
    cost = np.zeros(count, np.int64)
    largest = np.zeros(count + 1, np.int64)  # size of the largest run before i
    begins = [0] * (count + 1)  # where the best last run that ends at i begins
    for end in range(1, count + 1):
        window = cost[earliest[end - 1] : end]
        cheapest = window.min()
        tied = earliest[end - 1] + np.flatnonzero(window == cheapest)
        sizes = np.maximum(largest[tied], base[tied] + laid[end])
        best = sizes.argmin()
        begins[end], largest[end] = int(tied[best]), sizes[best]
        if end < count:
            # There are at most `count` runs, so a repeated token outweighs any number of them.
            cost[end] = cheapest + 1 + shared[end] * (count + 1)
    runs: list[tuple[int, int]] = []
    end = count
    while end > 0:
        runs.append((begins[end], end))
        end = begins[end]
    return runs[::-1]


def _depth_first(sample: Sample) -> tuple[bytes, str]:
    """Sort key: big-endian bytes compare as the token ids do, a prefix before what extends it."""
    return sample.token_ids.astype(">i8").tobytes(), sample.trace_id


def _shared_with_previous(samples: Sequence[Sample]) -> Ints:
    """Length of each sample's common prefix with the one before; 0 for the first."""
    shared = [common_prefix(a.token_ids, b.token_ids) for a, b in pairwise(samples)]
    return np.asarray([0, *shared][: len(samples)], np.int64)  # (B,)


class _Tree(NamedTuple):
    """The tree's tokens, and where each token of each sample is among them."""

    token_ids: Ints  # (T,)
    position: Ints  # (T,)
    end: Ints  # (T,)
    places: Ints  # (R,) tree index of each token of the samples, concatenated


def _build_tree(samples: Sequence[Sample]) -> _Tree:
    lengths = np.asarray([s.token_ids.size for s in samples], np.int64)  # (B,)
    shared = _shared_with_previous(samples)
    fresh = lengths - shared  # (B,) tokens that each sample adds to the tree
    begins = np.cumsum(fresh) - fresh  # (B,) tree index of the first of them
    total = int(fresh.sum())
    end = np.full(total, total, np.int64)
    places = np.empty(int(lengths.sum()), np.int64)
    path, row_begin = places[:0], 0  # tree indices of the previous sample's tokens
    steps = zip(lengths.tolist(), shared.tolist(), begins.tolist(), strict=True)
    for length, common, begin in steps:
        end[path[common:]] = begin  # the subtrees the new sample leaves end here
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
    """The D distinct predictions in tree order, and the M terms of the loss about them."""
    at = np.flatnonzero(_join((s.loss_mask for s in samples), np.bool_))  # (M,) indices into R
    lengths = [s.token_ids.size for s in samples]
    owner = np.repeat(np.arange(len(samples)), lengths)[at]  # (M,)
    place = tree.places[at]  # (M,) tree index of the predicted token
    on_first = np.flatnonzero(tree.position[place] == 0)
    if on_first.size:
        trace_id = samples[owner[on_first[0]]].trace_id
        raise ValueError(f"sample {trace_id!r} has loss on its first token")
    temperature = _join((s.temperatures for s in samples), np.float32)[at]  # (M,)
    distinct, which = np.unique(temperature, return_inverse=True)
    choice_rows, choice = _number_choices(samples)
    # Terms are about the same decision when tree index (which implies the predictor and the
    # token), choices and temperature are equal.
    key = (place * len(choice_rows) + choice) * distinct.size + which
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


def _number_choices(samples: Sequence[Sample]) -> tuple[Ints, Ints]:
    """The distinct choices, padded with -1, (rows, K); and the row of each loss token, (M,)."""
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


def _or_zeros(array: Floats | None, sample: Sample) -> Floats:
    return np.zeros(sample.token_ids.size, np.float32) if array is None else array


def _join(arrays: Iterable[npt.NDArray[Any]], dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """Concatenate; an empty array where there are none."""
    return np.concatenate([np.zeros(0, dtype), *arrays], dtype=dtype)
