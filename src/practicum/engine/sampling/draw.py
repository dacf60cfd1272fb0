"""Drawing a token from logits, one random number a token, each request its own stream."""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from practicum.core.errors import PracticumError
from practicum.core.sampling import SamplingParams

CHUNK = 1024
"""Columns that are summed up together before any of them is looked at."""


class Draw(NamedTuple):
    """A column, its log-probability as drawn, and the log of the mass that a cut kept.

    Their sum is the log-probability before the cut by a grammar, top-k and top-p. A row whose
    logits are no numbers has a log-probability that is none: it fails alone, the others go on.
    """

    column: int
    logprob: float
    log_kept: float


class RandomStream:
    """Uniform numbers of one request; the same seed gives the same numbers on every machine."""

    def __init__(self, seed: int, drawn: int = 0) -> None:
        self._seed = seed
        self._drawn = drawn

    @functools.cached_property
    def _generator(self) -> np.random.Generator:
        """Made where it is first used: in the thread that computes, not in the event loop."""
        made = np.random.Generator(np.random.Philox(self._seed))
        made.random(self._drawn)
        return made

    def next(self) -> float:
        """In [0, 1)."""
        return float(self._generator.random())

    def take(self, count: int) -> "np.typing.NDArray[np.float64]":
        """As many calls of `next` at once."""
        return self._generator.random(count)


def draw(logits: torch.Tensor, params: SamplingParams, uniform: float) -> Draw:
    """One token from one row of float32 logits."""
    return draw_rows(logits[None], [params], [uniform])[0]


def draw_rows(
    logits: torch.Tensor, params: Sequence[SamplingParams], uniforms: Sequence[float]
) -> list[Draw]:
    """One token from each row of float32 logits, each with its own settings and random number.

    Temperature 0 takes the largest logit; its distribution is a single point, so its
    log-probability is 0 and there is nothing in it to learn from.
    """
    heat = _heat(params, logits.device)
    scaled = logits / heat[:, None] if bool((heat != 1.0).any()) else logits
    weights = torch.softmax(scaled, dim=1)
    sums = _chunk_sums(weights)
    total = sums.sum(1)  # 1, but for rounding
    cut = [row for row, one in enumerate(params) if one.top_k or one.top_p < 1.0]
    for row in cut:
        weights[row] *= _kept(weights[row].log(), params[row])
    sums = _chunk_sums(weights) if cut else sums
    column, mass = _invert(weights, sums, torch.tensor(uniforms, dtype=torch.float64))
    if any(p.temperature == 0.0 for p in params):
        greedy = torch.tensor([p.temperature == 0.0 for p in params], device=logits.device)
        column = torch.where(greedy, logits.argmax(1), column)
    picked = (weights.gather(1, column[:, None])[:, 0].double() / total).log()
    found = torch.stack([column.double(), picked, mass / total]).cpu()
    return [_drawn(one, *values) for one, values in zip(params, found.T.tolist(), strict=True)]


def draw_among(
    logits: torch.Tensor,
    allowed: torch.Tensor,
    params: Sequence[SamplingParams],
    uniforms: Sequence[float],
    listed: Sequence[bool] = (),
) -> list[Draw]:
    """The same where only some columns may be drawn, at least one a row; `allowed` is (B, V) bool.

    Top-k and top-p choose among what is allowed. The mass of it counts as kept, but for rows that
    are `listed`: there the columns are recorded, and nothing but them is chosen from. It may be
    smaller than any float32, so it is found from logarithms.
    """
    masked = logits.masked_fill(~allowed, float("-inf"))
    drawn = draw_rows(masked, params, uniforms)
    heat = _heat(params, logits.device)[:, None].double()
    inside = (masked / heat).logsumexp(1) - (logits / heat).logsumexp(1)
    is_cut = [p.temperature > 0.0 for p in params]
    if listed:
        is_cut = [cut and not known for cut, known in zip(is_cut, listed, strict=True)]
    return [
        _cut(one, log_allowed, counts=cut)
        for one, cut, log_allowed in zip(drawn, is_cut, inside.tolist(), strict=True)
    ]


def _cut(drawn: Draw, log_allowed: float, *, counts: bool) -> Draw:
    """A draw among what is allowed, whose mass may count as kept."""
    if not math.isfinite(log_allowed):
        return drawn._replace(logprob=math.nan)
    return drawn._replace(log_kept=drawn.log_kept + log_allowed) if counts else drawn


