"""The learner: one update of the adapter from prefix-tree batches."""

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from practicum.core.errors import PolicyMismatch, UserError
from practicum.core.interfaces import Algorithm, UpdateReport
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Batch
from practicum.policy.decoder import Decoder
from practicum.policy.halving import halve
from practicum.policy.head import Head, Predictions
from practicum.policy.lora import load_adapter, save_adapter, trainable
from practicum.policy.optimizer_state import load_optimizer, save_optimizer, steps_taken

__all__ = ["LearnerSettings", "TorchLearner"]

COMPARE_EVERY = 10
"""Updates from one comparison with the base model to the next, where the loss needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSettings:
    """How the adapter is updated."""

    lr: float
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    max_logprob_gap: float = 1e-4
    """Sampler/learner distance at which an update is refused."""
    checkpointed: bool = False
    """Keep only each layer's input for the way back, and compute the layer again there."""


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

    def add(self, report: LossReport, terms: LossTerms, entropies: torch.Tensor) -> None:
        """One batch's share."""
        weight = float(terms.weights.sum())
        self.loss += float(report.loss.detach())
        self.weight += weight
        self.clipped += float(report.clipped)
        self.entropy += float((terms.weights * entropies).sum())
        if terms.base_logprobs is not None:
            log_ratio = terms.base_logprobs - terms.logprobs.detach()
            self.kl += float((terms.weights * (log_ratio.exp() - log_ratio - 1.0)).sum())
            self.kl_weight += weight


class TorchLearner:
    """Owns the optimizer; shares the module with the sampler."""

    def __init__(
        self,
        model: Any,
        decoder: Decoder,
        settings: LearnerSettings,
        *,
        fingerprint: Callable[[], str],
        on_update: Callable[[], None],
    ) -> None:
        self._model = model
        self._decoder = decoder
        self._head = Head(model.get_base_model())
        self._settings = settings
        self._fingerprint = fingerprint
        self._on_update = on_update
        self._parameters = [p for _, p in trainable(model)]
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=settings.lr, weight_decay=settings.weight_decay
        )
        self._checkpointed = settings.checkpointed
        self._most_tokens = sys.maxsize  # of one batch, as far as is known
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
        self._decoder.release()
        totals, grad_norm, applied = _Totals(), 0.0, True
        compares = steps_taken(self._optimizer) % COMPARE_EVERY == 0
        for epoch in range(algorithm.epochs):
            self._optimizer.zero_grad(set_to_none=True)
            totals.epochs += 1
            for number, batch in enumerate(batches):
                compare = algorithm.needs_base or (compares and epoch == 0 and number == 0)
                self._fit(batch, algorithm, totals, first_epoch=epoch == 0, compare=compare)
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

    def _fit(
        self,
        batch: Batch,
        algorithm: Algorithm,
        totals: _Totals,
        *,
        first_epoch: bool,
        compare: bool,
    ) -> None:
        """Add one batch, in as many parts as the memory asks for; the sum is the same."""
        parts = [batch]
        while parts:
            part = parts.pop(0)
            if not part.term_decision.size:
                continue
            if part.token_ids.size <= self._most_tokens:
                try:
                    self._accumulate(
                        part, algorithm, totals, first_epoch=first_epoch, compare=compare
                    )
                    continue
                except torch.OutOfMemoryError:
                    self._most_tokens = part.token_ids.size - 1
                torch.cuda.empty_cache()  # the failed pass has let go of its tensors only now
            parts = [*self._smaller(part), *parts]

    def _smaller(self, part: Batch) -> tuple[Batch, ...]:
        """What to try instead of a batch that did not fit."""
        halves = halve(part)
        if halves is not None:
            return halves
        if self._checkpointed:
            raise UserError(
                f"one conversation of {part.token_ids.size} tokens does not fit the memory for "
                "learning; lower rollouts.max_tokens or max_turns, or choose a smaller model"
            )
        self._checkpointed, self._most_tokens = True, sys.maxsize
        return (part,)

    def _accumulate(
        self,
        batch: Batch,
        algorithm: Algorithm,
        totals: _Totals,
        *,
        first_epoch: bool,
        compare: bool,
    ) -> None:
        """Add one batch's gradient and figures, all of them or, where memory ends, none."""
        tensors = _Tensors.of(batch, self._device)
        base = self._base_logprobs(tensors) if compare else None
        gap = 0.0
        if first_epoch and self._has_dropout:
            with torch.no_grad():
                gap = _gap(self._predict(tensors), tensors)
        with self._learning():
            predictions = self._predict(tensors)
        if first_epoch and not self._has_dropout:
            gap = _gap(predictions, tensors)
        logprobs = predictions.logprobs[tensors.term_decision]
        terms = LossTerms(
            logprobs=logprobs,
            old_logprobs=tensors.old_logprobs,
            advantages=tensors.advantages,
            weights=tensors.weights,
            base_logprobs=base,
        )
        report = algorithm.loss(terms)
        found = torch.autograd.grad(report.loss, self._parameters, allow_unused=True)
        for parameter, grad in zip(self._parameters, found, strict=True):
            if grad is not None:
                parameter.grad = grad if parameter.grad is None else parameter.grad.add_(grad)
        totals.add(report, terms, predictions.entropies[tensors.term_decision])
        if first_epoch:
            totals.gaps.append(gap)

    @contextmanager
    def _learning(self) -> Any:
        """Dropout on, for the pass that carries gradient."""
        self._model.train(self._has_dropout)
        try:
            yield
        finally:
            self._model.eval()

    def _predict(self, tensors: "_Tensors") -> Predictions:
        states = self._decoder.learn(
            tensors.token_ids, tensors.position, tensors.end, checkpointed=self._checkpointed
        )
        hidden = states[tensors.predictor]
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
            kl_to_base=totals.kl / totals.kl_weight if totals.kl_weight else None,
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
        self._decoder.release()
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
