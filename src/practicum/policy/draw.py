"""Drawing a token from logits, one random number a token, each request its own stream."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from practicum.core.errors import PracticumError
from practicum.core.sampling import SamplingParams

__all__ = ["Draw", "RandomStream", "draw", "draw_rows"]


class Draw(NamedTuple):
    """A column, its log-probability as drawn, and the log of the mass top-k/top-p kept."""

    column: int
    logprob: float
    log_kept: float


class RandomStream:
    """Uniform numbers of one request; the same seed gives the same numbers on every machine."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed))

    def next(self) -> float:
        """In [0, 1)."""
        return float(self._generator.random())


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
    heat = torch.tensor([p.temperature or 1.0 for p in params], device=logits.device)
    log_p = torch.log_softmax(logits / heat[:, None], dim=-1)
    probabilities = log_p.double().exp()
    for row, one in enumerate(params):
        if one.top_k or one.top_p < 1.0:
            probabilities[row] *= _kept(log_p[row], one)
    cumulative = probabilities.cumsum(1)
    mass = cumulative[:, -1]
    at = torch.tensor(uniforms, dtype=torch.float64, device=logits.device) * mass
    column = torch.searchsorted(cumulative, at[:, None], right=True)[:, 0]
    column = torch.minimum(column, _last_possible(cumulative))  # `at` may round up to the mass
    greedy = torch.tensor([p.temperature == 0.0 for p in params], device=logits.device)
    column = torch.where(greedy, logits.argmax(1), column)
    picked = log_p.gather(1, column[:, None])[:, 0]
    found = torch.stack([column.double(), picked.double(), mass]).cpu()
    return [_drawn(one, *values) for one, values in zip(params, found.T.tolist(), strict=True)]


def _last_possible(cumulative: torch.Tensor) -> torch.Tensor:
    """The last column of each row that has any probability; any column where nothing has."""
    found = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous())[:, 0]
    return found.clamp(max=cumulative.shape[1] - 1)


def _drawn(params: SamplingParams, column: float, logprob: float, mass: float) -> Draw:
    _require_number(logprob + mass)
    if params.temperature == 0.0:
        return Draw(int(column), 0.0, 0.0)
    log_kept = math.log(mass) if params.top_k or params.top_p < 1.0 else 0.0
    return Draw(int(column), logprob - log_kept, log_kept)


def _require_number(value: float) -> None:
    if not math.isfinite(value):
        raise PracticumError(
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
