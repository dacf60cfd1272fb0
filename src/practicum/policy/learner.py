"""The learner: one update of the adapter from prefix-tree batches."""

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from practicum.core.errors import PolicyMismatch, UserError
from practicum.core.interfaces import Measured, Need, Objective, UpdateReport
from practicum.core.loss import LossTerms
from practicum.core.sample import Batch
from practicum.policy.batch_tensors import LARGEST_TO_TYPICAL, BatchTensors, Gap, measure_gap
from practicum.policy.decoder import Decoder
from practicum.policy.halving import halve
from practicum.policy.head import Head, Predictions
from practicum.policy.held_adapter import HeldAdapter
from practicum.policy.lora import load_adapter, save_adapter, trainable
from practicum.policy.optimizer_state import load_optimizer, save_optimizer, steps_taken
from practicum.policy.threads import computed
from practicum.policy.update_totals import UpdateTotals
from practicum.policy.value_head import ValueHead

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
    value_lr: float | None = None
    """Learning rate of the value head; None makes none."""
    held_to_start: bool = False
    """Compare with the adapter as it is when these settings are taken, not with the base model."""


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
        self._value_head = _value_head(model) if settings.value_lr is not None else None
        self._parameters = [p for _, p in trainable(model)]
        self._has_dropout = any(
            isinstance(m, torch.nn.Dropout) and m.p > 0.0 for m in model.modules()
        )
        self._most_tokens = sys.maxsize  # of one batch, as far as is known
        self._checkpointed = settings.checkpointed
        self._held: HeldAdapter | None = None
        self._take(settings)

    @computed
    def retune(self, settings: LearnerSettings) -> None:
        """Go on with other settings and an optimizer that remembers nothing."""
        self._take(settings)

    def _take(self, settings: LearnerSettings) -> None:
        self._settings = settings
        self._optimizer = self._new_optimizer(settings)
        self._held = HeldAdapter(self._parameters) if settings.held_to_start else None

    def _new_optimizer(self, settings: LearnerSettings) -> torch.optim.AdamW:
        groups: list[dict[str, Any]] = [{"params": self._parameters}]
        if self._value_head is not None:
            value_lr = settings.lr if settings.value_lr is None else settings.value_lr
            groups.append({"params": list(self._value_head.parameters()), "lr": value_lr})
        # One pass over each tensor on a CPU, several times as fast; elsewhere torch chooses.
        fused = True if self._device.type == "cpu" else None
        decay = settings.weight_decay
        return torch.optim.AdamW(groups, lr=settings.lr, weight_decay=decay, fused=fused)

    @property
    def _all_parameters(self) -> list[torch.nn.Parameter]:
        """The adapter's, then the value head's."""
        head = [] if self._value_head is None else list(self._value_head.parameters())
        return [*self._parameters, *head]

    @computed
    def fingerprint(self) -> str:
        """Which weights an update would start from, read from the tensors themselves."""
        return self._fingerprint()

    @computed
    def update(self, batches: Sequence[Batch], objective: Objective) -> UpdateReport:
        """One optimizer step for each minibatch of each of the objective's epochs.

        Raises:
            PolicyMismatch: the sampler's log-probabilities are not this model's. The weights have
                not been touched.
        """
        self._decoder.release()
        totals, grad_norm, applied = UpdateTotals(), 0.0, True
        minibatches = _by_minibatch(batches)
        compares = steps_taken(self._optimizer) % COMPARE_EVERY == 0
        for epoch in range(objective.epochs):
            for step, minibatch in enumerate(minibatches):
                is_first = epoch == 0 and step == 0
                totals.steps += 1
                self._optimizer.zero_grad(set_to_none=True)
                for number, batch in enumerate(minibatch):
                    compare = "base" in objective.loss_needs or (
                        compares and is_first and number == 0
                    )
                    checked = is_first and objective.from_policy
                    self._fit(batch, objective, totals, checked=checked, compare=compare)
                self._check_gap(totals.gap)
                grad_norm = self._clip()
                applied = math.isfinite(grad_norm) and math.isfinite(totals.loss)
                if not applied:
                    break
                self._optimizer.step()
                self._on_update()
            if not applied:
                break
        self._optimizer.zero_grad(set_to_none=True)
        return self._report(batches, totals, grad_norm, applied)

    @computed
    def measure(self, batches: Sequence[Batch], needs: frozenset[Need]) -> list[Measured]:
        """Log-probabilities of the batches' terms, and what else is asked for; nothing learns."""
        self._decoder.release()
        with torch.no_grad():
            return [self._measure(batch, needs) for batch in batches]

    def _measure(self, batch: Batch, needs: frozenset[Need]) -> Measured:
        tensors = BatchTensors.of(batch, self._device)

        def array(of_decisions: torch.Tensor | None) -> Any:
            if of_decisions is None:
                return None
            return of_decisions[tensors.term_decision].float().cpu().numpy()

        found, values = self._predict(tensors, needs)
        base = self._base_logprobs(tensors) if "base" in needs else None
        return Measured(
            logprobs=array(found.logprobs),
            base_logprobs=None if base is None else base.float().cpu().numpy(),
            values=array(values),
        )

    def _clip(self) -> float:
        """Bound the adapter's gradient and the value head's, each by itself; the adapter's norm."""
        limit = self._settings.max_grad_norm
        if self._value_head is not None:
            torch.nn.utils.clip_grad_norm_(self._value_head.parameters(), limit)
        return float(torch.nn.utils.clip_grad_norm_(self._parameters, limit))

    def _fit(
        self,
        batch: Batch,
        objective: Objective,
        totals: UpdateTotals,
        *,
        checked: bool,
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
                    self._accumulate(part, objective, totals, checked=checked, compare=compare)
                    continue
                except torch.OutOfMemoryError:
                    self._most_tokens = part.token_ids.size - 1
                torch.cuda.empty_cache()  # the failed pass has let go of its tensors only now
            parts = [*self._smaller(part, objective.by_sequence), *parts]

    def _smaller(self, part: Batch, whole_samples: bool) -> tuple[Batch, ...]:
        """What to try instead of a batch that did not fit."""
        halves = halve(part, whole_samples=whole_samples)
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
        objective: Objective,
        totals: UpdateTotals,
        *,
        checked: bool,
        compare: bool,
    ) -> None:
        """Add one batch's gradient and figures, all of them or, where memory ends, none."""
        tensors = BatchTensors.of(batch, self._device)
        base = self._base_logprobs(tensors) if compare else None
        gap = Gap()
        if checked and self._has_dropout:
            with torch.no_grad():
                gap = measure_gap(self._predict(tensors)[0], tensors)
        with self._learning():
            predictions, values = self._predict(tensors, objective.loss_needs)
        if checked and not self._has_dropout:
            gap = measure_gap(predictions, tensors)
        terms = _terms(tensors, predictions, values, base)
        report = objective.loss(terms)
        learning = self._all_parameters
        found = torch.autograd.grad(report.loss, learning, allow_unused=True)
        for parameter, grad in zip(learning, found, strict=True):
            if grad is not None:
                parameter.grad = grad if parameter.grad is None else parameter.grad.add_(grad)
        totals.add(report, terms)
        totals.gap += gap

    @contextmanager
    def _learning(self) -> Any:
        """Dropout on, for the pass that carries gradient."""
        self._model.train(self._has_dropout)
        try:
            yield
        finally:
            self._model.eval()

    def _predict(
        self, tensors: BatchTensors, needs: frozenset[Need] = frozenset()
    ) -> tuple[Predictions, torch.Tensor | None]:
        """What is predicted of each decision, and its value where that is asked for."""
        states = self._decoder.learn(
            tensors.token_ids, tensors.position, tensors.end, checkpointed=self._checkpointed
        )
        hidden = states[tensors.predictor]
        predictions = self._head.predict(
            hidden,
            tensors.target,
            tensors.temperature,
            tensors.choice_ids,
            with_entropy="entropy" in needs,
        )
        if "values" not in needs:
            return predictions, None
        if self._value_head is None:
            raise ValueError("values are asked for and the learner was built without a value head")
        return predictions, self._value_head(hidden)

    def _base_logprobs(self, tensors: BatchTensors) -> torch.Tensor:
        """Of what the policy is compared with: the base model, or the policy as it was."""
        reference = self._held.in_place if self._held is not None else self._model.disable_adapter
        with torch.no_grad(), reference():
            return self._predict(tensors)[0].logprobs[tensors.term_decision]

    def _check_gap(self, gap: Gap) -> None:
        limit = self._settings.max_logprob_gap
        if not gap.is_within(limit):
            self._optimizer.zero_grad(set_to_none=True)
            raise PolicyMismatch(
                "the sampler's and the learner's log-probabilities differ by "
                f"{gap.root_mean_square:.2e} (root mean square; limit {limit:.0e}), at most by "
                f"{gap.largest:.2e} (limit {LARGEST_TO_TYPICAL * limit:.0e}): the tokens were not "
                "sampled from the weights being trained; nothing was updated"
            )

    def _report(
        self, batches: Sequence[Batch], totals: UpdateTotals, grad_norm: float, applied: bool
    ) -> UpdateReport:
        weight = totals.weight or 1.0
        return UpdateReport(
            applied=applied,
            loss=totals.loss / (totals.steps or 1),
            grad_norm=grad_norm,
            entropy=totals.entropy / weight,
            clip_share=totals.clipped / weight,
            value_loss=totals.value_loss / totals.steps if totals.has_values else None,
            kl_to_base=totals.kl / totals.kl_weight if totals.kl_weight else None,
            logprob_gap=totals.gap.root_mean_square,
            largest_gap=totals.gap.largest,
            tokens=sum(b.token_ids.size for b in batches),
            row_tokens=sum(b.row_tokens for b in batches),
            fingerprint=self._fingerprint(),
            truncated_share=None if totals.truncated is None else totals.truncated / weight,
        )

    @property
    def _device(self) -> torch.device:
        return self._parameters[0].device

    @computed
    def save(self, folder: Path) -> None:
        """Write adapter, optimizer and random state into an existing folder."""
        save_adapter(self._model, folder)
        save_optimizer(self._optimizer, self._all_parameters, folder)
        if self._value_head is not None:
            self._value_head.save(folder)
        if self._held is not None:
            self._held.save(folder)

    @computed
    def load(self, folder: Path) -> None:
        """Read back what `save` wrote, bit for bit."""
        self._decoder.release()
        load_adapter(self._model, folder)
        load_optimizer(self._optimizer, self._all_parameters, folder)
        if self._value_head is not None:
            self._value_head.load(folder)
        if self._held is not None:
            self._held.load(folder)
        self._on_update()


def _value_head(model: Any) -> ValueHead:
    weight = model.get_base_model().get_output_embeddings().weight
    return ValueHead(weight.shape[1], weight.device)


def _by_minibatch(batches: Sequence[Batch]) -> list[list[Batch]]:
    """The batches of each optimizer step, in the order of their numbers."""
    numbers = sorted({batch.minibatch for batch in batches})
    return [[batch for batch in batches if batch.minibatch == number] for number in numbers]


def _terms(
    tensors: BatchTensors,
    predictions: Predictions,
    values: torch.Tensor | None,
    base: torch.Tensor | None,
) -> LossTerms:
    at = tensors.term_decision
    return LossTerms(
        logprobs=predictions.logprobs[at],
        old_logprobs=tensors.old_logprobs,
        advantages=tensors.advantages,
        weights=tensors.weights,
        base_logprobs=base,
        samples=tensors.samples,
        entropies=predictions.entropies[at],
        values=None if values is None else values[at],
        old_values=tensors.old_values,
        returns=tensors.returns,
    )
