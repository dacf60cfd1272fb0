"""A batch in two, where it is too large for the memory there is."""

from dataclasses import replace

import numpy as np

from practicum.core.sample import Batch, Ints

__all__ = ["halve"]


def halve(batch: Batch, *, whole_samples: bool = False) -> tuple[Batch, Batch] | None:
    """Two smaller trees with the same terms between them, or None if no cut makes it smaller.

    The first is the tokens before the cut, the second those after it and the trunk they hang on. A
    term goes with the token that predicts it, so nothing is counted twice. With `whole_samples` no
    sample's terms are divided.
    """
    tokens = batch.token_ids.size
    cuts = np.arange(1, tokens)
    if not cuts.size:
        return None
    second = _trunk_sizes(batch.end)[1:] + tokens - cuts
    larger = np.maximum(cuts, second)
    if whole_samples:
        larger[_divides_a_sample(batch)[1:]] = tokens
    best = int(larger.argmin())
    if larger[best] >= tokens:
        return None
    cut = int(cuts[best])
    index = np.arange(tokens)
    trunk = index[:cut][batch.end[:cut] > cut]
    after = np.concatenate([trunk, index[cut:]])
    return _part(batch, index[:cut], 0, cut), _part(batch, after, cut, tokens)


def _divides_a_sample(batch: Batch) -> np.typing.NDArray[np.bool_]:
    """For every index, whether a cut there would have terms of one sample on both sides."""
    crossing = np.zeros(batch.token_ids.size + 1, np.int64)
    places = batch.predictor[batch.term_decision]
    for sample in np.unique(batch.term_sample):
        own = places[batch.term_sample == sample]
        crossing[own.min() + 1] += 1
        crossing[own.max() + 1] -= 1
    return np.cumsum(crossing)[:-1] > 0


def _trunk_sizes(end: Ints) -> Ints:
    """For every index, how many tokens before it have it in their subtree."""
    ended = np.bincount(end, minlength=end.size + 1)[: end.size]
    return np.arange(end.size) - np.cumsum(ended)


def _part(batch: Batch, kept: Ints, begin: int, stop: int) -> Batch:
    """The tokens kept, with the decisions of those from `begin` to `stop`."""
    decisions = np.flatnonzero((batch.predictor >= begin) & (batch.predictor < stop))
    terms = np.flatnonzero(np.isin(batch.term_decision, decisions))
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
    )
