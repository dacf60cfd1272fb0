"""The learner: one update of the adapter from prefix-tree batches."""

import math
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from practicum.core.errors import PolicyMismatch
from practicum.core.interfaces import Algorithm, UpdateReport
from practicum.core.loss import LossTerms
from practicum.core.sample import Batch
from practicum.policy.head import Head, Predictions
from practicum.policy.lora import load_adapter, save_adapter, trainable
from practicum.policy.optimizer_state import load_optimizer, save_optimizer
from practicum.policy.tree_attention import TreePlan

__all__ = ["LearnerSettings", "TorchLearner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSettings:
    """How the adapter is updated."""

    lr: float
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    max_logprob_gap: float = 1e-4
    """Sampler/learner distance at which an update is refused."""


@dataclass(slots=True)
class _Totals:
    """Sums over the batches and epochs of one update, by term weight."""

    epochs: int = 0
    loss: float = 0.0
    weight: float = 0.0
    entropy: float = 0.0
    clipped: float = 0.0
    kl: float = 0.0
    kl_weight: float = 0.0
    gaps: list[float] = field(default_factory=list)


class TorchLearner:
    """Owns the optimizer; shares the module with the sampler."""

    def __init__(
        self,
        model: Any,
        settings: LearnerSettings,
        *,
        fingerprint: Callable[[], str],
        on_update: Callable[[], None],
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self._model = model
        self._causal_lm = model.get_base_model()
        self._head = Head(self._causal_lm)
        self._settings = settings
        self._fingerprint = fingerprint
        self._on_update = on_update
        self._prepare = prepare
        self._parameters = [p for _, p in trainable(model)]
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=settings.lr, weight_decay=settings.weight_decay
        )
        self._has_dropout = any(
            isinstance(m, torch.nn.Dropout) and m.p > 0.0 for m in model.modules()
        )

    def fingerprint(self) -> str:
        """Which weights an update would start from, read from the tensors themselves."""
        return self._fingerprint()

    def update(self, batches: Sequence[Batch], algorithm: Algorithm) -> UpdateReport:
        """Optimizer steps over all the batches, as many as the algorithm has epochs.

        Raises:
            PolicyMismatch: the sampler's log-probabilities are not this model's. The weights have
                not been touched.
        """
        self._prepare()
        totals, grad_norm, applied = _Totals(), 0.0, True
        for epoch in range(algorithm.epochs):
            self._optimizer.zero_grad(set_to_none=True)
            totals.epochs += 1
            for number, batch in enumerate(batches):
                compare = algorithm.needs_base or (epoch == 0 and number == 0)
                self._accumulate(batch, algorithm, totals, first_epoch=epoch == 0, compare=compare)
            if epoch == 0:
                self._check_gap(totals.gaps)
            norm = torch.nn.utils.clip_grad_norm_(self._parameters, self._settings.max_grad_norm)
            grad_norm = float(norm)
            applied = math.isfinite(grad_norm) and math.isfinite(totals.loss)
            if not applied:
                break
            self._optimizer.step()
            self._on_update()
        self._optimizer.zero_grad(set_to_none=True)
        return self._report(batches, totals, grad_norm, applied)

    def _accumulate(
        self,
        batch: Batch,
        algorithm: Algorithm,
        totals: _Totals,
        *,
        first_epoch: bool,
        compare: bool,
    ) -> None:
        """Add one batch's gradient and figures."""
        tensors = _Tensors.of(batch, self._device)
        base = self._base_logprobs(tensors) if compare else None
        if first_epoch and self._has_dropout:
            with torch.no_grad():
                totals.gaps.append(_gap(self._predict(tensors), tensors))
        with self._learning():
            predictions = self._predict(tensors)
        if first_epoch and not self._has_dropout:
            totals.gaps.append(_gap(predictions, tensors))
        logprobs = predictions.logprobs[tensors.term_decision]
        terms = LossTerms(
            logprobs=logprobs,
            old_logprobs=tensors.old_logprobs,
            advantages=tensors.advantages,
            weights=tensors.weights,
            base_logprobs=base,
        )
        report = algorithm.loss(terms)
        report.loss.backward()
        weight = tensors.weights
        totals.loss += float(report.loss.detach())
        totals.weight += float(weight.sum())
        totals.clipped += float(report.clipped)
        totals.entropy += float((weight * predictions.entropies[tensors.term_decision]).sum())
        if base is not None:
            log_ratio = base - logprobs.detach()
            totals.kl += float((weight * (log_ratio.exp() - log_ratio - 1.0)).sum())
            totals.kl_weight += float(weight.sum())

    @contextmanager
    def _learning(self) -> Any:
        """Dropout on, for the pass that carries gradient."""
        self._model.train(self._has_dropout)
        try:
            yield
        finally:
            self._model.eval()

    def _predict(self, tensors: "_Tensors") -> Predictions:
        output = self._causal_lm.base_model(
            input_ids=tensors.token_ids[None],
            position_ids=tensors.position[None],
            use_cache=False,
            plan=TreePlan.of(tensors.end),
        )
        hidden = output.last_hidden_state[0][tensors.predictor]
        return self._head.predict(hidden, tensors.target, tensors.temperature, tensors.choice_ids)

    def _base_logprobs(self, tensors: "_Tensors") -> torch.Tensor:
        with torch.no_grad(), self._model.disable_adapter():
            return self._predict(tensors).logprobs[tensors.term_decision]

    def _check_gap(self, gaps: list[float]) -> None:
        gap, limit = max(gaps), self._settings.max_logprob_gap
        if not gap <= limit:
            self._optimizer.zero_grad(set_to_none=True)
            raise PolicyMismatch(
                f"the sampler's and the learner's log-probabilities differ by {gap:.2e} (limit "
                f"{limit:.0e}): the tokens were not sampled from the weights being trained; "
                "nothing was updated"
            )

    def _report(
        self, batches: Sequence[Batch], totals: _Totals, grad_norm: float, applied: bool
    ) -> UpdateReport:
        weight = totals.weight or 1.0
        return UpdateReport(
            applied=applied,
            loss=totals.loss / (totals.epochs or 1),
            grad_norm=grad_norm,
            entropy=totals.entropy / weight,
            clip_share=totals.clipped / weight,
            kl_to_base=totals.kl / (totals.kl_weight or 1.0),
            logprob_gap=max(totals.gaps, default=0.0),
            tokens=sum(b.token_ids.size for b in batches),
            row_tokens=sum(b.row_tokens for b in batches),
            fingerprint=self._fingerprint(),
        )

    @property
    def _device(self) -> torch.device:
        return self._parameters[0].device

    def save(self, folder: Path) -> None:
        """Write adapter, optimizer and random state into an existing folder."""
        save_adapter(self._model, folder)
        save_optimizer(self._optimizer, self._parameters, folder)

    def load(self, folder: Path) -> None:
        """Read back what `save` wrote, bit for bit."""
        self._prepare()
        load_adapter(self._model, folder)
        load_optimizer(self._optimizer, self._parameters, folder)
        self._on_update()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tensors:
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
    weights: torch.Tensor

    @classmethod
    def of(cls, batch: Batch, device: torch.device) -> "_Tensors":
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
            weights=move(batch.term_weight),
        )


def _gap(predictions: Predictions, tensors: _Tensors) -> float:
    """Largest distance to what the sampler recorded; infinite when anything is not a number."""
    distance = (predictions.logprobs[tensors.term_decision].detach() - tensors.old_logprobs).abs()
    largest = float(distance.max()) if distance.numel() else 0.0
    return largest if math.isfinite(largest) else math.inf
