"""What a loss is given and what it returns: the seam between the learner and the algorithms."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LossTerms:
    """The loss's input: one entry per loss token of each sample. All float32 tensors, (M,)."""

    logprobs: Any
    """Of the policy being trained; with gradient."""
    old_logprobs: Any
    """Of the policy that sampled."""
    advantages: Any
    weights: Any
    """Already normalised over the whole update, so a loss is a plain weighted sum."""
    base_logprobs: Any = None
    """Of the model without its adapter; None unless asked for."""
    samples: Any = None
    """Index of each term's sample, integers from 0; a sample's terms are in token order, and all
    here where the loss is `by_sequence`."""
    entropies: Any = None
    """Of the distribution each token was drawn from; with gradient if asked for."""
    values: Any = None
    """Of the value head, with gradient; None unless asked for."""
    old_values: Any = None
    returns: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReport:
    """The loss to minimise and what is logged about it, as sums over the terms."""

    loss: Any
    clipped: Any
    """Summed weights of the terms whose ratio was clipped."""
    truncated: Any = None
    """Summed weights of the terms whose ratio was truncated; None if never done."""
    value_loss: Any = None
    """The value head's part of the loss; None without one."""
