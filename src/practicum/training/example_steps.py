"""Offline training steps (SFT, KTO, DPO) over recorded conversations with a loss mask.

The loss of KTO and DPO is a function of the summed log-probabilities of whole conversations, which
need not fit into memory together. So an update has two passes: the first measures the sums, the
method differentiates its loss by them, and the second accumulates each conversation's gradient
times that derivative. By the chain rule this is the gradient of the method's loss, however the
conversations are divided into micro-batches.
"""

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from practicum.core.errors import UserError
from practicum.core.interfaces import Learner, Need, Objective, OfflineMethod, UpdateReport
from practicum.core.sample import Batch, Credit, Episode, Example, Floats, Sample, TokenisedExample
from practicum.core.task import JSON
from practicum.training.prefix_tree import build_batches, episode_samples
from practicum.training.stages import StepResult, update_metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineExample:
    """One tokenised conversation and its labels; see `LabelledExample` for the fields."""

    sample: Sample
    task_id: str = ""
    label: bool | None = None
    pair: str = ""
    chosen: bool | None = None
    weight: float = 1.0
    reward: float | None = None

    @property
    def id(self) -> str:
        """See `Sample.id`."""
        return self.sample.id

    def with_completion_of(self, other: "OfflineExample") -> Sample:
        """This example's prompt followed by the other's completion."""
        one, two = self.sample, other.sample
        begin = int(one.loss_mask.argmax())  # the prompt ends at the first loss token
        rest = slice(int(two.loss_mask.argmax()), None)
        ones = np.ones(begin, np.float32)
        token_ids = np.concatenate([one.token_ids[:begin], two.token_ids[rest]])
        return replace(
            one,
            token_ids=token_ids,
            loss_mask=np.concatenate([np.zeros(begin, np.bool_), two.loss_mask[rest]]),
            old_logprobs=np.zeros(token_ids.size, np.float32),
            advantages=np.zeros(token_ids.size, np.float32),
            temperatures=np.concatenate([ones, two.temperatures[rest]]),
            choices={at - rest.start + begin: c for at, c in two.choices.items()},
        )


def offline_example(example: Example, tokens: TokenisedExample) -> OfflineExample:
    """An example whose text has been tokenised."""
    length = tokens.token_ids.size
    sample = Sample(
        token_ids=tokens.token_ids,
        loss_mask=tokens.loss_mask,
        old_logprobs=np.zeros(length, np.float32),
        advantages=np.zeros(length, np.float32),
        temperatures=np.ones(length, np.float32),
        choices={},
        trace_id=example.id,
    )
    return OfflineExample(
        sample=sample,
        task_id=example.task_id,
        label=example.label,
        pair=example.pair,
        chosen=example.chosen,
        weight=example.weight,
        reward=example.reward,
    )


def offline_examples(episode: Episode, label: bool | None) -> list[OfflineExample]:
    """An episode that the model itself sampled: its own tokens, temperatures and choices."""
    trace = episode.trace
    credit = Credit(advantages=(0.0,) * len(trace.turns))
    return [
        OfflineExample(
            sample=_as_drawn(sample),
            task_id=trace.task_id,
            label=label,
            reward=episode.score.value,
        )
        for sample in episode_samples(trace, credit, 1.0)
    ]


def _as_drawn(sample: Sample) -> Sample:
    """Tokens taken at temperature 0, the likeliest, as those of 1 whose probability is not known.

    There is no distribution at 0 that could be learned, or weighed against.
    """
    is_drawn = sample.temperatures > 0
    return replace(
        sample,
        temperatures=np.where(is_drawn, sample.temperatures, 1.0).astype(np.float32),
        old_logprobs=np.where(is_drawn, sample.old_logprobs, 0.0).astype(np.float32),
    )


def units(rows: Sequence[OfflineExample], kind: str) -> list[tuple[OfflineExample, ...]]:
    """Divide examples into units.

    The chosen and the rejected one for `dpo`, the answers of a group for `grpo`, else single ones.
    """
    if kind not in ("dpo", "grpo"):
        return [(row,) for row in rows]
    pairs: dict[str, list[OfflineExample]] = {}
    for row in rows:
        pairs.setdefault(row.pair, []).append(row)
    if kind == "grpo":
        return [tuple(group) for group in pairs.values()]
    found = []
    for name, sides in pairs.items():
        if sorted(bool(row.chosen) for row in sides) != [False, True]:
            raise UserError(
                f"the pair {name!r} has {len(sides)} sides, and a preference needs one that was "
                "chosen and one that was rejected; build the data with --kind dpo"
            )
        found.append(tuple(sorted(sides, key=lambda row: not row.chosen)))
    return found


Units = Sequence[tuple[OfflineExample, ...]]
"""Examples that must be in the same update: one alone, the sides of a pair, or a group."""

Updates = list[list[OfflineExample]]
"""The examples of a step, update by update."""


