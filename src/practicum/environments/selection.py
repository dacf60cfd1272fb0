"""What several environments share: the option `level`, and shuffling a fixed list of tasks."""

import random
from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar

from pydantic import field_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.config_sections import ConfigModel
from practicum.core.task import Split, Task


class LevelOptions(ConfigModel):
    """Options with a `level`: one or several of `all_levels`."""

    all_levels: ClassVar[Collection[int]]

    level: int | list[int] = 1

    @field_validator("level", mode="before")
    @classmethod
    def _known_levels(cls, value: Any) -> Any:
        levels = value if isinstance(value, list | tuple) else [value]
        known = [n for n in levels if type(n) is int and n in cls.all_levels]
        if not levels or len(known) < len(levels):
            raise PydanticCustomError(
                "level",
                "levels are 1 to {most}; write one, such as 2, or several, such as [1, 2]",
                {"most": max(cls.all_levels)},
            )
        return value

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels, each once, in order."""
        chosen = [self.level] if isinstance(self.level, int) else self.level
        return tuple(sorted(set(chosen)))


def shuffled(tasks: Sequence[Task], split: Split, seed: int) -> Iterator[Task]:
    """The tasks of one split in an order given by the seed.

    Training tasks repeat without end, in another order each time.
    """
    chosen = [task for task in tasks if task.split == split]
    rng = random.Random(f"{split} {seed}")
    while chosen:
        rng.shuffle(chosen)
        yield from chosen
        if split == "heldout":
            return
