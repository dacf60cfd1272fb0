"""A micro-batch on the model's device, its gap to the sampler, and how batches are cut in parts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from practicum.core.sample import Batch, Bools, Ints
from practicum.engine.decoder.head import Predictions

LARGEST_TO_TYPICAL = 10.0
"""How far one token may be off, in limits for all of them: rounding was seen to reach 7."""


def take(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """`values[index]`, with the same gradient every time, also where an index is repeated.

    What repeats is summed in whatever order threads come to it: by indexing on a CPU, and by
    `index_select` on a GPU.
    """
    return values[index] if values.is_cuda else values.index_select(0, index)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTensors:
    """A batch on the device."""

    token_ids: torch.Tensor
    position: torch.Tensor
    end: torch.Tensor
    predictor: torch.Tensor
    target: torch.Tensor
    temperature: torch.Tensor
    choice_ids: torch.Tensor
    term_decision: torch.Tensor
    old_logprobs: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    old_values: torch.Tensor
    samples: torch.Tensor
    weights: torch.Tensor
    checked: torch.Tensor | None = None

    @classmethod
    def of(cls, batch: Batch, device: torch.device) -> "BatchTensors":
        """The batch's arrays as tensors on a device."""

        def move(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(device)

        return cls(
            token_ids=move(batch.token_ids),
            position=move(batch.position),
            end=move(batch.end),
            predictor=move(batch.predictor),
            target=move(batch.target),
            temperature=move(batch.temperature),
            choice_ids=move(batch.choice_ids),
            term_decision=move(batch.term_decision),
            old_logprobs=move(batch.term_old_logprob),
            advantages=move(batch.term_advantage),
            returns=move(batch.term_return),
            old_values=move(batch.term_old_value),
            samples=move(batch.term_sample),
            weights=move(batch.term_weight),
            checked=None if batch.term_checked is None else move(batch.term_checked),
        )

    def unrounded(self, predictions: Predictions) -> "BatchTensors":
        """The same, and what the present weights sampled has the log-probability they give it here.

        Sampler and learner round differently in low precision. That is no change of the policy:
        its ratio to itself is 1, and must not be clipped.
        """
        own = predictions.logprobs[self.term_decision].detach()
        own = own if self.checked is None else torch.where(self.checked, own, self.old_logprobs)
        return replace(self, old_logprobs=own)


FARTHEST = 2.0
"""How many limits one token counts at most in low precision: a quarter of the tokens must be so far
away before a run stops."""


@dataclass(frozen=True, slots=True)
class Gap:
    """How far the learner's log-probabilities are from the sampler's, over some tokens.

    Rounding leaves the same root mean square however many tokens there are, while the largest of
    them grows with their number: so the first is held to a limit, and the second to a wider one.
    In low precision the second says nothing: a sure policy may give a token that was drawn by luck
    a log-probability that is 7 away, and the learner goes by its own. A few such tokens would
    decide the first as well, so there one counts at most `FARTHEST` limits: other weights are far
    from most tokens, rounding from few.
    """

    tokens: int = 0
    squares: float = 0.0
    largest: float = 0.0

    def __add__(self, other: "Gap") -> "Gap":
        return Gap(
            self.tokens + other.tokens,
            self.squares + other.squares,
            max(self.largest, other.largest),
        )

    @property
    def root_mean_square(self) -> float:
        """0 where nothing was compared."""
        return math.sqrt(self.squares / self.tokens) if self.tokens else 0.0

    def is_within(self, limit: float, *, low_precision: bool = False) -> bool:
        """Whether rounding explains it."""
        largest = math.inf if low_precision else LARGEST_TO_TYPICAL * limit
        return self.root_mean_square <= limit and self.largest <= largest


def measure_gap(predictions: Predictions, tensors: BatchTensors, counted: float = math.inf) -> Gap:
    """Distances to what the sampler recorded; infinite when anything is not a number.

    Only of tokens that the present weights have sampled: of others it says nothing. A token counts
    at most as if it were `counted` away in the root mean square.
    """
    distance = (predictions.logprobs[tensors.term_decision].detach() - tensors.old_logprobs).abs()
    if tensors.checked is not None:
        distance = distance[tensors.checked]
    if not distance.numel():
        return Gap()
    largest = float(distance.max())
    if not math.isfinite(largest):
        return Gap(distance.numel(), math.inf, math.inf)
    counts = distance.double().clamp(max=counted)
    return Gap(distance.numel(), float(counts.square().sum()), largest)


Halves = tuple[Batch, Batch, Bools]
"""Two trees, and which terms of the whole the first one has."""


def split_micro_batch(
    batch: Batch, *, whole_samples: bool = False, sizes: tuple[float, float] = (1.0, 1.0)
) -> Halves | None:
    """Two smaller trees with the same terms between them, or None if no cut makes it smaller.

    The first is the tokens before the cut, the second those after it and the trunk they hang on. A
    term goes with the token that predicts it, so nothing is counted twice. With `whole_samples` no
    sample's terms are divided: some samples are in one tree and the others in the other. `sizes`
    says how large the two are to be beside each other.
    """
    halve = _halve_samples if whole_samples else _halve_tokens
    return halve(batch, *sizes)


UNEVEN = 0.05
"""How much of a process's share may be missing or too much before a batch is cut for it: every cut
computes a trunk twice."""


def divide(
    batches: Sequence[Batch], count: int, *, whole_samples: bool = False
) -> list[list[Batch]]:
    """The batches of one optimizer step in so many shares of about as many tokens each.

    In their order, so that few are cut. What cannot be cut is whole in one share, and a share may
    be empty. The sum of what the shares add to a gradient is that of the batches.
    """
    if count == 1:
        return [list(batches)]
    left = count // 2
    wanted = sum(batch.token_ids.size for batch in batches) * left / count
    first: list[Batch] = []
    rest, slack = list(batches), UNEVEN * wanted / left
    while rest and (tokens := rest[0].token_ids.size) <= wanted + slack:
        first.append(rest.pop(0))
        wanted -= tokens
    if rest and wanted > slack:
        sizes = (wanted, rest[0].token_ids.size - wanted)
        halves = split_micro_batch(rest[0], whole_samples=whole_samples, sizes=sizes)
        if halves is not None:
            first.append(halves[0])
            rest[0] = halves[1]
        elif 2 * wanted > rest[0].token_ids.size:
            first.append(rest.pop(0))
    shares = [(first, left), (rest, count - left)]
    return [
        share
        for part, among in shares
        for share in divide(part, among, whole_samples=whole_samples)
    ]


def _halve_tokens(batch: Batch, before: float, after: float) -> Halves | None:
    tokens = batch.token_ids.size
    cuts = np.arange(1, tokens)
    if not cuts.size:
        return None
    second = _trunk_sizes(batch.end)[1:] + tokens - cuts
    best = int(np.maximum(cuts / before, second / after).argmin())
    if max(cuts[best], second[best]) >= tokens:
        return None
    cut = int(cuts[best])
    index = np.arange(tokens)
    trunk = index[:cut][batch.end[:cut] > cut]
    is_before = batch.predictor[batch.term_decision] < cut
    hanging = np.concatenate([trunk, index[cut:]])
    return _part(batch, index[:cut], is_before), _part(batch, hanging, ~is_before), is_before


def _halve_samples(batch: Batch, before: float, after: float) -> Halves | None:
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
    best = int(np.maximum(first.sum(1) / before, second.sum(1) / after).argmin())
    if max(first[best].sum(), second[best].sum()) >= batch.token_ids.size:
        return None
    is_first = np.isin(batch.term_sample, samples[order[: best + 1]])
    return (
        _part(batch, np.flatnonzero(first[best]), is_first),
        _part(batch, np.flatnonzero(second[best]), ~is_first),
        is_first,
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
