"""The episodes of one step: groups worth training on, and a count of those that were not."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from practicum.core.interfaces import Algorithm, Curriculum
from practicum.core.sample import Group
from practicum.core.task import Task

__all__ = ["CollectedStep", "collect_step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedStep:
    """Everything that was rolled out in a step."""

    trained: tuple[Group, ...]
    """The groups there is something to learn from."""
    groups: tuple[Group, ...]
    """All groups, those without variance included."""

    @property
    def flat_share(self) -> float:
        """Share of groups that had nothing to compare."""
        return 1.0 - len(self.trained) / len(self.groups)


async def collect_step(
    roll_out: Callable[[list[Task], int], Awaitable[list[Group]]],
    curriculum: Curriculum,
    algorithm: Algorithm,
    *,
    tasks_per_step: int,
    replace_share: float,
) -> CollectedStep:
    """Roll out groups until `tasks_per_step` can be trained on or the budget of extras is spent.

    Args:
        roll_out: Makes a group for each task; told which round of the step it is.
        curriculum: Gives the tasks.
        algorithm: Says which groups have something to learn from.
        tasks_per_step: Groups wanted.
        replace_share: Extra groups allowed, as a share of `tasks_per_step`.
    """
    trained: list[Group] = []
    groups: list[Group] = []
    extras = math.ceil(replace_share * tasks_per_step)
    wanted, rounds = tasks_per_step, 0
    while wanted > 0:
        made = await roll_out(curriculum.next_tasks(wanted), rounds)
        for group in made:
            curriculum.observe(group)
            if algorithm.is_informative(group):
                trained.append(group)
        groups += made
        wanted = min(tasks_per_step - len(trained), extras)
        extras -= wanted
        rounds += 1
    return CollectedStep(trained=tuple(trained), groups=tuple(groups))
