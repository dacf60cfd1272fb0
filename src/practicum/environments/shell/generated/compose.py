"""Composes steps to one task: which templates, in which order, and the ways to get it wrong."""

import random
from dataclasses import dataclass

from practicum.core.task import Split
from practicum.environments.shell.generated.assertions import Assertion
from practicum.environments.shell.generated.catalog import templates_of
from practicum.environments.shell.generated.step import Step, Template
from practicum.environments.shell.generated.story import Story
from practicum.environments.shell.generated.wording import instruct

__all__ = ["Composed", "choose_templates", "compose", "near_misses_of"]

MOST_NEAR_MISSES = 5


@dataclass(frozen=True, kw_only=True)
class Composed:
    """A whole task, before it has a name."""

    instruction: str
    setup: str
    reference: str
    near_misses: tuple[str, ...]
    assertions: tuple[Assertion, ...]
    skills: tuple[str, ...]
    templates: tuple[str, ...]


def choose_templates(split: Split, count: int, chance: random.Random) -> list[Template]:
    """Templates that together use `count` skills, each once, in the order of a story.

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
        skill = chance.choice(sorted({skill for template in fitting for skill in template.skills}))
        template = chance.choice([template for template in fitting if skill in template.skills])
        chosen.append(template)
        left -= len(template.skills)
    chance.shuffle(chosen)
    return sorted(chosen, key=lambda template: template.stage)


def compose(
    split: Split, level: int, chance: random.Random, *, work_of: Split | None = None
) -> Composed:
    """A task of `level` skills in the names of a split, of the templates of `work_of` if given."""
    templates = choose_templates(work_of or split, level, chance)
    story = Story(split, chance)
    steps = [template.make(story) for template in templates]
    return Composed(
        instruction=instruct([step.told for step in steps], chance, story.known_root),
        setup="\n".join(["set -e", "umask 022", *story.setup]) + "\n",
        reference=_script([step.reference for step in steps]),
        near_misses=near_misses_of(steps, chance),
        assertions=_each_once([a for step in steps for a in step.assertions]),
        skills=tuple(sorted({skill for template in templates for skill in template.skills})),
        templates=tuple(template.name for template in templates),
    )


def _each_once(assertions: list[Assertion]) -> tuple[Assertion, ...]:
    """Without those that two steps make of one thing."""
    return tuple(a for at, a in enumerate(assertions) if a not in assertions[:at])


def _script(parts: list[str]) -> str:
    return "\n".join(part for part in parts if part) + "\n"


def near_misses_of(steps: list[Step], chance: random.Random) -> tuple[str, ...]:
    """The reference with one step done wrong or left out; of many such ways, a few.

    The wrong steps of a long task are spread: no step is gone wrong with twice before each of the
    others was, as far as the limit allows.
    """
    ways: list[list[str]] = []
    for at, step in enumerate(steps):
        wrong = list(step.near_misses)
        chance.shuffle(wrong)
        if len(steps) > 1:
            wrong.insert(chance.randrange(2), "")
        rest = [other.reference for other in steps]
        ways.append([_script([*rest[:at], part, *rest[at + 1 :]]) for part in wrong])
    chance.shuffle(ways)
    rounds = max(len(way) for way in ways)
    spread = [way[turn] for turn in range(rounds) for way in ways if turn < len(way)]
    return tuple(dict.fromkeys(spread))[:MOST_NEAR_MISSES]