@dataclass(slots=True, kw_only=True)
class ExampleSteps:
    """A `StepSource` that goes through recorded examples in epochs, each shuffled by the seed."""

    load: Callable[[], Awaitable[Units]]
    """Called once, by the first `gather`."""
    method: OfflineMethod
    objective: Objective
    learner: Learner
    batch: int
    """Most units of an update; an epoch is divided into updates of nearly equal size."""
    first: int
    """The stage's first step."""
    seed: int
    updates: int = 1
    """Updates of a step."""
    micro_batch_tokens: int
    units: Units = ()

    @property
    def episodes_expected(self) -> int:
        """No episodes are rolled out."""
        return 0

    async def gather(self, step: int) -> Updates:
        """The examples of a step, a function of the seed and the step."""
        self.units = self.units or await self.load()
        done = (step - self.first) * self.updates
        return [self._draw(update) for update in range(done, done + self.updates)]

    def _draw(self, update: int) -> list[OfflineExample]:
        """The examples of an update, counted over the stage from 0."""
        epoch, part = divmod(update, self._epoch)
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.units))
        drawn = np.array_split(order, self._epoch)[part]
        return [row for place in drawn.tolist() for row in self.units[place]]

    @property
    def _epoch(self) -> int:
        """Updates per epoch."""
        return math.ceil(len(self.units) / self.batch)

    def learn(self, step: int, material: Updates) -> StepResult:
        """The updates of a step, in order."""
        started = time.monotonic()
        results = [self._update(examples) for examples in material]
        report, metrics = results[-1]
        is_applied = all(one.applied for one, _ in results)
        metrics |= {"applied": is_applied, "loss": fmean(one["loss"] for _, one in results)}
        for name in ("update_tokens", "row_tokens", "out_of_memory", "micro_batch_splits"):
            metrics[name] = sum(one[name] for _, one in results)
        notices = [one.memory_notice for one, _ in results if one.memory_notice]
        report = replace(report, applied=is_applied, memory_notice="; ".join(notices))
        metrics["examples"] = sum(len(examples) for examples in material)
        metrics["epoch"] = (step - self.first + 1) * self.updates / self._epoch
        metrics["update_s"] = time.monotonic() - started
        return StepResult(report=report, metrics=metrics)

    def _update(self, material: list[OfflineExample]) -> tuple[UpdateReport, dict[str, Any]]:
        """Measure the examples if the method needs it, then update."""
        advantages, loss, figures = self._advantages(material)
        samples = [
            replace(row.sample, weight=weight, advantages=np.full_like(row.sample.advantages, a))
            for row, a, weight in zip(
                material, advantages.tolist(), self._weights(material), strict=True
            )
        ]
        if self.method.kind == "grpo":
            samples = self._with_ratios(samples)
        report = self.learner.update(self._batches(samples), self.objective)
        metrics = {**update_metrics(report), **figures}
        metrics["loss"] = report.loss if loss is None else loss
        return report, metrics

    def _weights(self, rows: Sequence[OfflineExample]) -> list[float]:
        """What each token of each example counts."""
        lengths = [int(row.sample.loss_mask.sum()) for row in rows]
        if self.method.kind == "sft":  # a mean over tokens
            return [1.0 / sum(lengths)] * len(rows)
        if self.method.kind == "grpo":  # a mean over each answer's tokens, then over answers
            return [1.0 / (length * len(rows)) for length in lengths]
        return [1.0] * len(rows)  # advantages of KTO and DPO are derivatives by whole sums

    def _with_ratios(self, samples: Sequence[Sample]) -> list[Sample]:
        """Samples with log-probabilities to weigh against; the reference's if none are known."""
        unknown = [sample for sample in samples if not sample.old_logprobs.any()]
        batches = self._batches(unknown)
        found: dict[str, Floats] = {}
        for batch, measured in zip(batches, self.learner.measure(batches, BASE), strict=True):
            assert measured.base_logprobs is not None  # it was asked for
            for number, name in enumerate(batch.sample_ids):
                found[name] = measured.base_logprobs[batch.term_sample == number]
        return [
            _with_logprobs(sample, found[sample.id]) if sample.id in found else sample
            for sample in samples
        ]

    def _advantages(
        self, rows: list[OfflineExample]
    ) -> tuple[Floats, float | None, Mapping[str, float]]:
        if not self.method.needs_measure:
            return self.method.advantages(rows, None, None, None)
        policy, base = self._sums(rows)
        mismatched = self._mismatched_sums(rows) if self.method.needs_mismatched else None
        return self.method.advantages(rows, policy, base, mismatched)

    def _sums(self, rows: Sequence[OfflineExample]) -> tuple[Floats, Floats]:
        """Summed log-probabilities of each example: the policy's and the base model's, (N,) each.

        The base model's are not cached although they do not change: their last bits depend on the
        other examples of the batch, and a resumed run must repeat those of an uninterrupted one.
        """
        policy, base = self._measure([row.sample for row in rows], BASE)
        ids = [row.sample.id for row in rows]
        return _array(policy, ids), _array(base, ids)

    def _mismatched_sums(self, rows: Sequence[OfflineExample]) -> tuple[Floats, Floats]:
        """The same for each prompt with the completion of the next example.

        An example that is alone in its update takes another one's from outside.
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
            policy |= logprob_sums(batch, found.logprobs)
            if found.base_logprobs is not None:
                base |= logprob_sums(batch, found.base_logprobs)
        return policy, base

    def _batches(self, samples: Sequence[Sample]) -> list[Batch]:
        return build_batches(samples, self.micro_batch_tokens) if samples else []


BASE: frozenset[Need] = frozenset({"base"})
NOTHING: frozenset[Need] = frozenset()


def logprob_sums(batch: Batch, terms: Floats) -> dict[str, float]:
    """The sums of log-probabilities of a batch's samples, by their ids."""
    # float64: the difference of two long sums would lose its digits in float32.
    sums = np.bincount(batch.term_sample, terms.astype(np.float64), len(batch.sample_ids))
    return dict(zip(batch.sample_ids, sums.tolist(), strict=True))


