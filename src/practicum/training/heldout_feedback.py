"""Whether a policy has moved towards what people preferred, on feedback it has not learned from."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from practicum.core.interfaces import Learner
from practicum.training.example_steps import (
    BASE,
    OfflineExample,
    Units,
    logprob_sums,
)
from practicum.training.prefix_tree import build_batches


def measure_gains(units: Units, learner: Learner, micro_batch_tokens: int) -> dict[str, float]:
    """How much more likely each conversation has become than it was at the start, as a logarithm.

    The learner must compare with its start (`reference: start`).
    """
    samples = [row.sample for unit in units for row in unit]
    batches = build_batches(samples, micro_batch_tokens)
    gains: dict[str, float] = {}
    for batch, found in zip(batches, learner.measure(batches, BASE), strict=True):
        assert found.base_logprobs is not None  # asked for
        gains |= logprob_sums(batch, found.logprobs - found.base_logprobs)
    return gains


class Preference(NamedTuple):
    """A pair of conversations of which one is preferred."""

    good: str
    bad: str
    """Their ids."""
    sign: Fraction
    """1 where the preferred one gained more, -1 where the other did."""


def preferences(units: Units, gains: dict[str, float], seed: int) -> list[Preference]:
    """Pairs of conversations, and which of each has gained more.

    A correction is compared with the answer it corrects. Conversations that were each called good
    or bad are paired by chance. No task is in two pairs, so that pairs are independent.
    """
    dice = np.random.default_rng(seed)
    order = dice.permutation(len(units)).tolist()
    seen: set[str] = set()
    pairs: list[tuple[OfflineExample, OfflineExample]] = []
    by_label: dict[bool, list[OfflineExample]] = {True: [], False: []}
    for unit in (units[place] for place in order):
        if unit[0].task_id and unit[0].task_id in seen:
            continue
        seen.add(unit[0].task_id)
        if len(unit) == 2:
            pairs.append((unit[0], unit[1]))  # the chosen one comes first
        elif unit[0].label is not None:
            by_label[unit[0].label].append(unit[0])
    pairs += zip(by_label[True], by_label[False], strict=False)
    return [
        Preference(good.id, bad.id, Fraction(_sign(gains[good.id] - gains[bad.id])))
        for good, bad in pairs
    ]


def mean_gain(units: Units, gains: dict[str, float]) -> float | None:
    """The mean gain of the preferred conversations; None where there are none."""
    found = [gains[row.id] for unit in units for row in unit if _is_preferred(row)]
    return float(np.mean(found)) if found else None


def _is_preferred(row: OfflineExample) -> bool:
    return bool(row.chosen if row.pair else row.label)


def _sign(value: float) -> int:
    return int(np.sign(value))
