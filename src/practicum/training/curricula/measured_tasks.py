"""`MeasuredTasks`: a curriculum that draws tasks by bucket and observes how their groups went."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from practicum.core.errors import UserError
from practicum.core.sample import Group
from practicum.core.task import JSON, Task
from practicum.training.curricula.mastery import GroupResult, Mastery, read_result
from practicum.training.curricula.task_sources import DrawnTask, TaskSource

RECENT_DRAWS = 100
"""Draws that the reported shares are of."""

MOST_REPORTED = 10
"""Buckets whose mastery is in a step's metrics."""


class BucketPicker(Protocol):
    """Decides which bucket a task is drawn from."""

    mastery: dict[str, Mastery]
    """How each bucket goes that was observed."""

    def rank(self, buckets: Sequence[str], draw: int, last: Mapping[str, int]) -> list[str]:
        """The buckets a task may be drawn from, best first.

        Args:
            buckets: Those there are.
            draw: The number of this draw, which decides what chance does.
            last: The number of each bucket's last draw; none where it was never drawn.
        """

    def observe(self, bucket: str, result: GroupResult) -> None:
        """Take note of a group's result."""

    def metrics(self) -> dict[str, JSON]:
        """Metrics of its own."""

    def state(self) -> dict[str, JSON]:
        """What a checkpoint must hold for `restore`."""

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Continue from a saved `state`."""


class MeasuredTasks:
    """A `SharedCurriculum` over the buckets of a source; the state is all it depends on.

    Chance comes from the seed and the number of the draw, so there is no generator to save.
    """

    def __init__(self, source: TaskSource, picker: BucketPicker) -> None:
        self._source = source
        self._picker = picker
        self._draws = 0
        self._last: dict[str, int] = {}
        self._recent: deque[str] = deque(maxlen=RECENT_DRAWS)
        self._again: deque[DrawnTask] = deque()
        self._in_flight: dict[int, list[DrawnTask]] = {}
        self._unread: dict[int, list[Group]] = {}
        self._open: dict[str, list[str]] = {}

    def next_tasks(self, count: int) -> list[Task]:
        """The next tasks, without a step: they count as used."""
        return [self._next().task for _ in range(count)]

    def draw(self, step: int, count: int) -> list[Task]:
        """The next tasks for a step; unused until `hand_over(step)`."""
        drawn = [self._next() for _ in range(count)]
        self._in_flight.setdefault(step, []).extend(drawn)
        return [one.task for one in drawn]

    def hand_over(self, step: int) -> None:
        """The step has its groups: they are observed now, so that no state holds half a step."""
        self._in_flight.pop(step, None)
        for group in self._unread.pop(step, []):
            self.observe(group)

    def observe_in(self, step: int, group: Group) -> None:
        """Keep a group for `hand_over(step)`; a step that is never done is never observed."""
        self._unread.setdefault(step, []).append(group)

    def observe(self, group: Group) -> None:
        """Take note of a finished group."""
        buckets = self._open[group.task.id]
        bucket = buckets.pop(0)
        if not buckets:
            del self._open[group.task.id]
        self._picker.observe(bucket, read_result(group))

    def _next(self) -> DrawnTask:
        drawn = self._again.popleft() if self._again else self._choose()
        self._open.setdefault(drawn.task.id, []).append(drawn.bucket)
        return drawn

    def _choose(self) -> DrawnTask:
        buckets = self._source.buckets()
        if self._source.repeats:  # two groups of one task in a step would say one thing twice
            busy = {bucket for under_way in self._open.values() for bucket in under_way}
            buckets = [bucket for bucket in buckets if bucket not in busy] or buckets
        ranked = self._picker.rank(buckets, self._draws, self._last)
        for bucket in ranked:
            drawn = self._source.take(bucket)
            if drawn is not None:
                self._last[bucket] = self._draws
                self._recent.append(bucket)
                self._draws += 1
                return drawn
        raise UserError(
            f"the environment gives no more tasks of {', '.join(ranked)} that the curriculum asks "
            "for; name other levels, or write curriculum: none"
        )

    def metrics(self) -> dict[str, JSON]:
        """Mastery by bucket, shares of the recent draws, and what chance would have drawn."""
        mastery = self._picker.mastery
        metrics = self._picker.metrics()
        metrics["buckets"] = len(self._source.buckets())
        metrics["mastered"] = sum(one.is_mastered for one in mastery.values())
        metrics["forgotten"] = sum(one.is_forgotten for one in mastery.values())
        recent = Counter(self._recent)
        for bucket in self._reported():
            if bucket in mastery:
                metrics[f"mastery_{bucket}"] = mastery[bucket].estimate
            metrics[f"draws_{bucket}"] = recent[bucket] / len(self._recent)
        shares = self._source.shares()
        known = sum(shares.get(bucket, 0.0) for bucket in mastery)
        if known > 0.0:
            flat = sum(shares.get(b, 0.0) * one.flat_share for b, one in mastery.items())
            metrics["uniform_flat_share"] = flat / known
        return metrics

    def _reported(self) -> list[str]:
        """All drawn buckets where they are few, else those with most groups."""
        drawn = [bucket for bucket in self._source.buckets() if bucket in self._last]
        if len(drawn) <= MOST_REPORTED:
            return drawn
        mastery = self._picker.mastery
        groups = {b: mastery[b].seen_groups if b in mastery else 0 for b in drawn}
        return sorted(drawn, key=lambda bucket: -groups[bucket])[:MOST_REPORTED]

    def state(self) -> dict[str, JSON]:
        """Draws, what was observed, where the streams are, and the unused tasks."""
        undone = [one for drawn in self._in_flight.values() for one in drawn] + [*self._again]
        return {
            "draws": self._draws,
            "last": {**self._last},
            "recent": [*self._recent],
            "again": [[one.bucket, one.number] for one in undone],
            "source": self._source.state(),
            "picker": self._picker.state(),
        }

    def restore(self, state: Mapping[str, JSON]) -> None:
        """See `Curriculum.restore`; no step is in flight then."""
        draws, last, recent = state["draws"], state["last"], state["recent"]
        again, source, picker = state["again"], state["source"], state["picker"]
        assert isinstance(draws, int)
        assert isinstance(recent, list)
        assert isinstance(again, list)
        assert isinstance(last, dict)
        assert isinstance(source, dict)
        assert isinstance(picker, dict)
        self._draws = draws
        self._last = {bucket: int(str(number)) for bucket, number in last.items()}
        self._recent = deque(map(str, recent), maxlen=RECENT_DRAWS)
        self._source.restore(source)
        self._picker.restore(picker)
        self._in_flight, self._unread, self._open = {}, {}, {}
        addresses = [tuple(one) for one in again if isinstance(one, list)]
        self._again = deque(self._source.find(str(b), int(str(n))) for b, n in addresses)


def mastery_to_json(mastery: Mapping[str, Mastery]) -> dict[str, JSON]:
    """The sums of all buckets."""
    return {bucket: one.to_json() for bucket, one in mastery.items()}


def mastery_from_json(values: JSON) -> dict[str, Mastery]:
    """See `mastery_to_json`."""
    assert isinstance(values, dict)
    return {bucket: Mastery.from_json(one) for bucket, one in values.items()}