def likeliest(
    logits: torch.Tensor, params: Sequence[SamplingParams], count: int
) -> list[list[tuple[int, float]]]:
    """The likeliest columns of each row and their log-probabilities, likeliest first.

    After temperature and before any cut, as `logprob + log_kept` of a draw is. At temperature 0,
    where a draw says nothing of the model, they are those of temperature 1.
    """
    scaled = logits / _heat(params, logits.device)[:, None]
    top, columns = scaled.topk(min(count, logits.shape[1]), dim=1)
    values = (top.double() - scaled.double().logsumexp(1, keepdim=True)).tolist()
    return [list(zip(*row, strict=True)) for row in zip(columns.tolist(), values, strict=True)]


def _heat(params: Sequence[SamplingParams], device: torch.device) -> torch.Tensor:
    return torch.tensor([p.temperature or 1.0 for p in params], device=device)


def _invert(
    weights: torch.Tensor, sums: torch.Tensor, uniforms: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The column at which each row's cumulative sum passes its share, and the row's sum.

    First among chunks of columns, by their sums, then inside one: few sums instead of one for each
    column.
    """
    cumulative = sums.cumsum(1)
    mass = cumulative[:, -1]
    at = uniforms.to(weights.device) * mass
    chunk = _first_beyond(cumulative, sums, at)
    before = (cumulative - sums).gather(1, chunk[:, None])[:, 0]
    inside = chunk[:, None] * CHUNK + torch.arange(CHUNK, device=weights.device)
    there = inside < weights.shape[1]
    close = weights.gather(1, inside.clamp(max=weights.shape[1] - 1)).double() * there
    return chunk * CHUNK + _first_beyond(close.cumsum(1), close, at - before), mass


def _chunk_sums(weights: torch.Tensor) -> torch.Tensor:
    """(B, V) to (B, chunks), float64."""
    whole = weights.shape[1] // CHUNK * CHUNK
    parts = [weights[:, :whole].view(weights.shape[0], -1, CHUNK).sum(2)] if whole else []
    if whole < weights.shape[1]:
        parts.append(weights[:, whole:].sum(1, keepdim=True))
    return torch.cat(parts, dim=1).double()


def _first_beyond(cumulative: torch.Tensor, parts: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """The first column beyond `at`; where rounding leaves none, the last that has any weight."""
    found = torch.searchsorted(cumulative, at[:, None].contiguous(), right=True)[:, 0]
    index = torch.arange(parts.shape[1], device=parts.device)
    last = torch.where(parts > 0, index, 0).amax(1)
    return torch.minimum(found, last)


def _drawn(params: SamplingParams, column: float, logprob: float, mass: float) -> Draw:
    if not math.isfinite(logprob + mass):
        return Draw(int(column), math.nan, 0.0)
    if params.temperature == 0.0:
        return Draw(int(column), 0.0, 0.0)
    log_kept = math.log(mass) if params.top_k or params.top_p < 1.0 else 0.0
    return Draw(int(column), logprob - log_kept, log_kept)


def not_numbers(values: "float | np.typing.NDArray[np.floating]") -> PracticumError | None:
    """The error of a row whose log-probabilities came out of damaged weights or an overflow.

    None where all of them are finite numbers.
    """
    if np.isfinite(values).all():
        return None
    return PracticumError(
        "the model's output is not a number: its weights are damaged or its numbers too large "
        "for its precision; go back to an earlier checkpoint or use model.dtype=float32"
    )


def _kept(log_p: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """True for the tokens that top-k and then top-p leave; the likeliest always stays."""
    kept = torch.ones_like(log_p, dtype=torch.bool)
    if params.top_k and params.top_k < log_p.numel():
        kept = log_p >= log_p.topk(params.top_k).values[-1]
    if params.top_p < 1.0:
        ordered, order = torch.where(kept, log_p, float("-inf")).sort(descending=True)
        mass = ordered.double().exp()
        before = mass.cumsum(0) - mass
        inside = before < params.top_p * mass.sum()
        inside[0] = True
        kept = kept & torch.zeros_like(kept).index_put((order,), inside)
    return kept
