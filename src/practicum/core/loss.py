"""What a loss is given and what it returns: the seam between the learner and the algorithms.

Fields hold torch tensors; they are typed loosely because this folder does not know torch.
"""

from dataclasses import dataclass
from typing import Any

__all__ = ["LossReport", "LossTerms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossTerms:
    """One entry for each token of each sample that carries loss; all are (M,), float32."""

    logprobs: Any
    """Of the policy being trained; the only one that carries gradient."""
    old_logprobs: Any
    """Of the policy that sampled."""
    advantages: Any
    weights: Any
    """Already normalised over the whole step, so a loss is a plain weighted sum."""
    base_logprobs: Any = None
    """Of the model without its adapter; None when nothing asks for them."""
    samples: Any = None
    """Which sample each term belongs to, (M,) integers from 0: the terms of one sample are all
    here, in the order of its tokens."""
    entropies: Any = None
    """Of the distribution each token was drawn from; with gradient where the loss asks for it."""
    values: Any = None
    """Of the value head, with gradient; None when nothing asks for them."""
    old_values: Any = None
    returns: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReport:
    """The objective to minimise and what to log about it, as sums over the terms."""

    loss: Any
    clipped: Any
    """Sum of the weights of the terms whose ratio was clipped."""
    truncated: Any = None
    """Sum of the weights of the terms whose ratio was truncated; None where none can be."""
    value_loss: Any = None
    """What the value head's error adds to the loss; None where there is no value head."""
