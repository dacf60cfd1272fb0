"""A batch in two, where it is too large for the memory there is."""

from dataclasses import replace

import numpy as np

from practicum.core.sample import Batch, Bools, Ints

__all__ = ["halve"]


def halve(batch: Batch, *, whole_samples: bool = False) -> tuple[Batch, Batch] | None:
    """Two smaller trees with the same terms between them, or None if no cut makes it smaller.

    The first is the tokens before the cut, the second those after it and the trunk they hang on. A
    term goes with the token that predicts it, so nothing is counted twice. With `whole_samples` no
    sample's terms are divided: some samples are in one tree and the others in the other.
    """
    return _halve_samples(batch) if whole_samples else _halve_tokens(batch)


def _halve_tokens(batch: Batch) -> tuple[Batch, Batch] | None:
    tokens = batch.token_ids.size
    cuts = np.arange(1, tokens)
    if not cuts.size:
        return None
    second = _trunk_sizes(batch.end)[1:] + tokens - cuts
    larger = np.maximum(cuts, second)
    best = int(larger.argmin())
    if larger[best] >= tokens:
        return None
    cut = int(cuts[best])
    index = np.arange(tokens)
    trunk = index[:cut][batch.end[:cut] > cut]
    is_before = batch.predictor[batch.term_decision] < cut
    after = np.concatenate([trunk, index[cut:]])
    return _part(batch, index[:cut], is_before), _part(batch, after, ~is_before)


def _halve_samples(batch: Batch) -> tuple[Batch, Batch] | None:
    """Each tree has what its samples' last predictions are made from, and no other token."""
    places = batch.predictor[batch.term_decision]
    samples = np.unique(batch.term_sample)
    if samples.size < 2:
        return None
    last = np.asarray([places[batch.term_sample == sample].max() for sample in samples])
    order = last.argsort(kind="stable")
    index = np.arange(batch.token_ids.size)
    above = (index <= last[order, None]) & (last[order, None] < batch.end)  # (S, T) own tokens
    first = np.logical_or.accumulate(above)[:-1]
    second = np.logical_or.accumulate(above[::-1])[::-1][1:]
    best = int(np.maximum(first.sum(1), second.sum(1)).argmin())
    if max(first[best].sum(), second[best].sum()) >= batch.token_ids.size:
        return None
    is_first = np.isin(batch.term_sample, samples[order[: best + 1]])
    return (
        _part(batch, np.flatnonzero(first[best]), is_first),
        _part(batch, np.flatnonzero(second[best]), ~is_first),
    )


def _trunk_sizes(end: Ints) -> Ints:
    """For every index, how many tokens before it have it in their subtree."""
    ended = np.bincount(end, minlength=end.size + 1)[: end.size]
    return np.arange(end.size) - np.cumsum(ended)


def _part(batch: Batch, kept: Ints, has_term: Bools) -> Batch:
    """The tokens kept, with some of the terms and their decisions."""
    terms = np.flatnonzero(has_term)
    decisions = np.unique(batch.term_decision[terms])
    return replace(
        batch,
        token_ids=batch.token_ids[kept],
        position=batch.position[kept],
        end=np.searchsorted(kept, batch.end[kept]),
        predictor=np.searchsorted(kept, batch.predictor[decisions]),
        target=batch.target[decisions],
        temperature=batch.temperature[decisions],
        choice_ids=batch.choice_ids[decisions],
        term_decision=np.searchsorted(decisions, batch.term_decision[terms]),
        term_old_logprob=batch.term_old_logprob[terms],
        term_advantage=batch.term_advantage[terms],
        term_return=batch.term_return[terms],
        term_old_value=batch.term_old_value[terms],
        term_weight=batch.term_weight[terms],
        term_sample=batch.term_sample[terms],
        term_checked=None if batch.term_checked is None else batch.term_checked[terms],
    )
