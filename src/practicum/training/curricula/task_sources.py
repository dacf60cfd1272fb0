"""Where tasks of a bucket come from: a stream for each level, or the environment's own stream.

A task's address is its bucket and a number in a stream, so that a resumed run finds it again.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple, Protocol

from practicum.core.errors import UserError
from practicum.core.task import JSON, Task
from practicum.training.curriculum import endless

LOOKAHEAD = 512
"""Tasks that are held to choose from, and the most that are read in search of one."""


class DrawnTask(NamedTuple):
    """A task and its address."""

    bucket: str
    number: int
    task: Task


class TaskSource(Protocol):
    """Gives tasks by bucket."""

    @property
    def repeats(self) -> bool:
        """Whether a bucket is one task, which is given again and again."""

    def buckets(self) -> list[str]:
        """The buckets known now, always in the same order."""

    def shares(self) -> Mapping[str, float]:
        """The share of each bucket without a curriculum."""

    def take(self, bucket: str) -> DrawnTask | None:
        """The next task of a bucket; None when none is near."""

    def state(self) -> dict[str, JSON]:
        """What a checkpoint must hold for `restore`."""

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Continue from a saved `state`."""

    def find(self, bucket: str, number: int) -> DrawnTask:
        """The task with an address."""


class EndlessStream:
    """A stream of tasks that starts again where it ends, and its position."""

    def __init__(self, open_stream: Callable[[], Iterator[Task]]) -> None:
        self._open = open_stream
        self._tasks = endless(self._open)
        self.read = 0

    def next(self) -> Task:
        """The next task."""
        task = next(self._tasks, None)
        if task is None:
            raise UserError("the environment has no training tasks; look at its options")
        self.read += 1
        return task

    def skip_to(self, position: int) -> None:
        """Go on after so many tasks of the beginning."""
        self._tasks, self.read = endless(self._open), position
        next(islice(self._tasks, position - 1, position), None) if position else None

    def at(self, number: int) -> Task:
        """The task with this number, from the beginning; the position stays."""
        return next(islice(endless(self._open), number, None))


def level_bucket(level: int) -> str:
    """The name of a level's bucket."""
    return f"level_{level}"


class LevelStreams:
    """A `TaskSource` with one stream for each level."""

    repeats = False

    def __init__(self, open_streams: Mapping[int, Callable[[], Iterator[Task]]]) -> None:
        self._streams = {level_bucket(n): EndlessStream(one) for n, one in open_streams.items()}

    def buckets(self) -> list[str]:
        """One for each level."""
        return list(self._streams)

    def shares(self) -> Mapping[str, float]:
        """Levels are evenly mixed without a curriculum."""
        return dict.fromkeys(self._streams, 1 / len(self._streams))

    def take(self, bucket: str) -> DrawnTask | None:
        """The next task of the level."""
        stream = self._streams[bucket]
        return DrawnTask(bucket, stream.read, stream.next())

    def state(self) -> dict[str, JSON]:
        """How many tasks of each level were read."""
        return {"read": {bucket: stream.read for bucket, stream in self._streams.items()}}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """See `TaskSource.restore`."""
        read = state["read"]
        assert isinstance(read, dict)
        for bucket, stream in self._streams.items():
            position = read[bucket]
            assert isinstance(position, int)
            stream.skip_to(position)

    def find(self, bucket: str, number: int) -> DrawnTask:
        """See `TaskSource.find`."""
        return DrawnTask(bucket, number, self._streams[bucket].at(number))


