"""Generates shell tasks: an endless stream for each seed, composed of steps from templates."""

import hashlib
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal, cast

from practicum.core.errors import UserError
from practicum.core.task import JSON, Split, Task
from practicum_envs.shell.generated import (
    account_tasks,
    archive_tasks,
    combined_tasks,
    file_tasks,
    link_tasks,
    permission_tasks,
    process_tasks,
    text_tasks,
    writing_tasks,
)
from practicum_envs.shell.generated.assertions import Assertion
from practicum_envs.shell.generated.material import instruct
from practicum_envs.shell.generated.step import Step, Template
from practicum_envs.shell.generated.task_draft import TaskDraft

TEMPLATES: tuple[Template, ...] = (
    *account_tasks.TEMPLATES,
    *archive_tasks.TEMPLATES,
    *combined_tasks.TEMPLATES,
    *text_tasks.EDITING_TEMPLATES,
    *file_tasks.TEMPLATES,
    *file_tasks.FINDING_TEMPLATES,
    *account_tasks.GROUP_TEMPLATES,
    *link_tasks.TEMPLATES,
    *permission_tasks.TEMPLATES,
    *process_tasks.TEMPLATES,
    *text_tasks.TEMPLATES,
    *writing_tasks.TEMPLATES,
)
"""In a fixed order: a seed draws by position, so another order would give other tasks."""

ENV = "shell"
LEVELS = tuple(range(1, 9))
"""How many skills a task can be composed of."""

Series = Literal["train", "heldout", "familiar"]
"""`heldout` has templates that `train` does not; `familiar` is held out too, with the templates of
`train` and names that no training task has."""

ID = re.compile(r"gen-(train|heldout|familiar)-L(\d+)-s(-?\d+)-(\d+)", re.ASCII)
LONGEST_NUMBER = 18
MOST_NEAR_MISSES = 5


@dataclass(frozen=True, kw_only=True)
class ComposedTask:
    """A whole task without its id."""

    instruction: str
    setup: str
    reference: str
    near_misses: tuple[str, ...]
    assertions: tuple[Assertion, ...]
    skills: tuple[str, ...]
    templates: tuple[str, ...]


def generate(series: Series, seed: int, level: int) -> Iterator[Task]:
    """Endless tasks of one level, without duplicates.

    A task depends only on series, seed, level and its number in the stream, so `task_from_id` can
    make it alone. The number of a duplicate is skipped.
    """
    _require_level(level)
    given: set[bytes] = set()
    for number in count():
        task = _task(series, seed, level, number)
        digest = _fingerprint(task)
        if digest not in given:
            given.add(digest)
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
    return _task(cast(Series, match[1]), int(match[3]), level, int(match[4]))


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
        templates_from="train" if series == "familiar" else None,
    )
    return Task(
        id=f"gen-{series}-L{level}-s{seed}-{number}",
        env=ENV,
        split=split,
        level=level,
        instruction=composed.instruction,
        data={
            "source": "generated",
            "setup": composed.setup,
            "reference": composed.reference,
            "near_misses": list(composed.near_misses),
            "check": {"kind": "state", "assertions": [a.to_json() for a in composed.assertions]},
            "skills": list(composed.skills),
            "template": "+".join(composed.templates),
            "difficulty": measure_difficulty(
                reference=composed.reference,
                assertions=composed.assertions,
                skills=composed.skills,
                instruction=composed.instruction,
            ),
        },
    )


def _fingerprint(task: Task) -> bytes:
    """Digest of set-up and check: tasks that differ only in wording are duplicates."""
    return hashlib.sha256(json.dumps([task.data["setup"], task.data["check"]]).encode()).digest()


def templates_of(split: Split) -> tuple[Template, ...]:
    """The templates that only this split uses."""
    return tuple(template for template in TEMPLATES if template.split == split)