def _with_logprobs(sample: Sample, of_terms: Floats) -> Sample:
    """The sample with log-probabilities for its loss tokens, in their order."""
    logprobs = np.zeros_like(sample.old_logprobs)
    logprobs[sample.loss_mask] = of_terms
    return replace(sample, old_logprobs=logprobs)


def _array(values: Mapping[str, float], ids: Sequence[str]) -> Floats:
    return np.asarray([values[key] for key in ids], np.float64)


@dataclass(kw_only=True)
class HeldOutSteps(ExampleSteps):
    """Example steps that also report metrics of held-out examples.

    `heldout_loss` is the method's loss; for `sft` the mean over tokens, and none for `grpo`, whose
    loss is near 0 whatever it learns. `heldout_in_order` is, for labelled and scored examples, the
    accuracy of the implicit reward (policy minus base log-probability) on pairs of a good and a bad
    one.
    """

    load_heldout: Callable[[], Awaitable[Units]]
    """Called once, by the first `gather`."""
    is_reported: Callable[[int], bool]
    """Whether to report after this step."""
    is_reported_before: bool = True
    """Whether to report before the first step too."""
    heldout: Units = ()

    async def gather(self, step: int) -> Updates:
        """The examples of a step; the first call loads the held-out ones too."""
        if not self.units:
            self.heldout = await self.load_heldout()
        return await super().gather(step)

    def learn(self, step: int, material: Updates) -> StepResult:
        """Update, and report the held-out metrics where due."""
        is_first = step == self.first and self.is_reported_before
        before = self._heldout_metrics() if self.heldout and is_first else {}
        result = super().learn(step, material)
        figures: dict[str, JSON] = {f"{name}_before": value for name, value in before.items()}
        if self.heldout and self.is_reported(step):
            figures |= self._heldout_metrics()
        result.metrics.update(figures)
        return result

    def _heldout_metrics(self) -> dict[str, float]:
        rows = [row for unit in self.heldout for row in unit]
        if self.method.kind == "sft":
            sums, _ = self._measure([row.sample for row in rows], NOTHING)
            tokens = sum(int(row.sample.loss_mask.sum()) for row in rows)
            return {"heldout_loss": -sum(sums[row.id] for row in rows) / tokens}
        policy, base = self._sums(rows)
        found: dict[str, float] = {}
        if self.method.needs_measure:
            mismatched = self._mismatched_sums(rows) if self.method.needs_mismatched else None
            _, loss, _ = self.method.advantages(rows, policy, base, mismatched)
            assert loss is not None  # a method that measures knows its loss
            found["heldout_loss"] = loss
        share, pairs = share_in_order(rows, policy - base)
        if share is None:
            return found
        return {**found, "heldout_in_order": share, "heldout_pairs": pairs}


def share_in_order(rows: Sequence[OfflineExample], gained: Floats) -> tuple[float | None, int]:
    """Share of pairs of a better and a worse one in which the better gained more; and their count.

    The sides of a preference pair and the answers of a group are compared with each other; other
    good examples with all bad ones, which is the area under the ROC curve. Ties count half; None
    without any pair. `gained`: (N,).
    """
    groups: dict[str, list[int]] = {}
    known = [_worth(row) for row in rows]
    worth = np.asarray([math.nan if w is None else w for w in known], np.float64)  # (N,)
    for place, row in enumerate(rows):
        groups.setdefault(row.pair, []).append(place)
    signs = [np.zeros(0)]
    for places in groups.values():
        is_better = np.subtract.outer(worth[places], worth[places]) > 0
        signs.append(np.sign(np.subtract.outer(gained[places], gained[places]))[is_better])
    all_of = np.concatenate(signs)
    return (float(0.5 + 0.5 * all_of.mean()) if all_of.size else None), int(all_of.size)


def _worth(row: OfflineExample) -> float | bool | None:
    """By what an example is better than another: its side, its score in a group, or its label."""
    if not row.pair:
        return row.label
    return row.reward if row.chosen is None else row.chosen
