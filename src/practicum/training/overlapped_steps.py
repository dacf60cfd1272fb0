"""Asynchronous (off-policy) training steps: rollouts go on while the learner updates.

With a staleness of k the groups of a step may start k updates before the step trains on them:

    steps done:     0              1              2
    in flight:      1 .. 1+k       2 .. 2+k       3 .. 3+k

Updates happen in step order, each on all groups of its own step, so no token is older than k
updates when it is trained on. Where a group is slow the learner waits for it while the groups of
the next k steps go on. No group is discarded, and which task belongs to which step does not depend
on timing.

The event loop keeps running during an update, so tools, sandboxes and servers are served.
Completions in flight then continue with the new weights from the tokens they have.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from practicum.core.errors import PolicyMismatch
from practicum.core.interfaces import Sampler
from practicum.core.sample import Batch, Bools, Group
from practicum.core.task import JSON
from practicum.core.trace import SampledSpan, Trace
from practicum.training.curriculum import SharedCurriculum, StepTasks
from practicum.training.prefix_tree import training_paths
from practicum.training.rollout_steps import (
    RolloutSteps,
    StepRollouts,
    check_any_usable,
    check_sampled_by,
)
from practicum.training.stages import StepResult


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredStep:
    """A step's groups, and how long the learner and they waited for each other, in seconds."""

    rollouts: StepRollouts
    learner_waited_s: float
    groups_waited_s: float


@dataclass(slots=True)
class OverlappedSteps:
    """A `StepSource` whose groups start up to `staleness` updates before they are trained on."""

    steps: RolloutSteps
    """Rolls out the groups of one step and trains on them."""
    sampler: Sampler
    ledger: SharedCurriculum
    staleness: int
    last: int
    """The stage's last step: no groups are started for later ones."""
    _in_flight: dict[int, "asyncio.Task[tuple[StepRollouts, float]]"] = field(default_factory=dict)
    _weights: "RecentWeights | None" = None

    @property
    def episodes_expected(self) -> int:
        """Those of one step; as many finish while it lasts, of whatever step they are."""
        return self.steps.episodes_expected

    @property
    def is_under_way(self) -> bool:
        """Whether episodes of later steps are in flight."""
        return any(not job.done() for job in self._in_flight.values())

    async def gather(self, step: int) -> GatheredStep:
        """Start the groups of this and the next `staleness` steps; wait for this step's."""
        started = time.monotonic()
        if self._weights is None:
            self._weights = RecentWeights(self.staleness, self.steps.learner.fingerprint())
            self.sampler.forget()
        for ahead in range(step, min(step + self.staleness, self.last) + 1):
            if ahead not in self._in_flight:
                self._in_flight[ahead] = asyncio.create_task(self._roll_out(ahead))
        rollouts, done_at = await self._in_flight[step]
        del self._in_flight[step]
        self.ledger.hand_over(step)
        now = time.monotonic()
        return GatheredStep(
            rollouts=rollouts,
            learner_waited_s=now - started,
            groups_waited_s=max(0.0, now - done_at),
        )

    async def _roll_out(self, step: int) -> tuple[StepRollouts, float]:
        rollouts = await self.steps.roll_out(step, StepTasks(self.ledger, step))
        return rollouts, time.monotonic()

    async def learn(self, step: int, material: GatheredStep) -> StepResult:
        """Update; the event loop keeps running."""
        requested = time.monotonic()

        def update() -> StepResult:
            paused_s = time.monotonic() - requested
            result = self._update(step, material.rollouts)
            # `rollout_s` is only what the learner had to wait; `groups_s` what the groups took.
            result.metrics["rollout_s"] = material.learner_waited_s
            result.metrics["groups_s"] = material.rollouts.seconds
            result.metrics["groups_waited_s"] = material.groups_waited_s
            result.metrics["pause_s"] = paused_s
            return result

        return await self.steps.learner.beside_loop(update)

    def _update(self, step: int, rollouts: StepRollouts) -> StepResult:
        assert self._weights is not None
        started, collected, weights = time.monotonic(), rollouts.collected, self._weights
        check_any_usable(collected)
        current = self.steps.learner.fingerprint()
        if current != weights.current:
            raise PolicyMismatch(
                f"the last update left weights {weights.current} but the learner holds {current}: "
                "something else has changed them; nothing was updated"
            )
        check_sampled_by(current, collected, weights.accepted)
        batches = mark_on_policy(self.steps.batches(step, collected), collected.trained, current)
        result = self.steps.update(batches, rollouts, started)
        result.metrics.update(staleness_metrics(collected.trained, weights))
        weights.updated(self.steps.learner.fingerprint())
        return result

    async def close(self) -> None:
        """Cancel the rollouts in flight; a resumed run starts them again."""
        jobs = list(self._in_flight.values())
        self._in_flight.clear()
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)


