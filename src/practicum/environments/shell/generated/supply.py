"""The supply of generated tasks: an endless stream for each split, seed and level."""

import hashlib
import json
import random
import re
from collections.abc import Iterator
from itertools import count
from typing import Literal

from practicum.core.errors import UserError
from practicum.core.task import JSON, Split, Task
from practicum.environments.shell.generated.compose import Composed, compose
from practicum.environments.shell.generated.difficulty import measure_difficulty

__all__ = ["LEVELS", "Series", "generate", "task_from_id"]

ENV = "shell"
LEVELS = tuple(range(1, 9))
"""How many skills a task can be composed of."""

Series = Literal["train", "heldout", "familiar"]
"""Tasks to train on; held-out ones of other templates; and held-out ones of the training templates
with names that no training task has."""

ID = re.compile(r"gen-(train|heldout|familiar)-L(\d+)-s(-?\d+)-(\d+)", re.ASCII)
LONGEST_NUMBER = 18


def generate(series: Series, seed: int, level: int) -> Iterator[Task]:
    """Tasks of one level, without end; none says or sets up the same as an earlier one.

    A task depends only on series, seed, level and its number in the stream, so `task_from_id` can
    make any of them alone. The number of one that was left out as a repetition is not used.
    """
    _require_level(level)
    given: set[bytes] = set()
    for number in count():
        task = _task(series, seed, level, number)
        content = _fingerprint(task)
        if content not in given:
            given.add(content)
            yield task


def task_from_id(task_id: str) -> Task:
    """The task with this id.

    >>> task_from_id("gen-train-L2-s0-17").level
    2
    """
    match = ID.fullmatch(task_id.strip())
    if match is None or any(len(match[at]) > LONGEST_NUMBER for at in (2, 3, 4)):
        raise UserError(
            f"{task_id!r} is not the id of a generated task: such ids are gen-, train, heldout or "
            "familiar, level, seed and number; write one such as 'gen-train-L2-s0-17'"
        )
    level = int(match[2])
    _require_level(level)
    series: Series = "train" if match[1] == "train" else "heldout"
    if match[1] == "familiar":
        series = "familiar"
    return _task(series, int(match[3]), level, int(match[4]))


def _require_level(level: int) -> None:
    if level not in LEVELS:
        raise UserError(
            f"level {level} is not a level of generated shell tasks: levels are 1 to {LEVELS[-1]}, "
            "the number of skills in a task; write one, such as 2"
        )


def _task(series: Series, seed: int, level: int, number: int) -> Task:
    split: Split = "train" if series == "train" else "heldout"
    composed = compose(
        split,
        level,
        random.Random(f"{ENV} {series} {seed} {level} {number}"),
        work_of="train" if series == "familiar" else None,
    )
    return Task(
        id=f"gen-{series}-L{level}-s{seed}-{number}",
        env=ENV,
        split=split,
        level=level,
        instruction=composed.instruction,
        data=_data(composed),
    )


def _data(composed: Composed) -> dict[str, JSON]:
    assertions: list[JSON] = [assertion.to_json() for assertion in composed.assertions]
    data: dict[str, JSON] = {
        "source": "generated",
        "setup": composed.setup,
        "reference": composed.reference,
        "near_misses": list(composed.near_misses),
        "check": {"kind": "state", "assertions": assertions},
        "skills": list(composed.skills),
        "template": "+".join(composed.templates),
        "difficulty": measure_difficulty(
            reference=composed.reference,
            assertions=composed.assertions,
            skills=composed.skills,
            instruction=composed.instruction,
        ),
    }
    return data


def _fingerprint(task: Task) -> bytes:
    """What a task is about, whatever words tell it."""
    return hashlib.sha256(json.dumps([task.data["setup"], task.data["check"]]).encode()).digest()
