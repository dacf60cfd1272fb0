"""The adaptive sampler: weight goes to the buckets whose next groups are worth most.

What the groups of a bucket are worth (`GroupResult.worth`) has a Beta posterior. Each draw takes a
sample from every posterior, so weight is where groups have variance and where little is known. Of
levels, which build on one another, the one with the highest sample is drawn (Thompson sampling). Of
families, skills and tasks each is drawn in proportion to its sample: they do not build on one
another, and the one that varies most, should it never be learned, would take half of all draws.

Buckets that were never tried share one posterior, that of first
groups, and so do those whose groups are flat: among a hundred posteriors of their own one would
always have a high sample by chance. So do those that were never solved though their scores differ;
of these the easiest level goes first, since pay without success is easiest come by where success is
far. Three things keep it from settling:

- what groups were worth fades, by groups of the bucket and slowly by those of all others;
- every so many draws the bucket that has waited longest gets one, whatever is known of it, so that
  what was impossible is tried again;
- a bucket that was mastered and is no more gets a share of its own until it is mastered again.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from practicum.core.config.curriculum_config import AdaptiveConfig
from practicum.core.task import JSON
from practicum.training.curricula.mastery import GroupResult, Mastery
from practicum.training.curricula.measured_tasks import mastery_from_json, mastery_to_json

PRIOR_GROUPS = 2.0
"""Groups that the prior of a bucket counts for; its mean is that of all buckets."""

PRIOR_RANGE = (0.1, 0.9)
"""Bounds of that mean: not even where everything was flat is the next bucket surely so."""

MASTERED_WORTH = 0.5
"""Factor for a mastered bucket, so that weight moves on before its groups are all flat."""

FLAT_WORTH = 0.25
"""Worth, in groups, below which a bucket's groups count as flat: two memories after one that
taught something."""

SHARED = ("new", "unsolved", "flat")
"""Kinds of buckets that share a posterior."""

LEAST_WORTH = 1e-3
"""Below what a sample counts as this much, so that each bucket has its place in the order."""

POOL_MEMORY = 32.0
"""Groups after which a group counts half in what buckets share."""


@dataclass(slots=True, kw_only=True)
class SharedWorth:
    """What the groups of many buckets are worth, taken together."""

    worth: float = 0.0
    flat: float = 0.0

    def observe(self, worth: float) -> None:
        """Take in a group; those before it fade."""
        factor = 0.5 ** (1.0 / POOL_MEMORY)
        self.worth = self.worth * factor + worth
        self.flat = self.flat * factor + 1.0 - worth

    def sample(self, rng: random.Random) -> float:
        """One sample of the posterior, whose prior is uniform."""
        return rng.betavariate(1.0 + self.worth, 1.0 + self.flat)


def _in_proportion(
    worth: Mapping[str, float], of_flat: float, flat: Sequence[str], rng: random.Random
) -> list[str]:
    """Buckets as they are drawn without replacement, by weight; all that are flat weigh as one.

    The largest of `log(u) / weight` is each with the chance of its share (Efraimidis and Spirakis).
    """
    weights = [*((weight, [bucket]) for bucket, weight in worth.items()), (of_flat, flat)]
    keys = [(math.log(1.0 - rng.random()) / max(w, LEAST_WORTH), part) for w, part in weights]
    return [bucket for _, part in sorted(keys, reverse=True) for bucket in part]


class AdaptivePicker:
    """A `BucketPicker` that puts weight where groups have variance."""

    def __init__(self, config: AdaptiveConfig, seed: int, *, ordered: bool = False) -> None:
        """`ordered` says that buckets come from easy to hard."""
        self._config = config
        self._seed = seed
        self._ordered = ordered
        self._observed = 0
        self._shared = {kind: SharedWorth() for kind in SHARED}
        self._every = max(1, round(1 / config.explore))
        self.mastery: dict[str, Mastery] = {}

    def rank(self, buckets: Sequence[str], draw: int, last: Mapping[str, int]) -> list[str]:
        """The longest waiting, the forgotten, or an order by one sample from each posterior."""
        waiting = sorted(buckets, key=lambda bucket: last.get(bucket, -1))
        if draw % self._every == self._every - 1:
            return waiting
        rng = random.Random(f"adaptive {self._seed} {draw}")
        is_replay = rng.random() < self._config.replay
        forgotten = [b for b in waiting if b in self.mastery and self.mastery[b].is_forgotten]
        if is_replay and forgotten:
            return [*forgotten, *(bucket for bucket in waiting if bucket not in forgotten)]
        kinds = {b: self._kind(b) if b in last else "new" for b in waiting}
        parts = {kind: [b for b in waiting if kinds[b] == kind] for kind in SHARED}
        mean = self._mean_worth()
        worth = {b: self._sample(b, mean, rng) for b in waiting if not kinds[b]}
        shared = {kind: self._shared[kind].sample(rng) for kind in SHARED}
        if not self._ordered:
            worth |= {b: shared[kind] for b, kind in kinds.items() if kind in ("new", "unsolved")}
            return _in_proportion(worth, shared["flat"], parts["flat"], rng)
        parts["unsolved"].sort(key=buckets.index)
        ranked = [(sample, [b]) for b, sample in worth.items()]
        ranked += [(shared[kind], part) for kind, part in parts.items()]
        ranked.sort(key=lambda pair: -pair[0])
        return [bucket for _, part in ranked for bucket in part]

    def _kind(self, bucket: str) -> str:
        """Which shared posterior a drawn bucket has; empty where it has its own."""
        seen = self.mastery.get(bucket)
        if seen is None:
            return ""
        if self._faded(seen)[0] < FLAT_WORTH:
            return "flat"
        return "unsolved" if seen.estimate == 0.0 else ""

    def _sample(self, bucket: str, mean: float, rng: random.Random) -> float:
        seen = self.mastery.get(bucket, Mastery())
        worth, flat = self._faded(seen)
        prior = PRIOR_GROUPS * mean
        drawn = rng.betavariate(prior + worth, PRIOR_GROUPS - prior + flat)
        return drawn * (MASTERED_WORTH if seen.is_mastered else 1.0)

    def _faded(self, seen: Mastery) -> tuple[float, float]:
        """What a bucket's groups were worth and were not, faded by those of others since."""
        fresh = self._freshness(seen)
        return seen.worth * fresh, (seen.judged - seen.worth) * fresh

    def _freshness(self, seen: Mastery) -> float:
        # Of as many groups as there are buckets each would have one without a curriculum: a group
        # of others therefore fades as much less.
        age = (self._observed - seen.at) / (self._config.memory * max(1, len(self.mastery)))
        return float(0.5**age)

    def _mean_worth(self) -> float:
        """Mean worth of all groups, as far as they still count."""
        judged = math.fsum(one.judged for one in self.mastery.values())
        worth = math.fsum(one.worth for one in self.mastery.values())
        low, high = PRIOR_RANGE
        return min(high, max(low, worth / judged)) if judged > 0.0 else 0.5

    def observe(self, bucket: str, result: GroupResult) -> None:
        """Take in a group; promote or demote its bucket."""
        config = self._config
        kind = self._kind(bucket) if bucket in self.mastery else "new"
        self._observed += 1
        seen = self.mastery.setdefault(bucket, Mastery(at=self._observed))
        seen.fade_worth(self._freshness(seen))
        worth = seen.observe(result, config.memory)
        seen.judge(config.threshold, config.min_episodes)
        seen.at = self._observed
        if kind:
            self._shared[kind].observe(worth)

    def metrics(self) -> dict[str, JSON]:
        """None of its own."""
        return {}

    def state(self) -> dict[str, JSON]:
        """The counts and the buckets' sums."""
        return {
            "observed": self._observed,
            "shared": {kind: asdict(one) for kind, one in self._shared.items()},
            "mastery": mastery_to_json(self.mastery),
        }

    def restore(self, state: Mapping[str, JSON]) -> None:
        """See `BucketPicker.restore`."""
        saved: dict[str, Any] = dict(state)
        self._observed = saved["observed"]
        self._shared = {kind: SharedWorth(**saved["shared"][kind]) for kind in SHARED}
        self.mastery = mastery_from_json(saved["mastery"])
