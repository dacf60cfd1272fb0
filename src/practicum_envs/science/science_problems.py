"""The tasks: worlds in which the honest experimenter is not misled, by number and by id.

Noise misleads everyone now and then. A world in which the reference does not come to full marks is
left out, and the next of its numbers' draws is taken instead.
"""

import random
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count

from practicum.core.errors import UserError
from practicum.core.task import Split, Task
from practicum_envs.science.briefing import instruction
from practicum_envs.science.conclusion_scoring import FULL_MARKS
from practicum_envs.science.experimenter import reference_turns
from practicum_envs.science.laboratory import Laboratory
from practicum_envs.science.law_spaces import LEVELS
from practicum_envs.science.subjects import SUBJECTS
from practicum_envs.science.worlds import World, draw_world, world_from

ENV = "science"
ID = re.compile(rf"{ENV}-(train|heldout)-([a-z]+)-L(\d+)-s(-?\d+)-(\d+)")
MOST_DRAWS = 1000
"""Of a number's worlds; more than 80 of 100 are fair, so that this many fail only by a mistake."""
EARNED = 1e-9
"""Below full marks by no more than this is full marks."""


def is_fair(world: World) -> bool:
    """Whether the honest experimenter earns full marks and succeeds."""
    laboratory = Laboratory(world)
    earned = sum(laboratory.act(turn).pay for turn in reference_turns(world))
    verdict = laboratory.verdict
    return verdict is not None and verdict.succeeds and earned > FULL_MARKS - EARNED


def world_of(task: Task) -> World:
    """The world of a task."""
    return world_from(task.level, task.data)


@lru_cache(maxsize=4096)
def task_of(split: Split, family: str, level: int, seed: int, number: int) -> Task:
    """The task of a split, a family, a level, a seed and a number."""
    seeds = (f"{split} {seed} {number} {n}" for n in range(MOST_DRAWS))
    draws = (draw_world(level, family, one) for one in seeds)
    world = next((one for one in draws if one.split == split and is_fair(one)), None)
    if world is None:
        raise RuntimeError(f"no world of {family!r} at level {level} is fair to its reference")
    return Task(
        id=f"{ENV}-{split}-{family}-L{level}-s{seed}-{number}",
        env=ENV,
        split=split,
        level=level,
        instruction=instruction(world.brief),
        data=world.to_data(),
    )


def generate(
    split: Split, families: Sequence[str], levels: Sequence[int], seed: int
) -> Iterator[Task]:
    """Tasks without end: each family at each level in turn, in an order given by the seed."""
    order = random.Random(f"{ENV} {split} {seed}")
    pairs = [(family, level) for level in levels for family in families]
    for number in count():
        order.shuffle(pairs)
        for family, level in pairs:
            yield task_of(split, family, level, seed, number)


def find_task(text: str) -> Task:
    """The task with this id."""
    found = ID.fullmatch(text.strip())
    split: Split = "heldout" if found and found[1] == "heldout" else "train"
    family, level = (found[2], int(found[3])) if found else ("", 0)
    is_known = family in SUBJECTS and level in LEVELS
    if not found or not is_known or (split == "train" and SUBJECTS[family].split == "heldout"):
        raise UserError(
            f"there is no task {text!r} of science; write one such as "
            f"{ENV}-train-plants-L1-s0-0, or list tasks for their ids"
        )
    return task_of(split, family, level, int(found[4]), int(found[5]))
