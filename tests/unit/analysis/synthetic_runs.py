"""Metrics of runs that were never trained: honest learning and collapses, drawn episode by episode.

Each step draws the tasks of its groups and the episodes of each task, and computes from them what
`rollout_metrics` would: success, reward, flat groups and the spread of scores. Tasks differ in
difficulty, so the episodes of a group are alike; a policy that sharpens solves a task always or
never. Groups that are flat are replaced up to `replace` times as many, as training does.
"""

import math
import random
from dataclasses import dataclass
from statistics import fmean

from practicum.core.task import JSON

Row = tuple[int, dict[str, JSON]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The batch of a run and what its environment pays."""

    tasks: int = 4
    group: int = 8
    replace: float = 1.0
    sparse: bool = False
    """Only success pays; else the steps on the way do too."""
    spread: float = 1.5
    """How different the tasks are, in logits."""
    kl_every: int = 1
    stage: str = "grpo"


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def logit(p: float) -> float:
    return math.log(p / (1.0 - p))


def draw_group(
    dice: random.Random, shape: Shape, success: float, way: float
) -> list[tuple[bool, float]]:
    """Whether each episode of a task is solved, and its score of at most 8.5."""
    hard = dice.gauss(0.0, shape.spread)
    chance = sigmoid(
        logit(min(max(success, 1e-6), 1 - 1e-6)) * math.sqrt(1 + shape.spread**2 / 2.9) + hard
    )
    episodes = []
    for _ in range(shape.group):
        solved = dice.random() < chance
        steps = 3 if solved else sum(dice.random() < way for _ in range(3))
        slips = 0 if dice.random() < success else dice.randint(0, 2)
        paid = (0.0, 1.5, 3.5, 5.5)[steps] - 0.5 * slips + (3.0 if solved else 0.0)
        episodes.append((solved, float(solved) if shape.sparse else paid))
    return episodes


def is_flat(group: list[tuple[bool, float]]) -> bool:
    return len({score for _, score in group}) == 1


def honest_run(seed: int, steps: int, shape: Shape, *, start: float, end: float) -> list[Row]:
    """A run that learns along a noisy S-curve."""
    dice = random.Random(seed)
    middle, width = dice.uniform(0.3, 0.6) * steps, dice.uniform(0.06, 0.15) * steps
    entropy, tokens = dice.uniform(0.4, 1.5), dice.uniform(0.5, 1.8)
    rows: list[Row] = []
    for step in range(1, steps + 1):
        learned = sigmoid((step - middle) / width)
        wobble = dice.gauss(0.0, 0.4)
        success = sigmoid(logit(start) + (logit(end) - logit(start)) * learned + wobble)
        way = 0.2 + 0.7 * sigmoid((step - 0.7 * middle) / width)
        rows.append((step, draw_step(dice, shape, success, way)))
        values = rows[-1][1]
        if values["trained_groups"]:
            values["entropy"] = entropy * (1 - 0.985 * learned) * dice.uniform(0.85, 1.15)
            kl = 2.0 * learned * dice.uniform(0.8, 1.2)
            values["kl_to_base"] = kl if (step - 1) % shape.kl_every == 0 else None
        length = 100.0 * (1 + (tokens - 1) * learned) * dice.gauss(1.0, 0.06)
        values["response_tokens"], values["turns"] = length, length / 20.0
    return rows


def draw_step(dice: random.Random, shape: Shape, success: float, way: float) -> dict[str, JSON]:
    """What `rollout_metrics` says of a step's groups."""
    groups: list[list[tuple[bool, float]]] = []
    wanted, extras = shape.tasks, math.ceil(shape.replace * shape.tasks)
    while wanted > 0:
        groups += [draw_group(dice, shape, success, way) for _ in range(wanted)]
        wanted = min(shape.tasks - sum(not is_flat(g) for g in groups), extras)
        extras -= wanted
    scores = [score for group in groups for _, score in group]
    flat = sum(is_flat(group) for group in groups)
    return {
        "stage": shape.stage,
        "reward": fmean(scores),
        "success": fmean(float(solved) for group in groups for solved, _ in group),
        "episodes": len(scores),
        "groups": len(groups),
        "trained_groups": len(groups) - flat,
        "flat_share": flat / len(groups),
        "score_spread": max(scores) - min(scores),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """How a run collapses."""

    at: int
    """Its first collapsed step."""
    before: float
    """Success until then."""
    reward: tuple[float, float]
    """At the first step and once collapsed, where it stays."""
    settles: bool = True
    """Whether every episode ends up the same; else rewards keep their noise and go on rising."""
    steps: int = 20


def collapsing_run(seed: int, shape: Shape, fall: Fall, first: int = 1) -> list[Row]:
    """A run whose success falls to 0 within two steps; its entropy and KL follow."""
    dice = random.Random(seed)
    entropy, rows = dice.uniform(0.4, 1.5), []
    for number in range(fall.steps):
        step, gone = first + number, min(1.0, max(0.0, (number + 3 - fall.at) / 2))
        values = draw_step(dice, shape, max(1e-6, fall.before * (1 - gone)), 0.3)
        low, high = fall.reward
        share = min(1.0, number / max(1, fall.at - 1)) if fall.settles else number / fall.steps
        values["reward"] = low + (high - low) * share + dice.gauss(0.0, 0.15)
        if gone == 1.0:
            values["success"] = 0.0
        if gone == 1.0 and fall.settles:
            values |= {"reward": high, "score_spread": 0.0, "flat_share": 1.0, "trained_groups": 0}
            values["groups"] = shape.tasks + math.ceil(shape.replace * shape.tasks)
            values["episodes"] = values["groups"] * shape.group  # type: ignore[operator]
        else:
            values |= {"flat_share": 0.5 * gone, "score_spread": 4.0, "groups": shape.tasks}
            sharp = gone if fall.settles else 0.5 * gone
            values["entropy"] = entropy * (1 - 0.97 * sharp) * dice.uniform(0.85, 1.15)
            values["kl_to_base"] = 8.0 * gone * dice.uniform(0.8, 1.2) if fall.settles else 0.3
        values["response_tokens"], values["turns"] = 100.0 * dice.gauss(1.0, 0.06), 5.0
        rows.append((step, values))
    return rows
