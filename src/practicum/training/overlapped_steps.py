"""Steps whose episodes go on while earlier ones are learned from.

With a staleness of k the groups of a step may begin k updates before the step learns from them:

    steps done:     0              1              2
    under way:      1 .. 1+k       2 .. 2+k       3 .. 3+k

Steps learn in their order, each from all of its own groups. So no token can be older than k updates
when it is learned from, whatever takes how long: where a group is slow the learner waits for it,
while the groups of the k steps behind go on. No group is discarded, hurried or overtaken, and which
task is learned from in which step does not depend on how long it takes.

An update has the weights for itself: it runs in the sampler's thread between two of its steps. The
event loop goes on meanwhile, so tools, sandboxes and servers are answered. Afterwards completions
under way go on with the new weights, from the tokens they have.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from practicum.core.errors import PolicyMismatch
from practicum.core.interfaces import Sampler
from practicum.core.task import JSON
from practicum.training.rollout_steps import (
    Rolled,
    RolloutSteps,
    check_any_usable,
    check_sampled_by,
)
from practicum.training.stages import StepResult
from practicum.training.staleness import RecentWeights, mark_present, staleness_metrics
from practicum.training.task_ledger import StepTasks, TaskLedger

__all__ = ["OverlappedSteps", "YieldingSampler"]

T = TypeVar("T")


class YieldingSampler(Sampler, Protocol):
    """A sampler that gives the weights away between two of its steps."""

    async def between_steps(self, work: Callable[[], T]) -> T:
        """Do what changes the weights beside the event loop, while nothing is sampled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A step's groups, and how long the learner and they have waited for each other."""

    rolled: Rolled
    learner_waited_s: float
    groups_waited_s: float


@dataclass(slots=True, kw_only=True)
class OverlappedSteps:
    """Groups of the curriculum's tasks, begun up to `staleness` updates before they are learned."""

    steps: RolloutSteps
    """How the groups of one step are made, and learned from."""
    sampler: YieldingSampler
    ledger: TaskLedger
    staleness: int
    last: int
    """The stage's last step: no groups are made for later ones."""
    _under_way: dict[int, "asyncio.Task[tuple[Rolled, float]]"] = field(default_factory=dict)
    _weights: RecentWeights | None = None

    @property
    def episodes_expected(self) -> int:
        """In the course of a step about as many end as it learns from."""
        return self.steps.episodes_expected

    @property
    def is_under_way(self) -> bool:
        """Whether episodes of later steps are being made now."""
        return any(not job.done() for job in self._under_way.values())

    async def gather(self, step: int) -> Ready:
        """Wait for a step's groups; those of later steps begin as far ahead as they may."""
        started = time.monotonic()
        if self._weights is None:
            self._weights = RecentWeights(self.staleness, self.steps.learner.fingerprint())
            self.sampler.forget()
        for ahead in range(step, min(step + self.staleness, self.last) + 1):
            if ahead not in self._under_way:
                self._under_way[ahead] = asyncio.create_task(self._make(ahead))
        rolled, done_at = await self._under_way[step]
        del self._under_way[step]
        self.ledger.hand_over(step)
        now = time.monotonic()
        return Ready(
            rolled=rolled, learner_waited_s=now - started, groups_waited_s=max(0.0, now - done_at)
        )

    async def _make(self, step: int) -> tuple[Rolled, float]:
        rolled = await self.steps.roll_out(step, StepTasks(self.ledger, step))
        return rolled, time.monotonic()

    async def learn(self, step: int, material: Ready) -> StepResult:
        """Update in the sampler's thread; the event loop goes on meanwhile."""
        asked = time.monotonic()

        def update() -> StepResult:
            paused_s = time.monotonic() - asked
            result = self._update(step, material.rolled)
            result.metrics.update(_waits(material, paused_s))
            return result

        return await self.sampler.between_steps(update)

    def _update(self, step: int, rolled: Rolled) -> StepResult:
        assert self._weights is not None
        started, collected, weights = time.monotonic(), rolled.collected, self._weights
        check_any_usable(collected)
        present = self.steps.learner.fingerprint()
        if present != weights.present:
            raise PolicyMismatch(
                f"the last update left weights {weights.present} but the learner holds {present}: "
                "something else has changed them; nothing was updated"
            )
        check_sampled_by(present, collected, weights.accepted)
        batches = mark_present(self.steps.batches(step, collected), collected.trained, present)
        result = self.steps.update(batches, rolled, started)
        result.metrics.update(staleness_metrics(collected.trained, weights))
        weights.updated(self.steps.learner.fingerprint())
        return result

    async def close(self) -> None:
        """Stop what is under way; a resumed run makes it again."""
        jobs = list(self._under_way.values())
        self._under_way.clear()
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)


def _waits(material: Ready, paused_s: float) -> dict[str, JSON]:
    """Who has waited for whom: `rollout_s` counts only what the learner had to wait."""
    return {
        "rollout_s": material.learner_waited_s,
        "groups_s": material.rolled.seconds,
        "groups_waited_s": material.groups_waited_s,
        "pause_s": paused_s,
    }