class LookAhead:
    """A `TaskSource` that looks ahead in the environment's stream and holds tasks to choose from.

    At most `LOOKAHEAD` tasks are held; beyond that, the oldest of the bucket with most is passed
    over, so that a rare bucket is never pushed out by a common one.
    """

    repeats = False

    def __init__(
        self, open_stream: Callable[[], Iterator[Task]], bucket_of: Callable[[Task], str]
    ) -> None:
        self._stream = EndlessStream(open_stream)
        self._bucket_of = bucket_of
        self._seen: Counter[str] = Counter()
        self._held: dict[str, deque[tuple[int, Task]]] = {}
        for _ in range(LOOKAHEAD):
            self._read()

    def _read(self) -> str:
        number, task = self._stream.read, self._stream.next()
        bucket = self._bucket_of(task)
        self._seen[bucket] += 1
        self._held.setdefault(bucket, deque()).append((number, task))
        if sum(map(len, self._held.values())) > LOOKAHEAD:
            most = max(self._held, key=lambda b: (len(self._held[b]), -self._held[b][0][0]))
            self._held[most].popleft()
            if not self._held[most]:
                del self._held[most]
        return bucket

    def buckets(self) -> list[str]:
        """Those seen so far, in the order of their names, a level 2 before a level 10."""
        return sorted(self._seen, key=lambda bucket: (len(bucket), bucket))

    def shares(self) -> Mapping[str, float]:
        """The shares of the tasks read so far."""
        return {bucket: count / self._stream.read for bucket, count in self._seen.items()}

    def take(self, bucket: str) -> DrawnTask | None:
        """The bucket's oldest task that is held, or the first that comes within reach."""
        self._read()  # at least one, so that buckets never seen before come in
        for _ in range(LOOKAHEAD):
            if bucket in self._held:
                break
            self._read()
        else:
            return None
        number, task = self._held[bucket].popleft()
        if not self._held[bucket]:
            del self._held[bucket]
        return DrawnTask(bucket, number, task)

    def state(self) -> dict[str, JSON]:
        """How many tasks were read, and the numbers of those held."""
        held = sorted(number for tasks in self._held.values() for number, _ in tasks)
        return {"read": self._stream.read, "held": [*held]}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Read the stream again up to the position."""
        read, held = state["read"], state["held"]
        assert isinstance(read, int)
        assert isinstance(held, list)
        wanted = set(held)
        self._stream.skip_to(0)
        self._seen, self._held = Counter(), {}
        for number in range(read):
            task = self._stream.next()
            bucket = self._bucket_of(task)
            self._seen[bucket] += 1
            if number in wanted:
                self._held.setdefault(bucket, deque()).append((number, task))

    def find(self, bucket: str, number: int) -> DrawnTask:
        """See `TaskSource.find`."""
        return DrawnTask(bucket, number, self._stream.at(number))


class TaskCatalogue:
    """A `TaskSource` for tasks that repeat: each is a bucket, and can be given at any time.

    It begins with what lies within `LOOKAHEAD` and grows by reading one more task with each draw.
    """

    repeats = True

    def __init__(self, open_stream: Callable[[], Iterator[Task]]) -> None:
        self._stream = EndlessStream(open_stream)
        self._tasks: dict[str, tuple[int, Task]] = {}
        self._read_to(LOOKAHEAD)

    def _read_to(self, position: int) -> None:
        while self._stream.read < position:
            number, task = self._stream.read, self._stream.next()
            self._tasks.setdefault(f"task_{task.id}", (number, task))

    def buckets(self) -> list[str]:
        """One for each task seen so far, in the order of the stream."""
        return list(self._tasks)

    def shares(self) -> Mapping[str, float]:
        """Without a curriculum all tasks come equally often."""
        return dict.fromkeys(self._tasks, 1 / len(self._tasks))

    def take(self, bucket: str) -> DrawnTask | None:
        """The task."""
        self._read_to(self._stream.read + 1)
        return DrawnTask(bucket, *self._tasks[bucket])

    def state(self) -> dict[str, JSON]:
        """How many tasks were read."""
        return {"read": self._stream.read}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Read the stream again up to the position."""
        read = state["read"]
        assert isinstance(read, int)
        self._stream.skip_to(0)
        self._tasks = {}
        self._read_to(read)

    def find(self, bucket: str, number: int) -> DrawnTask:
        """See `TaskSource.find`."""
        return DrawnTask(bucket, *self._tasks[bucket])
