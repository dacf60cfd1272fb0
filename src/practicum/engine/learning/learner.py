"""The learner: one update of the adapter from prefix-tree batches."""

import math
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from practicum.core.errors import PolicyMismatch
from practicum.core.interfaces import Measured, Need, Objective, UpdateReport
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Batch, Floats
from practicum.engine.compute_thread import beside_loop, computed
from practicum.engine.decoder.decoders import Decoder
from practicum.engine.decoder.head import Head, Predictions, ValueHead
from practicum.engine.learning.learner_state import (
    ReferenceAdapter,
    TrainingSnapshot,
    load_optimizer,
    save_optimizer,
    steps_taken,
)
from practicum.engine.learning.memory_fit import MemoryFit
from practicum.engine.learning.micro_batches import (
    FARTHEST,
    LARGEST_TO_TYPICAL,
    BatchTensors,
    Gap,
    measure_gap,
    take,
)
from practicum.engine.learning.process_group import Alone, Peers
from practicum.engine.models.lora import load_adapter, save_adapter, trainable


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

    @classmethod
    def together(cls, parts: "Sequence[UpdateTotals]") -> "UpdateTotals":
        """Those of all processes that share an update; one alone as it is."""
        if len(parts) == 1:
            return parts[0]
        truncated = [part.truncated for part in parts if part.truncated is not None]
        return cls(
            steps=parts[0].steps,
            loss=sum(part.loss for part in parts),
            weight=sum(part.weight for part in parts),
            entropy=sum(part.entropy for part in parts),
            clipped=sum(part.clipped for part in parts),
            truncated=sum(truncated) if truncated else None,
            kl=sum(part.kl for part in parts),
            kl_weight=sum(part.kl_weight for part in parts),
            gap=sum((part.gap for part in parts), Gap()),
            value_loss=sum(part.value_loss for part in parts),
            has_values=any(part.has_values for part in parts),
        )


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
    value_lr: float | None = None
    """Learning rate of the value head; None makes none."""
    held_to_start: bool = False
    """Compare with the adapter as it is when these settings are taken, not with the base model."""


T = TypeVar("T")


