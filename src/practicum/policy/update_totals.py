"""What one update came to, summed over its batches and optimizer steps."""

from dataclasses import dataclass, field

from practicum.core.loss import LossReport, LossTerms
from practicum.policy.batch_tensors import Gap

__all__ = ["UpdateTotals"]


@dataclass(slots=True)
class UpdateTotals:
    """Sums over the batches and optimizer steps of one update, by term weight."""

    steps: int = 0
    """Optimizer steps begun: one for each minibatch of each epoch."""
    loss: float = 0.0
    weight: float = 0.0
    entropy: float = 0.0
    clipped: float = 0.0
    truncated: float | None = None
    kl: float = 0.0
    kl_weight: float = 0.0
    gap: Gap = field(default_factory=Gap)
    value_loss: float = 0.0
    has_values: bool = False

    def add(self, report: LossReport, terms: LossTerms) -> None:
        """One batch's share."""
        weight = float(terms.weights.sum())
        self.loss += float(report.loss.detach())
        self.weight += weight
        self.clipped += float(report.clipped)
        if report.truncated is not None:
            self.truncated = (self.truncated or 0.0) + float(report.truncated)
        self.entropy += float((terms.weights * terms.entropies.detach()).sum())
        if terms.base_logprobs is not None:
            log_ratio = terms.base_logprobs - terms.logprobs.detach()
            self.kl += float((terms.weights * (log_ratio.exp() - log_ratio - 1.0)).sum())
            self.kl_weight += weight
        if report.value_loss is not None:
            self.value_loss += float(report.value_loss.detach())
            self.has_values = True