class RecentWeights:
    """Fingerprints of the current weights and of those before the last `staleness` updates."""

    def __init__(self, staleness: int, current: str) -> None:
        self._known = deque([current], maxlen=staleness + 1)

    @property
    def current(self) -> str:
        """The weights that the next update starts from."""
        return self._known[-1]

    @property
    def accepted(self) -> frozenset[str]:
        """The weights whose tokens may be trained on now."""
        return frozenset(self._known)

    def updated(self, fingerprint: str) -> None:
        """Record an update; the oldest weights drop out."""
        self._known.append(fingerprint)

    def age(self, fingerprint: str) -> int:
        """Updates since these weights were current; an empty fingerprint counts as current."""
        newest_first = list(self._known)[::-1]
        return newest_first.index(fingerprint) if fingerprint else 0


def mark_on_policy(batches: Sequence[Batch], groups: Iterable[Group], current: str) -> list[Batch]:
    """Set `term_checked`: only terms sampled by the current weights can agree with the learner."""
    by_sample = {
        path.sample_id: _is_on_policy(episode.trace, path.fresh, current)
        for group in groups
        for episode in group.usable
        for path in training_paths(episode.trace)
    }
    marked = []
    for batch in batches:
        checked = np.zeros(batch.term_decision.size, np.bool_)  # (M,)
        for number, key in enumerate(batch.sample_ids):
            checked[batch.term_sample == number] = by_sample[key]
        marked.append(replace(batch, term_checked=checked))
    return marked


def _is_on_policy(trace: Trace, turns: Iterable[int], current: str) -> Bools:
    """For each loss token of the turns, in order, whether the current weights sampled it."""
    spans = [span for i in turns if (span := trace.nodes[i].sampled) is not None]
    return np.repeat(
        [span.fingerprint in ("", current) for span in spans], [sum(s.loss_mask) for s in spans]
    )


def staleness_metrics(groups: Iterable[Group], weights: RecentWeights) -> dict[str, JSON]:
    """Mean and largest age, in updates, of the loss tokens; and the share of age 0.

    All tokens of a turn have the age of its first.
    """
    ages = np.zeros(0, np.int64)
    tokens = np.zeros(0, np.int64)
    for span in _spans(groups):
        ages = np.append(ages, weights.age(span.fingerprint))
        tokens = np.append(tokens, sum(span.loss_mask))
    ages, tokens = ages[tokens > 0], tokens[tokens > 0]
    if not tokens.size:
        return {}
    return {
        "staleness_mean": float((ages * tokens).sum() / tokens.sum()),
        "staleness_max": int(ages.max()),
        "present_share": float(tokens[ages == 0].sum() / tokens.sum()),
    }


def _spans(groups: Iterable[Group]) -> Iterator[SampledSpan]:
    for group in groups:
        for episode in group.usable:
            for turn in episode.trace.turns:
                span = episode.trace.nodes[turn].sampled
                assert span is not None
                yield span
