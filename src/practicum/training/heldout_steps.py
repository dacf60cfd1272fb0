"""Steps over recorded examples of which some are held out, to see what was learned of the rest."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np

from practicum.core.sample import Floats
from practicum.core.task import JSON
from practicum.training.example_steps import NOTHING, ExampleSteps, Units
from practicum.training.rows import Row
from practicum.training.stages import StepResult

__all__ = ["HeldOutSteps", "share_in_order"]


@dataclass(kw_only=True)
class HeldOutSteps(ExampleSteps):
    """Example steps that report how the policy stands to examples it does not learn from.

    `heldout_loss` is the method's own loss, and for `sft` the mean over tokens. Where examples are
    good or bad, `heldout_in_order` is the share of pairs of a good and a bad one in which the
    policy has come to prefer the good one by more than the base model does.
    """

    load_heldout: Callable[[], Awaitable[Units]]
    """Called once, when the first rows are drawn."""
    is_reported: Callable[[int], bool]
    """Whether the held-out examples are looked at once this step is done."""
    is_reported_before: bool = True
    """Whether they are looked at before the first step as well."""
    heldout: Units = ()

    async def gather(self, step: int) -> list[Row]:
        """The rows of a step; those held out are loaded with the first."""
        if not self.units:
            self.heldout = await self.load_heldout()
        return await super().gather(step)

    def learn(self, step: int, material: list[Row]) -> StepResult:
        """Update, and look at the held-out examples where they are due."""
        is_first = step == self.first and self.is_reported_before
        before = self._figures() if self.heldout and is_first else {}
        result = super().learn(step, material)
        figures: dict[str, JSON] = {f"{name}_before": value for name, value in before.items()}
        if self.heldout and self.is_reported(step):
            figures |= self._figures()
        result.metrics.update(figures)
        return result

    def _figures(self) -> dict[str, float]:
        rows = [row for unit in self.heldout for row in unit]
        if self.method.kind == "sft":
            sums, _ = self._measure([row.sample for row in rows], NOTHING)
            tokens = sum(int(row.sample.loss_mask.sum()) for row in rows)
            return {"heldout_loss": -sum(sums[row.id] for row in rows) / tokens}
        policy, base = self._sums(rows)
        swapped = self._swapped(rows) if self.method.needs_mismatched else None
        _, loss, _ = self.method.advantages(rows, policy, base, swapped)
        assert loss is not None  # a method that measures knows its loss
        found = {"heldout_loss": loss}
        share = share_in_order(rows, policy - base)
        return found if share is None else {**found, "heldout_in_order": share}


def share_in_order(rows: Sequence[Row], gained: Floats) -> float | None:
    """Share of good-and-bad pairs in which the good one gained more; None where there are none.

    The sides of a preference are compared with each other, other good examples with all bad ones.
    Equal gains count half.
    """
    sides: dict[str, tuple[list[int], list[int]]] = {}
    for place, row in enumerate(rows):
        good = row.chosen if row.pair else row.label
        if good is not None:
            sides.setdefault(row.pair, ([], []))[0 if good else 1].append(place)
    apart = [np.subtract.outer(gained[good], gained[bad]).ravel() for good, bad in sides.values()]
    signs = np.sign(np.concatenate(apart)) if apart else np.zeros(0)
    return float(0.5 + 0.5 * signs.mean()) if signs.size else None