def choose_templates(split: Split, count: int, rng: random.Random) -> list[Template]:
    """Templates that together use `count` skills, each once, sorted by stage.

    Skills are drawn first, so that each is equally likely however many templates it has.
    """
    offered = templates_of(split)
    chosen: list[Template] = []
    left = count
    while left:
        used = {skill for template in chosen for skill in template.skills}
        fitting = [
            template
            for template in offered
            if len(template.skills) <= left and not used.intersection(template.skills)
        ]
        skill = rng.choice(sorted({skill for template in fitting for skill in template.skills}))
        template = rng.choice([template for template in fitting if skill in template.skills])
        chosen.append(template)
        left -= len(template.skills)
    rng.shuffle(chosen)
    return sorted(chosen, key=lambda template: template.stage)


def compose(
    split: Split, level: int, rng: random.Random, *, templates_from: Split | None = None
) -> ComposedTask:
    """A task of `level` skills with the names of `split`.

    Its templates are those of `templates_from`, or of the same split where that is None.
    """
    templates = choose_templates(templates_from or split, level, rng)
    draft = TaskDraft(split, rng)
    steps = [template.make(draft) for template in templates]
    return ComposedTask(
        instruction=instruct([step.instruction for step in steps], rng, draft.known_root),
        setup="\n".join(["set -e", "umask 022", *draft.setup]) + "\n",
        reference=_script([step.reference for step in steps]),
        near_misses=near_misses_of(steps, rng),
        assertions=_each_once([a for step in steps for a in step.assertions]),
        skills=tuple(sorted({skill for template in templates for skill in template.skills})),
        templates=tuple(template.name for template in templates),
    )


def _each_once(assertions: list[Assertion]) -> tuple[Assertion, ...]:
    """Without duplicates: two steps may assert the same of one file."""
    return tuple(a for at, a in enumerate(assertions) if a not in assertions[:at])


def _script(parts: list[str]) -> str:
    return "\n".join(part for part in parts if part) + "\n"


def near_misses_of(steps: list[Step], rng: random.Random) -> tuple[str, ...]:
    """Scripts that are the reference with one step wrong or left out; at most `MOST_NEAR_MISSES`.

    They are taken round-robin over the steps, so that each step is wrong once before any is twice.
    """
    by_step: list[list[str]] = []
    for at, step in enumerate(steps):
        wrong = list(step.near_misses)
        rng.shuffle(wrong)
        if len(steps) > 1:
            wrong.insert(rng.randrange(2), "")
        rest = [other.reference for other in steps]
        by_step.append([_script([*rest[:at], part, *rest[at + 1 :]]) for part in wrong])
    rng.shuffle(by_step)
    rounds = max(len(scripts) for scripts in by_step)
    in_turn = [scripts[at] for at in range(rounds) for scripts in by_step if at < len(scripts)]
    return tuple(dict.fromkeys(in_turn))[:MOST_NEAR_MISSES]


COMMAND_ENDS = re.compile(r"\n|;|&&|\|\|?|(?<![>&0-9])&(?!>)")
OPTION = re.compile(r"(?<=\s)--?[A-Za-z]")


def measure_difficulty(
    *,
    reference: str,
    assertions: Sequence[Assertion],
    skills: Sequence[str],
    instruction: str,
) -> dict[str, JSON]:
    """Counts of commands, options, assertions and so on, and a score made of them.

    The score is an estimate to order tasks within a level, not a measured success rate: 1 for each
    command, each object with assertions and each skill, 0.5 for each option.
    """
    commands = len([part for part in COMMAND_ENDS.split(reference) if part.strip()])
    options = len(OPTION.findall(reference))
    objects = {_object(assertion) for assertion in assertions}
    return {
        "commands": commands,
        "options": options,
        "assertions": len(assertions),
        "objects": len(objects),
        "skills": len(skills),
        "words": len(instruction.split()),
        "score": round(commands + len(objects) + len(skills) + options / 2, 1),
    }


def _object(assertion: Assertion) -> str:
    """The path or account that an assertion is about."""
    record = assertion.to_json()
    return str(record.get("path") or record.get("name") or record.get("pidfile") or record)
