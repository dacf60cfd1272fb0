"""Problems: their names, which side of the wall they are on, and an endless supply of them."""

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from practicum.core.errors import UserError
from practicum.core.task import Split, Task
from practicum.environments.action_forms import is_writable
from practicum.environments.discrete.math.equation import Equation
from practicum.environments.discrete.math.forms import LEVELS, Form
from practicum.environments.discrete.math.parse import parse_equation
from practicum.environments.discrete.math.rules import (
    WRITTEN_ACTIONS,
    State,
    full_marks,
    play,
    reference_actions,
    start,
)
from practicum.environments.discrete.math.steps import FIRST_WRITTEN_LEVEL
from practicum.environments.discrete.math.words import tell

__all__ = ["Problem", "find_problem", "generate", "problem_of"]

ENV = "math"
HELD_OUT_ONE_IN = 5
"""One equation in this many is held out."""
LONGEST_REFERENCE = 8
"""Turns the longest reference takes: the default turn limit of a rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem: an equation at a level, shown as it is or told in words."""

    level: int
    equation: Equation
    in_words: bool = False

    @property
    def id(self) -> str:
        """Readable and made of its content; `:` stands for the fraction line.

        >>> Problem(level=2, equation=parse_equation("x/4 - 3 = 2")).id
        'math-2-x:4-3=2'
        """
        compact = str(self.equation).replace(" ", "").replace("/", ":")
        return f"{ENV}-{self.level}-{'words-' if self.in_words else ''}{compact}"

    @property
    def split(self) -> Split:
        """Which side of the wall it is on, decided by what the equation comes to.

        Level, wording, order of terms and brackets do not matter: `7 + 3x = 16` and
        `3x + 7 = 16` are always on the same side.
        """
        left, right = self.equation.coefficients
        key = f"{left.x}x+{left.number}={right.x}x+{right.number}"
        digest = hashlib.sha256(key.encode()).digest()
        return "heldout" if int.from_bytes(digest[:8], "big") % HELD_OUT_ONE_IN == 0 else "train"

    @property
    def statement(self) -> str:
        """What the policy is asked."""
        return tell(self.equation) if self.in_words else str(self.equation)

    def start(self) -> State:
        """The state an episode begins in."""
        written = self.level >= FIRST_WRITTEN_LEVEL
        return start(self.equation, in_words=self.in_words, written=written)

    def task(self) -> Task:
        """The problem as a row that can be stored."""
        return Task(
            id=self.id,
            env=ENV,
            split=self.split,
            level=self.level,
            instruction=self.statement,
            data={"equation": str(self.equation), "in_words": self.in_words},
        )


def problem_of(task: Task) -> Problem:
    """The problem a task holds."""
    equation = parse_equation(str(task.data["equation"]))
    return Problem(
        level=task.level, equation=equation, in_words=bool(task.data.get("in_words", False))
    )


def generate(levels: Sequence[int], split: Split, seed: int) -> Iterator[Problem]:
    """Problems of the given levels, evenly mixed, in an order given by the seed.

    No problem comes twice before its level has none left. Then the training side begins again in
    another order, so it never ends, and the held-out side ends.
    """
    chance = random.Random(f"{ENV} {split} {seed} {sorted(levels)}")
    streams = {level: _stream(level, split, seed) for level in sorted(set(levels))}
    while streams:
        level = chance.choice(list(streams))
        problem = next(streams[level], None)
        if problem is None:
            del streams[level]
        else:
            yield problem


def _stream(level: int, split: Split, seed: int) -> Iterator[Problem]:
    laps = count() if split == "train" else range(1)
    for lap in laps:
        given = 0
        for problem in _lap(level, split, random.Random(f"{ENV} {split} {seed} {level} {lap}")):
            given += 1
            yield problem
        if not given:
            return


def _lap(level: int, split: Split, chance: random.Random) -> Iterator[Problem]:
    """Every problem of one side of a level, once: no two forms of a level share an equation."""
    open_forms = [(form, _shuffled(form.size, chance)) for form in LEVELS[level]]
    while open_forms:
        weights = [form.weight for form, _ in open_forms]
        form, order = chance.choices(open_forms, weights)[0]
        problem = _next_of(form, order, level, split)
        if problem is None:
            open_forms = [pair for pair in open_forms if pair[0] is not form]
        else:
            yield problem


def _next_of(form: Form, order: Iterator[int], level: int, split: Split) -> Problem | None:
    for index in order:
        equation = form.equation_at(index)
        if equation is None:
            continue
        problem = Problem(level=level, equation=equation, in_words=form.in_words)
        if problem.split == split and _is_sound(problem):
            return problem
    return None


def _shuffled(size: int, chance: random.Random) -> Iterator[int]:
    """The numbers below `size` in random order, in memory that grows only with those taken."""
    moved: dict[int, int] = {}
    for at in range(size):
        swap = chance.randrange(at, size)
        yield moved.get(swap, swap)
        moved[swap] = moved.pop(at, at)


def _is_sound(problem: Problem) -> bool:
    """Whether the reference can be written, fits the turn limit and earns full marks."""
    try:
        state = problem.start()
    except ValueError:
        return False
    actions, best, earned = reference_actions(state), full_marks(state), 0.0
    if len(actions) > LONGEST_REFERENCE:
        return False
    if state.written and not all(is_writable(WRITTEN_ACTIONS, text) for text in actions):
        return False
    for text in actions:
        state, pay, _ = play(state, text)
        earned += pay
    return state.ending == "right" and earned == best


def find_problem(text: str) -> Problem:
    """The problem with this id, or the one that an equation's text makes.

    >>> find_problem("3x + 7 = 16").id
    'math-1-3x+7=16'
    """
    match = re.fullmatch(rf"{ENV}-(\d+)-(words-)?(.+)", text.strip())
    equation = parse_equation(match[3] if match else text)
    level = int(match[1]) if match else _level_of(equation)
    problem = Problem(level=level, equation=equation, in_words=bool(match and match[2]))
    can_be_told = not problem.in_words or (level > 1 and _level_of(equation) <= 2)
    if level not in LEVELS or not can_be_told or not _is_sound(problem):
        raise UserError(
            f"{text!r} is not a problem that the actions of level {level} can solve: levels are "
            f"1 to {max(LEVELS)}, numbers have at most 4 digits and solutions at most "
            f"{LONGEST_REFERENCE} turns; write an equation such as '3x + 7 = 16'"
        )
    return problem


def _level_of(equation: Equation) -> int:
    """The lowest level whose actions suit the equation."""
    left, right = equation.coefficients
    brackets = [t for t in equation.left + equation.right if t.kind == "bracket"]
    if brackets:
        return 5 if any(t.factor.denominator > 1 for t in brackets) else 4
    if not equation.is_plain or (left.x and right.x):
        return 4
    x = left.x
    x_leads = x > 0 and equation.left[0].kind == "x"
    if not x_leads or (x.numerator > 1 and x.denominator > 1):
        return 3
    return 1 if x.denominator == 1 else 2
