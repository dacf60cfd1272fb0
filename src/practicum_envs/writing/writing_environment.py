"""The `writing` environment: texts for briefs whose demands can be checked."""

import re
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar, Literal

from practicum.core.errors import UserError
from practicum.core.task import Outcome, Split, Task
from practicum.environments.selection import LevelOptions
from practicum_envs.writing.brief_generator import ENV, FAMILIES, LEVELS, draw_task, draw_tasks
from practicum_envs.writing.hack_probes import near_misses
from practicum_envs.writing.language_checks import require_libraries
from practicum_envs.writing.reference_turns import reference_turns
from practicum_envs.writing.writing_session import FULL_MARKS, WritingSession
from practicum_envs.writing.writing_turns import turn_from_line

ID = re.compile(r"writing-(train|heldout)-(\d)-([a-z-]+)-(\d+)")


class WritingOptions(LevelOptions):
    """Options of the `writing` environment."""

    level: int | list[int] = 1
    """1: a short note; 2: a draft to mend; 3: a letter by an outline; 4: a longer text from notes;
    or several levels, evenly mixed."""
    heldout: Literal["kinds", "names"] = "kinds"
    """What held-out tasks have that no training task has: `kinds`, other families of texts;
    `names`, the same families with other topics, names and places."""

    all_levels: ClassVar[Collection[int]] = LEVELS


class WritingEnvironment:
    """Texts written for briefs; implements `Environment`.

    >>> environment = WritingEnvironment(WritingOptions())
    >>> environment.reference(environment.find("writing-train-1-notice-1"))[-1]
    'hand_in'
    """

    name: str = ENV
    Options: ClassVar[type[WritingOptions]] = WritingOptions
    all_levels: ClassVar[tuple[int, ...]] = tuple(LEVELS)

    def __init__(self, options: WritingOptions) -> None:
        require_libraries()
        self._options = options

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Tasks without end, family by family, the levels evenly mixed."""
        is_kept = split == "train" or self._options.heldout == "names"
        return draw_tasks(self._options.levels, "train" if is_kept else "heldout", split, seed)

    def open(self, task: Task) -> AbstractAsyncContextManager[WritingSession]:
        """Start one episode of a task."""
        return self._session(task)

    @asynccontextmanager
    async def _session(self, task: Task) -> AsyncIterator[WritingSession]:
        session = WritingSession(task)
        try:
            yield session
        finally:
            session.close()

    def reference(self, task: Task) -> Sequence[str]:
        """The turns that earn full marks."""
        return reference_turns(task)

    def full_marks(self, task: Task) -> float:
        """What the reference earns, which no episode can exceed."""
        return FULL_MARKS

    def near_misses(self, task: Task) -> Sequence[Sequence[str]]:
        """Texts that are wrong in one thing, and texts that only look like one."""
        return near_misses(task)

    def turn_from_line(self, line: str) -> str:
        """A typed line as a turn: `write`, `add`, `edit OLD => NEW`, `outline`, `ideas`, `done`."""
        return turn_from_line(line)

    def solution(self, outcome: Outcome) -> str:
        """The text."""
        return str(outcome.evidence.get("text", ""))

    def find(self, text: str) -> Task:
        """The task with this id."""
        found = ID.fullmatch(text.strip())
        if found is None or found[3] not in FAMILIES or int(found[2]) not in LEVELS:
            raise UserError(
                f"there is no task {text!r}; an id looks like writing-train-1-notice-7; list tasks "
                "with practicum tasks writing"
            )
        side: Split = "train" if found[1] == "train" else "heldout"
        return draw_task(int(found[2]), FAMILIES[found[3]], side, int(found[4]))
