"""Tasks by the page, and single ones by what the client knows of them."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from practicum.core.errors import PracticumError
from practicum.core.interfaces import Environment
from practicum.core.task import Split, Task
from practicum.env_server.records import task_from
from practicum.env_server.refusals import Refusal

__all__ = ["TaskPages"]

OPEN_STREAMS = 16
"""Task streams kept at the place where a client left off; an older one is begun again."""

LONGEST_PAGE = 500


class TaskPages:
    """Hands out an environment's tasks; a stream read page by page is generated once."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._streams: OrderedDict[tuple[str, int, int], Iterator[Task]] = OrderedDict()
        self._given: dict[str, int] = {}

    def page(self, split: str, seed: int, offset: int, count: int) -> list[Task]:
        """Tasks `offset` to `offset + count` of a stream; fewer where it ends."""
        if split not in ("train", "heldout"):
            raise Refusal.invalid(f"split {split[:40]!r} is none; ask for train or heldout")
        if offset < 0 or not 1 <= count <= LONGEST_PAGE:
            raise Refusal.invalid(f"offset must be 0 or more and count 1 to {LONGEST_PAGE}")
        stream = self._streams.pop((split, seed, offset), None)
        if stream is None:
            chosen: Split = "train" if split == "train" else "heldout"
            stream = islice(self._environment.tasks(chosen, seed), offset, None)
        tasks = list(islice(stream, count))
        self._streams[split, seed, offset + count] = stream
        while len(self._streams) > OPEN_STREAMS:
            self._streams.popitem(last=False)
        return tasks

    def choose(self, wishes: Mapping[str, Any]) -> Task:
        """The task a client asks for: `task` whole, `task_id`, or a `seed` of a `split`.

        A seed gives the same task every time; without one, each client gets the next task.
        """
        if "task" in wishes:
            return task_from(wishes["task"], self._environment.name)
        if "task_id" in wishes:
            return self.find(str(wishes["task_id"]))
        seed, split = wishes.get("seed"), str(wishes.get("split", "train"))
        if isinstance(seed, bool) or not isinstance(seed, int | None):
            raise Refusal.invalid("seed must be a whole number")
        at = self._given.get(split, 0) if seed is None else 0
        found = self.page(split, seed or 0, at, 1)
        if not found and at:
            at, found = 0, self.page(split, 0, 0, 1)  # all have been given: begin again
        if not found:
            raise Refusal.unknown(f"there are no {split} tasks with these options")
        if seed is None:
            self._given[split] = at + 1
        return found[0]

    def find(self, text: str) -> Task:
        """The task with an id, or what the environment makes of a text."""
        find = getattr(self._environment, "find", None)
        if find is None:
            raise Refusal.invalid(
                f"{self._environment.name!r} cannot look up tasks by id; send a whole task, as "
                "GET /tasks gives it"
            )
        try:
            found: Task = find(text)
        except (PracticumError, ValueError, KeyError) as error:
            raise Refusal.unknown(f"no task {text[:80]!r}: {error}") from None
        return found
