"""Steps whose material was recorded before: whole conversations with a mask of what to learn.

A method over whole conversations needs their log-probabilities before it can say what each one
counts, and conversations of one update need not fit through the model together. So an update has
two passes: the first measures, the method's loss is differentiated by hand of those few sums, and
the second adds up each conversation's gradient times that slope. The result is the gradient of the
method's own loss, however the conversations are divided.
"""

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from practicum.batching import build_batches
from practicum.core.interfaces import Learner, Need, Objective, OfflineMethod
from practicum.core.sample import Batch, Floats, Sample
from practicum.core.task import JSON
from practicum.training.rows import Row
from practicum.training.stages import StepResult
from practicum.training.step_metrics import update_metrics

__all__ = ["ExampleSteps"]


Units = Sequence[tuple[Row, ...]]
"""What is drawn together: a row alone, or the two sides of a preference."""


@dataclass(slots=True, kw_only=True)
class ExampleSteps:
    """Rows drawn epoch by epoch, each epoch in an order of its own."""

    load: Callable[[], Awaitable[Units]]
    """Called once, when the first rows are drawn."""
    method: OfflineMethod
    objective: Objective
    learner: Learner
    batch: int
    """Units of an update at the most; an epoch is divided evenly, and each unit is in it once."""
    first: int
    """The stage's first step."""
    seed: int
    micro_batch_tokens: int
    units: Units = ()

    @property
    def episodes_expected(self) -> int:
        """None are made."""
        return 0

    async def gather(self, step: int) -> list[Row]:
        """The rows of a step; the seed and the step decide which."""
        self.units = self.units or await self.load()
        epoch, part = divmod(step - self.first, self._updates)
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.units))
        drawn = np.array_split(order, self._updates)[part]
        return [row for place in drawn.tolist() for row in self.units[place]]

    @property
    def _updates(self) -> int:
        """Of an epoch."""
        return math.ceil(len(self.units) / self.batch)

    def learn(self, step: int, material: list[Row]) -> StepResult:
        """Measure, let the method say what each row counts, and update."""
        started = time.monotonic()
        advantages, loss, figures = self._advantages(material)
        tokens = sum(int(row.sample.loss_mask.sum()) for row in material)
        # A likelihood is a mean over tokens; other methods see a conversation's sum as one number.
        weight = 1.0 / tokens if self.method.kind == "sft" else 1.0
        samples = [
            replace(row.sample, weight=weight, advantages=np.full_like(row.sample.advantages, a))
            for row, a in zip(material, advantages.tolist(), strict=True)
        ]
        report = self.learner.update(self._batches(samples), self.objective)
        metrics: dict[str, JSON] = {**update_metrics(report), **figures}
        metrics["loss"] = report.loss if loss is None else loss
        metrics["examples"] = len(material)
        metrics["epoch"] = (step - self.first + 1) / self._updates
        metrics["update_s"] = time.monotonic() - started
        return StepResult(report=report, metrics=metrics)

    def _advantages(self, rows: list[Row]) -> tuple[Floats, float | None, Mapping[str, float]]:
        if not self.method.needs_measure:
            return self.method.advantages(rows, None, None, None)
        policy, base = self._sums(rows)
        swapped = self._swapped(rows) if self.method.needs_mismatched else None
        return self.method.advantages(rows, policy, base, swapped)

    def _sums(self, rows: Sequence[Row]) -> tuple[Floats, Floats]:
        """Log-probabilities of whole rows: the policy's, and the base model's.

        The base model's do not change, and yet are measured again: their last bits depend on what
        else is in the batch, and a resumed run must find those of a run that was never stopped.
        """
        policy, base = self._measure([row.sample for row in rows], BASE)
        ids = [row.sample.id for row in rows]
        return _array(policy, ids), _array(base, ids)

    def _swapped(self, rows: Sequence[Row]) -> tuple[Floats, Floats]:
        """The same for each row's beginning with the rest of the next one.

        A row that is alone in its update takes it from outside.
        """
        alone = [unit[0] for unit in self.units if unit[0].id != rows[0].id]
        others = [*rows[1:], rows[0]] if len(rows) > 1 else [*alone, rows[0]][:1]
        samples = [row.with_completion_of(other) for row, other in zip(rows, others, strict=True)]
        policy, base = self._measure(samples, BASE)
        ids = [sample.id for sample in samples]
        return _array(policy, ids), _array(base, ids)

    def _measure(
        self, samples: Sequence[Sample], needs: frozenset[Need]
    ) -> tuple[dict[str, float], dict[str, float]]:
        policy: dict[str, float] = {}
        base: dict[str, float] = {}
        batches = self._batches(samples)
        for batch, found in zip(batches, self.learner.measure(batches, needs), strict=True):
            policy |= _sum_by_sample(batch, found.logprobs)
            if found.base_logprobs is not None:
                base |= _sum_by_sample(batch, found.base_logprobs)
        return policy, base

    def _batches(self, samples: Sequence[Sample]) -> list[Batch]:
        return build_batches(samples, self.micro_batch_tokens) if samples else []


BASE: frozenset[Need] = frozenset({"base"})
NOTHING: frozenset[Need] = frozenset()


def _sum_by_sample(batch: Batch, terms: Floats) -> dict[str, float]:
    sums = np.bincount(batch.term_sample, terms.astype(np.float64), len(batch.sample_ids))
    return dict(zip(batch.sample_ids, sums.tolist(), strict=True))


def _array(values: Mapping[str, float], ids: Sequence[str]) -> Floats:
    return np.asarray([values[key] for key in ids], np.float64)
