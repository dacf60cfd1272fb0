"""`Step`, one part of a generated task; `Template`, which makes steps; and the list of skills."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from practicum.core.task import Split
from practicum_envs.shell.generated.assertions import Assertion
from practicum_envs.shell.generated.task_draft import TaskDraft

STAGES = (
    ("groupadd", "addgroup"),
    ("useradd",),
    ("usermod", "gpasswd", "chsh", "chage"),
    ("mkdir",),
    ("touch", "echo", "tee", "exit", "cat", "cp"),
    ("sed", "vi", "cd"),
    ("grep", "awk", "wc", "find", "ls"),
    ("mv", "rm"),
    ("chown", "chgrp"),
    ("chmod",),
    ("ln", "tar", "gzip", "zip"),
    ("sleep", "kill"),
)
"""Skills in the order in which a task's steps use them: accounts, new files, changes to them.

So a later step can work on what an earlier one made. `chmod` follows `chown`, since `chown` clears
the set-user-ID and set-group-ID bits."""

STAGE = {skill: stage for stage, skills in enumerate(STAGES) for skill in skills}
"""Index into `STAGES` of each skill."""

SKILLS = tuple(sorted(STAGE))
"""Every skill, by the command it is named after."""


FEWEST_NEAR_MISSES = 2


@dataclass(frozen=True, kw_only=True)
class Step:
    """One part of a task; the set-up commands it needs are in the draft already."""

    instruction: str
    """Whole sentences."""
    reference: str
    """Commands that solve it, from any working directory."""
    near_misses: tuple[str, ...]
    """Plausible wrong solutions: commands that the assertions must reject."""
    assertions: tuple[Assertion, ...]
    """What holds after the reference and not before it."""

    def __post_init__(self) -> None:
        if len(set(self.near_misses)) < FEWEST_NEAR_MISSES or self.reference in self.near_misses:
            raise ValueError(
                f"a step needs two wrong ways besides its right one: {self.instruction}"
            )


@dataclass(frozen=True, kw_only=True)
class Template:
    """A kind of step; `make` draws names and contents and returns a `Step`."""

    name: str
    skills: tuple[str, ...]
    split: Split
    """The only split that uses it."""
    make: Callable[[TaskDraft], Step]

    @property
    def stage(self) -> int:
        """Sort key of a task's steps: the stage of its latest skill."""
        return max(STAGE[skill] for skill in self.skills)


def template(*skills: str, split: Split) -> Callable[[Callable[[TaskDraft], Step]], Template]:
    """Decorator: a template with the function's name, which is recorded in each task's data."""

    def decorate(make: Callable[[TaskDraft], Step]) -> Template:
        name = make.__name__.replace("_", "-")
        return Template(name=name, skills=skills, split=split, make=make)

    return decorate


def templates_among(names: Mapping[str, object]) -> tuple[Template, ...]:
    """The templates of a module's `globals()`, in the order in which they are written."""
    return tuple(value for value in names.values() if isinstance(value, Template))
