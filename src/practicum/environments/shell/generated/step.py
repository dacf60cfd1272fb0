"""One step of a task, and the templates that make steps."""

from collections.abc import Callable
from dataclasses import dataclass

from practicum.core.task import Split
from practicum.environments.shell.generated.assertions import Assertion
from practicum.environments.shell.generated.skills import STAGE
from practicum.environments.shell.generated.story import Story

__all__ = ["Step", "Template", "template"]

FEWEST_NEAR_MISSES = 2


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one template adds to a task, besides what it put into the story's setup."""

    told: str
    """Whole sentences for the instruction."""
    reference: str
    """Commands that do it, from any working directory."""
    near_misses: tuple[str, ...]
    """Commands in place of the reference that look right and are not."""
    assertions: tuple[Assertion, ...]
    """What holds afterwards, and does not hold before."""

    def __post_init__(self) -> None:
        if len(set(self.near_misses)) < FEWEST_NEAR_MISSES or self.reference in self.near_misses:
            raise ValueError(f"a step needs two wrong ways besides its right one: {self.told}")


@dataclass(frozen=True, kw_only=True)
class Template:
    """A kind of step: draws names and content from the story and makes a step of them."""

    name: str
    skills: tuple[str, ...]
    split: Split
    """The one side of the wall on which it is used."""
    make: Callable[[Story], Step]

    @property
    def stage(self) -> int:
        """Its place in a story: that of its latest skill."""
        return max(STAGE[skill] for skill in self.skills)


def template(*skills: str, split: Split) -> Callable[[Callable[[Story], Step]], Template]:
    """Make a template of a function that makes steps; its name is the function's."""

    def named(make: Callable[[Story], Step]) -> Template:
        name = make.__name__.replace("_", "-")
        return Template(name=name, skills=skills, split=split, make=make)

    return named
