"""Finds rewards that lead a policy astray: ways out, and pay that solves nothing.

A policy that cannot solve a task yet learns what pays best meanwhile. Where ending the episode at
once costs less than trying, it learns to give up; where one action pays again and again, or two in
turn, it learns to repeat them. Each action, and each pair of actions in turn, is played here by
itself and compared with the reference and with random tries. What is found is a warning: a task may
be sound and hard to learn.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from practicum.core.capabilities import actions_of
from practicum.core.interfaces import Environment
from practicum.core.task import Task
from practicum.environments.reference_policies import (
    MAX_TURNS,
    EpisodeResult,
    ReferenceActor,
    ScriptActor,
    play_episode,
)

LARGE_SHARE = 0.3
"""Of the reference's reward: what repeating may earn before it is warned of."""
RANDOM_PLAYS = 4
MOST_ACTIONS = 16
"""Actions by name that are tried; pairs grow with their square."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPay:
    """What simple policies earn on one task."""

    full: float
    """By the reference."""
    at_random: float
    """By random actions that do not give up, on average."""
    repeated: Mapping[str, float]
    """By taking one action, or two in turn, until the turns are over, without solving the task."""
    exits: Mapping[str, float]
    """By an action that ends the episode at once without solving it."""


async def measure_pay(environment: Environment, task: Task, seed: int) -> TaskPay:
    """Play the simple policies on a task whose actions are listed."""
    async with environment.open(task) as session:
        names = [f.name for f in actions_of(session) if f.argument is None][:MOST_ACTIONS]

    async def play(*turns: str) -> EpisodeResult:
        script = ScriptActor((turns * MAX_TURNS)[:MAX_TURNS])
        return await play_episode(environment, task, script)

    played = {name: await play(name) for name in names}
    played |= {f"{a}, {b}": await play(a, b) for a, b in combinations(names, 2)}
    unsolved = {name: one for name, one in played.items() if one.outcome.success is not True}
    exits = {
        name: one.total_reward
        for name, one in unsolved.items()
        if one.terminated and len(one.texts) == 1
    }
    rng, trying = random.Random(f"{seed} {task.id}"), [n for n in names if n not in exits] or names
    scripts = [rng.choices(trying, k=MAX_TURNS) for _ in range(RANDOM_PLAYS)] if names else []
    by_chance = [(await play(*script)).total_reward for script in scripts]
    solution = await play_episode(environment, task, ReferenceActor(environment), 1000)
    return TaskPay(
        full=solution.total_reward,
        at_random=fmean(by_chance) if by_chance else 0.0,
        repeated={name: one.total_reward for name, one in unsolved.items() if not one.terminated},
        exits=exits,
    )


def find_traps(pays: Sequence[TaskPay]) -> list[str]:
    """What is found over some tasks, one sentence each.

    >>> gives_up = TaskPay(full=8.5, at_random=-2.0, repeated={}, exits={"state_answer": -0.5})
    >>> find_traps([gives_up])[0][:60]
    "'state_answer' at once ends an episode with -0.50 on average"
    """
    if not pays or fmean(pay.full for pay in pays) <= 0.0:
        return []
    full, at_random = (fmean(getattr(pay, name) for pay in pays) for name in ("full", "at_random"))
    found = []
    for name, earned in _means([pay.exits for pay in pays]).items():
        if earned > at_random:
            found.append(
                f"{name!r} at once ends an episode with {earned:.2f} on average, and trying at "
                f"random earns {at_random:.2f}: a policy that cannot solve a task yet gains by "
                "giving up; let giving up cost more, or let it not end the episode"
            )
    repeated = _means([pay.repeated for pay in pays])
    best = max(repeated, key=lambda name: repeated[name], default="")
    if best and repeated[best] > LARGE_SHARE * full:
        found.append(
            f"taking {best!r} again and again earns {repeated[best]:.2f} of {full:.2f} on average "
            "and solves nothing; pay only for what brings the solution nearer"
        )
    return found


def _means(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each entry over the tables that have it, where at least half of them do."""
    names = {name for table in tables for name in table}
    values = {name: [table[name] for table in tables if name in table] for name in sorted(names)}
    return {name: fmean(found) for name, found in values.items() if 2 * len(found) >= len(tables)}