class TorchLearner:
    """Owns the optimizer; shares the module with the sampler."""

    def __init__(
        self,
        model: Any,
        decoder: Decoder,
        settings: LearnerSettings,
        *,
        fingerprint: Callable[[], str],
        publish: Callable[[str], None],
        describe: Callable[[Path], None],
        checkpointed: bool = False,
        peers: Peers | None = None,
    ) -> None:
        # `checkpointed` keeps only each layer's input and computes the layer again on the way
        # back. It is no setting: it changes no bit, so nothing is retuned for it.
        self._model = model
        self._decoder = decoder
        self._head = Head(model.get_base_model())
        self._settings = settings
        self._fingerprint = fingerprint
        self._publish, self._describe = publish, describe
        self._value_head = _value_head(model) if settings.value_lr is not None else None
        self._parameters = [p for _, p in trainable(model)]
        self._has_dropout = any(
            isinstance(m, torch.nn.Dropout) and m.p > 0.0 for m in model.modules()
        )
        self._rounds = model.get_base_model().dtype != torch.float32
        self._fit = MemoryFit(checkpointed=checkpointed)
        self._peers: Peers = peers or Alone()
        self._held: ReferenceAdapter | None = None
        self._take(settings)

    @computed
    def retune(self, settings: LearnerSettings) -> None:
        """Go on with other settings and an optimizer that remembers nothing."""
        self._take(settings)

    def scale_rate(self, share: float) -> None:
        """Take the next steps at this share of the settings' learning rates."""
        rates = [self._settings.lr, self._settings.value_lr or self._settings.lr]
        for group, rate in zip(self._optimizer.param_groups, rates, strict=False):
            group["lr"] = rate * share

    def _take(self, settings: LearnerSettings) -> None:
        self._settings = settings
        self._optimizer = self._new_optimizer(settings)
        self._held = ReferenceAdapter(self._parameters) if settings.held_to_start else None

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
    def publish(self) -> str:
        """Let the sampler go on with the weights as they are now: it shares the tensors."""
        version = self._fingerprint()
        self._publish(version)
        return version

    async def beside_loop(self, work: Callable[[], T]) -> T:
        """Do work in the thread that computes, where updates wait for nobody."""
        return await beside_loop(work)

    @computed
    def update(self, batches: Sequence[Batch], objective: Objective) -> UpdateReport:
        """One optimizer step for each minibatch of each of the objective's epochs; published.

        All of them or none: where a loss or gradient is not finite, weights and moments are again
        what they were before the first step.

        Raises:
            PolicyMismatch: the sampler's log-probabilities are not this model's. The weights have
                not been touched.
        """
        return self.update_share(by_minibatch(batches), objective)

    @computed
    def update_share(
        self, minibatches: Sequence[Sequence[Batch]], objective: Objective
    ) -> UpdateReport:
        """This process's part of an update: some of the batches of each of its minibatches.

        Gradients and figures are summed over all processes, so each takes the same steps. The
        report counts the tokens of this part.
        """
        try:
            report = self._update([list(part) for part in minibatches], objective)
        except BaseException:
            self.publish()  # it may have broken off between two optimizer steps
            raise
        self._publish(report.fingerprint)
        return report

    def _update(self, minibatches: list[list[Batch]], objective: Objective) -> UpdateReport:
        self._decoder.release()
        self._begin_dropout()
        mine, totals, grad_norm, applied = UpdateTotals(), UpdateTotals(), 0.0, True
        batches = [batch for minibatch in minibatches for batch in minibatch]
        steps = minibatches * objective.epochs
        before = TrainingSnapshot(self._optimizer, self._all_parameters) if steps[1:] else None
        compares = steps_taken(self._optimizer) % COMPARE_EVERY == 0
        checks_first = objective.from_policy and not self._has_dropout
        if objective.from_policy and self._rounds and (steps[1:] or self._has_dropout):
            totals = self._together(partial(self._unround, minibatches, mine), mine)
            checks_first = False
        elif objective.from_policy:
            ahead = partial(self._check_ahead, minibatches, objective, mine)
            self._peers.gathered(ahead)
        for minibatch in steps:
            is_first = mine.steps == 0
            mine.steps += 1
            self._optimizer.zero_grad(set_to_none=True)
            add = partial(
                self._accumulate_all,
                minibatch,
                objective,
                mine,
                checked=is_first and checks_first,
                compares=is_first and compares,
            )
            totals = self._together(add, mine)
            self._peers.sum_gradients(self._all_parameters)
            grad_norm = self._clip()
            applied = math.isfinite(grad_norm) and math.isfinite(totals.loss)
            if not applied:
                break
            self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        if not applied and before is not None:
            before.restore()
        return self._report(batches, totals, grad_norm, applied)

    def _together(self, work: Callable[[], None], mine: UpdateTotals) -> UpdateTotals:
        """Do what adds to this process's totals; those of all, if sampler and learner agree."""

        def part() -> UpdateTotals:
            work()
            return mine

        totals = UpdateTotals.together(self._peers.gathered(part))
        self._check_gap(totals.gap)
        return totals

    def _accumulate_all(
        self,
        minibatch: Sequence[Batch],
        objective: Objective,
        totals: UpdateTotals,
        *,
        checked: bool,
        compares: bool,
    ) -> None:
        """Add the gradients of this process's batches of a minibatch."""
        for number, batch in enumerate(minibatch):
            add = partial(
                self._accumulate,
                objective=objective,
                totals=totals,
                checked=checked,
                compare="base" in objective.loss_needs or (compares and number == 0),
            )
            self._in_parts(batch, add, objective)

    def _begin_dropout(self) -> None:
        """Let a replica draw masks of its own, the same ones on a resumed run."""
        if self._has_dropout and self._peers.rank:
            torch.manual_seed(1_000_003 * steps_taken(self._optimizer) + self._peers.rank)

    def _check_ahead(
        self, minibatches: Sequence[Sequence[Batch]], objective: Objective, totals: UpdateTotals
    ) -> None:
        """Compare with the sampler what is first learned from after the weights have moved.

        The first minibatch is compared in the pass that it is learned from; under dropout here.
        """

        def compare(part: Batch) -> None:
            tensors = BatchTensors.of(part, self._device)
            totals.gap += self._gap(self._predict(tensors)[0], tensors)

        with torch.no_grad():
            for minibatch in minibatches if self._has_dropout else minibatches[1:]:
                for batch in minibatch:
                    self._in_parts(batch, compare, objective)

    def _in_parts(self, batch: Batch, work: Callable[[Batch], None], objective: Objective) -> None:
        """Do what adds up, in as many parts as the memory asks for."""
        for _ in self._fit.run(batch, work, whole_samples=objective.by_sequence):
            pass

    def _unround(self, minibatches: Sequence[list[Batch]], totals: UpdateTotals) -> None:
        """Give all batches the learner's own log-probabilities, in place."""
        for minibatch in minibatches:
            minibatch[:] = [self._unrounded(batch, totals) for batch in minibatch]

    @torch.no_grad()
    def _unrounded(self, batch: Batch, totals: UpdateTotals) -> Batch:
        """A batch with the learner's own log-probabilities, once they are compared."""

        def own(part: Batch) -> dict[str, Floats]:
            tensors = BatchTensors.of(part, self._device)
            predictions = self._predict(tensors)[0]
            totals.gap += self._gap(predictions, tensors)
            return {"own": tensors.unrounded(predictions).old_logprobs.float().cpu().numpy()}

        return replace(batch, term_old_logprob=self._fit.by_term(batch, own)["own"])

    @computed
    def measure(self, batches: Sequence[Batch], needs: frozenset[Need]) -> list[Measured]:
        """Log-probabilities of the batches' terms, and what else is asked for; nothing learns."""
        self._decoder.release()
        with torch.no_grad():
            measure = partial(self._measure, needs=needs)
            return [Measured(**self._fit.by_term(batch, measure)) for batch in batches]

    def _measure(self, batch: Batch, needs: frozenset[Need]) -> dict[str, Floats]:
        tensors = BatchTensors.of(batch, self._device)
        predictions, values = self._predict(tensors, needs)
        found = {"logprobs": predictions.logprobs[tensors.term_decision]}
        if "base" in needs:
            found["base_logprobs"] = self._base_logprobs(tensors)
        if values is not None:
            found["values"] = values[tensors.term_decision]
        return {name: of_terms.float().cpu().numpy() for name, of_terms in found.items()}

    def _clip(self) -> float:
        """Bound the adapter's gradient and the value head's, each by itself; the adapter's norm."""
        limit = self._settings.max_grad_norm
        if self._value_head is not None:
            torch.nn.utils.clip_grad_norm_(self._value_head.parameters(), limit)
        return float(torch.nn.utils.clip_grad_norm_(self._parameters, limit))

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
        with self._learning():
            predictions, values = self._predict(tensors, objective.loss_needs)
        gap = self._gap(predictions, tensors) if checked else Gap()
        if checked and self._rounds:
            tensors = tensors.unrounded(predictions)
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
            tensors.token_ids, tensors.position, tensors.end, checkpointed=self._fit.checkpointed
        )
        hidden = take(states, tensors.predictor)
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

    def _gap(self, predictions: Predictions, tensors: BatchTensors) -> Gap:
        counted = FARTHEST * self._settings.max_logprob_gap if self._rounds else math.inf
        return measure_gap(predictions, tensors, counted)

    def _check_gap(self, gap: Gap) -> None:
        limit = self._settings.max_logprob_gap
        if not gap.is_within(limit, low_precision=self._rounds):
            self._optimizer.zero_grad(set_to_none=True)
            largest = "" if self._rounds else f" (limit {LARGEST_TO_TYPICAL * limit:.0e})"
            raise PolicyMismatch(
                "the sampler's and the learner's log-probabilities differ by "
                f"{gap.root_mean_square:.2e} (root mean square; limit {limit:.0e}), at most by "
                f"{gap.largest:.2e}{largest}: the tokens were not sampled from the weights being "
                "trained; nothing was updated"
            )

    def _report(
        self, batches: Sequence[Batch], totals: UpdateTotals, grad_norm: float, applied: bool
    ) -> UpdateReport:
        weight = totals.weight or 1.0
        report = UpdateReport(
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
            out_of_memory=self._fit.out_of_memory,
            micro_batch_splits=self._fit.splits,
            gradient_checkpointing=self._fit.checkpointed,
            memory_notice=self._fit.notice(),
        )
        self._fit.begin_counting()
        return report

    @property
    def _device(self) -> torch.device:
        return self._parameters[0].device

    @computed
    def save(self, folder: Path) -> None:
        """Write adapter, what describes it, optimizer and random state into an existing folder."""
        save_adapter(self._model, folder)
        self._describe(folder)
        save_optimizer(self._optimizer, self._all_parameters, folder)
        for part in (self._value_head, self._held):
            if part is not None:
                part.save(folder)

    @computed
    def load(self, folder: Path) -> None:
        """Read back what `save` wrote, bit for bit."""
        self._decoder.release()
        load_adapter(self._model, folder)
        load_optimizer(self._optimizer, self._all_parameters, folder)
        for part in (self._value_head, self._held):
            if part is not None:
                part.load(folder)
        self.publish()


def _value_head(model: Any) -> ValueHead:
    weight = model.get_base_model().get_output_embeddings().weight
    return ValueHead(weight.shape[1], weight.device)


def by_minibatch(batches: Sequence[Batch]) -> list[list[Batch]]:
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
        logprobs=take(predictions.logprobs, at),
        old_logprobs=tensors.old_logprobs,
        advantages=tensors.advantages,
        weights=tensors.weights,
        base_logprobs=base,
        samples=tensors.samples,
        entropies=take(predictions.entropies, at),
        values=None if values is None else take(values, at),
        old_values=tensors.old_values,
        returns=tensors.returns,
    )
