"""A batch where the model is, and how far its log-probabilities are from the sampler's."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from practicum.core.sample import Batch
from practicum.policy.head import Predictions

__all__ = ["LARGEST_TO_TYPICAL", "BatchTensors", "Gap", "measure_gap"]

LARGEST_TO_TYPICAL = 10.0
"""How far one token may be off, in limits for all of them: rounding was seen to reach 7."""


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


@dataclass(frozen=True, slots=True)
class Gap:
    """How far the learner's log-probabilities are from the sampler's, over some tokens.

    Rounding leaves the same root mean square however many tokens there are, while the largest of
    them grows with their number: so the first is held to a limit, and the second to a wider one.
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

    def is_within(self, limit: float) -> bool:
        """Whether rounding explains it."""
        return self.root_mean_square <= limit and self.largest <= LARGEST_TO_TYPICAL * limit


def measure_gap(predictions: Predictions, tensors: BatchTensors) -> Gap:
    """Distances to what the sampler recorded; infinite when anything is not a number.

    Only of tokens that the present weights have sampled: of others it says nothing.
    """
    distance = (predictions.logprobs[tensors.term_decision].detach() - tensors.old_logprobs).abs()
    if tensors.checked is not None:
        distance = distance[tensors.checked]
    if not distance.numel():
        return Gap()
    largest = float(distance.max())
    if not math.isfinite(largest):
        return Gap(distance.numel(), math.inf, math.inf)
    return Gap(distance.numel(), float(distance.double().square().sum()), largest)
