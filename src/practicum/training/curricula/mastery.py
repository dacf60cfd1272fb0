"""How well a bucket of tasks goes: its success with an interval, and what its groups are worth.

A bucket is a level, a skill or a single task. Recent groups count more: each new group halves the
weight of one that lies `memory` groups back. All is kept in a few sums, so that the state of a
bucket is a handful of numbers.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from practicum.core.sample import Group
from practicum.core.task import JSON
from practicum.stats.differences import differ
from practicum.stats.intervals import wilson_interval

PARTIAL_WORTH = 0.5
"""Worth of a group whose scores differ though all its episodes succeed, or all fail: there is
something to learn from it, but not what decides between solved and not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """What a curriculum reads of a group."""

    worth: float | None
    """1: some episodes succeed and some fail, or success is unknown and scores differ; 0: flat.
    None for a single episode, which has nothing to differ from."""
    success: float | None
    """Share of the episodes that succeed; None where unknown."""
    episodes: int
    """Episodes whose success is known."""
    says_success: bool = True
    """Whether it was asked: a group that was given a part, or lost, says nothing of success."""


def read_result(group: Group) -> GroupResult:
    """The result of a group; one of which no episode can be used taught nothing.

    What a jump-started group does with the rest of its tasks says nothing of success at them.
    """
    usable = group.usable
    if not usable:
        return GroupResult(worth=0.0, success=None, episodes=0, says_success=False)
    outcomes = [e.outcome.success for e in usable if e.outcome is not None]
    known = [success for success in outcomes if success is not None and not group.is_jump_started]
    success = sum(known) / len(known) if known else None
    worth: float | None = None
    if len(usable) > 1:
        is_decided = success is None or 0.0 < success < 1.0
        worth = (1.0 if is_decided else PARTIAL_WORTH) if differ(group.values) else 0.0
    return GroupResult(
        worth=worth,
        success=success,
        episodes=len(known),
        says_success=not group.is_jump_started,
    )


@dataclass(slots=True, kw_only=True)
class Mastery:
    """The faded sums of one bucket; `w` is a group's weight, `s` the share of it that succeeds."""

    groups: float = 0.0
    """Sum of w, over groups whose success is known."""
    squares: float = 0.0
    """Sum of w²."""
    success: float = 0.0
    """Sum of w s."""
    spread: float = 0.0
    """Sum of w s²."""
    episodes: float = 0.0
    """Sum of w times the group's episodes."""
    judged: float = 0.0
    """Sum of w, over all groups."""
    worth: float = 0.0
    """Sum of w times the group's worth."""
    flat: float = 0.0
    """Sum of w over flat groups."""
    seen_groups: int = 0
    """Groups ever, not faded."""
    seen_episodes: int = 0
    """Episodes of known success ever."""
    at: int = 0
    """When it was last observed, counted in groups of all buckets."""
    is_mastered: bool = False
    is_forgotten: bool = False
    """Was mastered before, and is not any more."""

    @property
    def estimate(self) -> float | None:
        """Success; None before any is known."""
        return self.success / self.groups if self.groups > 0.0 else None

    @property
    def flat_share(self) -> float:
        """Share of flat groups."""
        return self.flat / self.judged if self.judged > 0.0 else 0.0

    def fade_worth(self, factor: float) -> None:
        """Let what the groups so far were worth count less."""
        self.judged *= factor
        self.worth *= factor
        self.flat *= factor

    def _fade_success(self, factor: float) -> None:
        self.groups *= factor
        self.squares *= factor * factor
        self.success *= factor
        self.spread *= factor
        self.episodes *= factor

    def observe(self, result: GroupResult, memory: float) -> float:
        """Take in one group, and say what it is worth; those before it fade."""
        worth = result.worth
        if worth is None:
            worth = self._surprise(result.success)
        factor = 0.5 ** (1.0 / memory)
        self.fade_worth(factor)
        self.judged += 1.0
        self.worth += worth
        self.flat += worth == 0.0
        self.seen_groups += 1
        if result.success is not None:
            self._fade_success(factor)
            self.groups += 1.0
            self.squares += 1.0
            self.success += result.success
            self.spread += result.success**2
            self.episodes += result.episodes
            self.seen_episodes += result.episodes
        return worth

    def _surprise(self, success: float | None) -> float:
        """Worth of a single episode: how far it is from those before it."""
        if success is None or self.estimate is None:
            return PARTIAL_WORTH
        return abs(success - self.estimate)

    def bounds(self) -> tuple[float, float] | None:
        """Ends of a 95 % interval of success, clustered by group; None before any is known.

        Episodes of a group share a task, so they agree more than independent trials would. The
        number of trials lies between that of the groups and that of the episodes, by the variance
        between groups; the fewer failures (or successes) there are, the less that variance says,
        and the nearer it is to the number of groups.
        """
        share = self.estimate
        if share is None:
            return None
        count = self.groups**2 / self.squares  # as many groups of equal weight say as much (Kish)
        rarer = count * min(share, 1 - share)
        trust = rarer**2 / (rarer**2 + 1) if count > 1 else 0.0
        agreement = 1.0
        if trust > 0.0:
            between = (self.spread / self.groups - share**2) * count / (count - 1)
            seen = between / (share * (1 - share))
            fewest = self.groups / self.episodes
            agreement = trust * min(1.0, max(seen, fewest)) + 1 - trust
        return wilson_interval(min(1.0, max(0.0, share)), count / agreement)

    def judge(self, threshold: float, min_episodes: int) -> None:
        """Promote by the lower end of the interval, demote by the upper."""
        bounds = self.bounds()
        if bounds is None or self.seen_episodes < min_episodes:
            return
        low, high = bounds
        if low >= threshold:
            self.is_mastered, self.is_forgotten = True, False
        elif high < threshold and self.is_mastered:
            self.is_mastered, self.is_forgotten = False, True

    def to_json(self) -> dict[str, JSON]:
        """For a checkpoint."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: JSON) -> "Mastery":
        """From a checkpoint."""
        assert isinstance(values, Mapping)
        known: dict[str, Any] = dict(values)
        return cls(**known)
