"""Drawing a token from logits, one random number a token, each request its own stream."""

import math
from typing import NamedTuple

import numpy as np
import torch

from practicum.core.errors import PracticumError
from practicum.core.sampling import SamplingParams

__all__ = ["Draw", "RandomStream", "draw"]


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
    """One token from one row of float32 logits.

    Temperature 0 takes the largest logit; its distribution is a single point, so its
    log-probability is 0 and there is nothing in it to learn from.
    """
    if params.temperature == 0.0:
        column = int(logits.argmax())
        _require_number(logits[column])
        return Draw(column, 0.0, 0.0)
    log_p = torch.log_softmax(logits / params.temperature, dim=-1)
    kept = _kept(log_p, params)
    probabilities = (log_p.double().exp() * kept).cpu()
    mass = probabilities.sum()
    _require_number(mass)
    cumulative = probabilities.cumsum(0)
    index = int(torch.searchsorted(cumulative, uniform * mass, right=True))
    if index >= cumulative.numel() or probabilities[index] == 0.0:  # uniform * mass rounded up
        index = int(probabilities.nonzero()[-1])
    log_kept = float(mass.log()) if params.top_k or params.top_p < 1.0 else 0.0
    return Draw(index, float(log_p[index]) - log_kept, log_kept)


def _require_number(value: torch.Tensor) -> None:
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
