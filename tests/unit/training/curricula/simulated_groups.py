"""Groups without a model: a learner whose chance of success grows with informative groups."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from practicum.core.sample import Episode, Group
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import StopReason, Trace

GROUP = 8


def make_task(name: str, level: int = 1, **data: str) -> Task:
    return Task(id=name, env="e", split="train", level=level, data=data)


def make_group(
    task: Task, solved: Sequence[bool | None], scores: Sequence[float] | None = None
) -> Group:
    values = scores if scores is not None else [float(bool(one)) for one in solved]
    episodes = tuple(
        Episode(
            trace=Trace(
                id=f"{task.id}/{n}", task_id=task.id, env="e", nodes=(), stop=StopReason.FINISHED
            ),
            outcome=Outcome(success=success),
            score=Score(components={"solved": value}),
        )
        for n, (success, value) in enumerate(zip(solved, values, strict=True))
    )
    return Group(task=task, episodes=episodes)


def level_tasks(level: int) -> Iterator[Task]:
    return (make_task(f"L{level}-{n}", level) for n in count())


def is_flat(group: Group) -> bool:
    return len(set(group.values)) == 1


@dataclass
class Learner:
    """Solves a task with a chance of its own, which grows where a group is informative."""

    seed: int
    skill: dict[str, float]
    """Log-odds of success by what is learned; infinite where nothing changes it."""
    rate: float = 0.15
    groups: int = 0
    flat: int = 0
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def chance(self, what: str) -> float:
        odds = self.skill[what]
        return float(odds > 0) if math.isinf(odds) else 1 / (1 + math.exp(-odds))

    def attempt(self, task: Task, what: str) -> Group:
        chance = self.chance(what)
        group = make_group(task, [self.rng.random() < chance for _ in range(GROUP)])
        self.groups += 1
        self.flat += is_flat(group)
        if not is_flat(group):
            self.skill[what] += self.rate
        return group
