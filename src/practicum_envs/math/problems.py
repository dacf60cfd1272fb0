"""Generates the problems of each level, for training and held out, and finds them by id.

A form such as `ax + b = c` spans a grid of whole numbers; each point of it is one equation, or none
where the numbers do not suit.
"""

import hashlib
import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

from practicum.core.errors import UserError
from practicum.core.task import Split, Task
from practicum.environments.reference_policies import is_writable
from practicum_envs.math.equation import (
    Equation,
    Side,
    Term,
    bracket,
    number,
    parse_equation,
    variable,
)
from practicum_envs.math.rules import (
    FIRST_WRITTEN_LEVEL,
    WRITTEN_ACTIONS,
    State,
    full_marks,
    play,
    reference_actions,
    start,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of equation."""

    ranges: tuple[Sequence[int], ...]
    """Values of each argument of `build`."""
    build: Callable[..., Equation | None]
    in_words: bool = False
    weight: int = 1
    """Relative probability among the forms of its level."""

    @property
    def size(self) -> int:
        """Number of points of its grid."""
        return math.prod(len(values) for values in self.ranges)

    def equation_at(self, index: int) -> Equation | None:
        """The equation at one point of the grid."""
        chosen = []
        for values in self.ranges:
            index, at = divmod(index, len(values))
            chosen.append(values[at])
        return self.build(*chosen)


def _side(*terms: Term) -> Side:
    return tuple(term for term in terms if term.factor)


def _equation(left: Side, right: Side) -> Equation | None:
    equation = Equation(left=left, right=right)
    solution = equation.solution
    if solution is None or abs(solution.numerator) > 99 or solution.denominator > 12:
        return None
    return equation


def _scaled_plus(factor: Fraction, plus: int, x: int, *, reverse: bool = False) -> Equation | None:
    left = _side(variable(factor), number(plus))
    return _equation(left[::-1] if reverse else left, _side(number(factor * x + plus)))


def _times(a: int, b: int, x: int) -> Equation | None:
    """`ax + b = c`, with a result above 0."""
    return _scaled_plus(Fraction(a), b, x) if a * x + b > 0 else None


def _over(a: int, b: int, quotient: int) -> Equation | None:
    """`x/a + b = c`, with a result above 0."""
    return _scaled_plus(Fraction(1, a), b, a * quotient) if quotient + b > 0 else None


def _over_signed(a: int, b: int, quotient: int) -> Equation | None:
    return _scaled_plus(Fraction(1, a), b, a * quotient)


def _times_signed(a: int, b: int, x: int) -> Equation | None:
    return _scaled_plus(Fraction(a), b, x)


def _number_first(a: int, b: int, x: int) -> Equation | None:
    """`b + ax = c`."""
    return _scaled_plus(Fraction(a), b, x, reverse=True)


def _both_sides(a: int, b: int, c: int, d: int) -> Equation | None:
    """`ax + b = cx + d`."""
    return _equation(_side(variable(a), number(b)), _side(variable(c), number(d)))


def _like_terms(a: int, b: int, c: int, d: int) -> Equation | None:
    """`ax + b + cx = d`."""
    return _equation(_side(variable(a), number(b), variable(c)), _side(number(d)))


def _bracket_is(a: int, b: int, c: int) -> Equation | None:
    """`a(x + b) = c`."""
    return _equation((bracket(a, _side(variable(1), number(b))),), _side(number(c)))


def _bracket_plus(a: int, b: int, c: int, d: int) -> Equation | None:
    """`a(x + b) + c = d`."""
    return _equation((bracket(a, _side(variable(1), number(b))), number(c)), _side(number(d)))


def _bracket_both_sides(a: int, b: int, c: int, d: int) -> Equation | None:
    """`a(x + b) = cx + d`."""
    left = (bracket(a, _side(variable(1), number(b))),)
    return _equation(left, _side(variable(c), number(d)))


def _fraction(a: int, b: int, under: int) -> Term | None:
    """`(ax + b)/under`, None where the fraction could be reduced."""
    if math.gcd(a, b, under) > 1:
        return None
    return bracket(Fraction(1, under), (variable(a), number(b)))


def _fraction_is(a: int, b: int, under: int, d: int, e: int) -> Equation | None:
    """`(ax + b)/c = dx + e`."""
    left = _fraction(a, b, under)
    return _equation((left,), _side(variable(d), number(e))) if left else None


def _fraction_and_bracket(a: int, b: int, under: int, d: int, e: int) -> Equation | None:
    """`(ax + b)/c = d(x + e)`."""
    left = _fraction(a, b, under)
    return _equation((left,), (bracket(d, (variable(1), number(e))),)) if left else None


def _fraction_plus(a: int, b: int, under: int, d: int, e: int, f: int) -> Equation | None:
    """`(ax + b)/c + d = ex + f`."""
    left = _fraction(a, b, under)
    return _equation((left, number(d)), _side(variable(e), number(f))) if left else None


def _two_fractions(a: int, b: int, c: int, d: int, e: int, f: int) -> Equation | None:
    """`(ax + b)/c = (dx + e)/f`."""
    left, right = _fraction(a, b, c), _fraction(d, e, f)
    return _equation((left,), (right,)) if left and right else None


def _bracket_and_quotient(a: int, b: int, under: int, d: int) -> Equation | None:
    """`a(x + b) = x/c + d`."""
    left = (bracket(a, (variable(1), number(b))),)
    return _equation(left, _side(variable(Fraction(1, under)), number(d)))


def _without_zero(first: int, last: int) -> tuple[int, ...]:
    return tuple(n for n in range(first, last + 1) if n)


SMALL = range(2, 10)
PLUS = range(1, 21)
MINUS = range(-20, 0)
NEGATIVE = range(-9, -1)
NEAR = _without_zero(-9, 9)
NEARER = _without_zero(-6, 6)
MULTIPLE = tuple(n for n in NEARER if n != 1)
"""Factors of a bracket; with 1 there would be no bracket."""
WIDE = _without_zero(-20, 20)
RESULT = _without_zero(-40, 40)

TIMES = (
    Form(ranges=(SMALL, PLUS, PLUS), build=_times),
    Form(ranges=(SMALL, MINUS, PLUS), build=_times),
)
OVER = (
    Form(ranges=(SMALL, PLUS, PLUS), build=_over),
    Form(ranges=(SMALL, MINUS, PLUS), build=_over),
)


def _in_words(forms: tuple[Form, ...]) -> tuple[Form, ...]:
    return tuple(Form(ranges=f.ranges, build=f.build, in_words=True) for f in forms)


def _twice(forms: tuple[Form, ...]) -> tuple[Form, ...]:
    return tuple(Form(ranges=f.ranges, build=f.build, weight=2) for f in forms)


LEVELS: dict[int, tuple[Form, ...]] = {
    1: TIMES,
    2: (*_twice(TIMES + OVER), *_in_words(TIMES + OVER)),
    3: (
        *TIMES,
        *OVER,
        *_in_words(TIMES + OVER),
        Form(ranges=(NEGATIVE, WIDE, NEAR), build=_times_signed, weight=4),
        Form(ranges=(NEGATIVE, WIDE, NEAR), build=_over_signed, weight=2),
        Form(ranges=(NEAR, WIDE, NEAR), build=_number_first, weight=4),
    ),
    4: (
        Form(ranges=(NEAR, WIDE, NEAR, WIDE), build=_both_sides, weight=2),
        Form(ranges=(NEAR, WIDE, NEAR, RESULT), build=_like_terms),
        Form(ranges=(SMALL, NEAR, RESULT), build=_bracket_is),
        Form(ranges=(SMALL, NEAR, WIDE, RESULT), build=_bracket_plus),
        Form(ranges=(SMALL, NEAR, NEAR, WIDE), build=_bracket_both_sides),
    ),
    5: (
        Form(ranges=(NEAR, NEAR, SMALL, NEARER, WIDE), build=_fraction_is),
        Form(ranges=(NEAR, NEAR, SMALL, MULTIPLE, NEARER), build=_fraction_and_bracket),
        Form(ranges=(NEAR, NEAR, SMALL, NEAR, NEARER, NEAR), build=_fraction_plus),
        Form(ranges=(NEAR, NEAR, SMALL, NEAR, NEAR, SMALL), build=_two_fractions),
        Form(ranges=(SMALL, NEAR, SMALL, NEAR), build=_bracket_and_quotient),
    ),
}
"""The forms of each level, as equations or in words."""


PLUS_SENTENCES = (
    "A number is {times} and {b} is added; the result is {c}.",
    "When a number is {times} and then {b} is added, the result is {c}.",
    "A number {times}, then plus {b}, gives {c}.",
)
MINUS_SENTENCES = (
    "A number is {times} and {b} is subtracted; the result is {c}.",
    "When a number is {times} and then {b} is subtracted, the result is {c}.",
    "A number {times}, then minus {b}, gives {c}.",
)
ALONE = ("A number {times} is {c}.",)


def tell(equation: Equation) -> str:
    """`ax + b = c` or `x/a + b = c` as an English sentence; the wording follows from a hash of it.

    >>> from practicum_envs.math.equation import parse_equation
    >>> tell(parse_equation("3x + 7 = 16"))
    'When a number is multiplied by 3 and then 7 is added, the result is 16.'
    """
    left, right = equation.coefficients
    if left.x.denominator == 1:
        times = f"multiplied by {left.x}"
    else:
        times = f"divided by {left.x.denominator}"
    sentences = PLUS_SENTENCES if left.number > 0 else MINUS_SENTENCES if left.number < 0 else ALONE
    digest = hashlib.sha256(str(equation).encode()).digest()
    sentence = sentences[digest[0] % len(sentences)]
    return sentence.format(times=times, b=abs(left.number), c=right.number)


ENV = "math"
HELD_OUT_ONE_IN = 5
"""One equation in this many is held out."""
LONGEST_REFERENCE = 8
"""Turns the longest reference takes: the default turn limit of a rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem: an equation at a level, shown as an equation or in words."""

    level: int
    equation: Equation
    in_words: bool = False

    @property
    def id(self) -> str:
        """Level and equation; `:` stands for `/`.

        >>> Problem(level=2, equation=parse_equation("x/4 - 3 = 2")).id
        'math-2-x:4-3=2'
        """
        compact = str(self.equation).replace(" ", "").replace("/", ":")
        return f"{ENV}-{self.level}-{'words-' if self.in_words else ''}{compact}"

    @property
    def split(self) -> Split:
        """Train or held out, from a hash of the equation's normal form.

        Level, wording, order of terms and brackets do not matter: `7 + 3x = 16` and
        `3x + 7 = 16` are in the same split, so that no held-out equation is trained on.
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
        """The problem as a `Task`."""
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

    No problem repeats before its level is exhausted. Then training problems start again in another
    order, without end; held-out problems stop.
    """
    rng = random.Random(f"{ENV} {split} {seed} {sorted(levels)}")
    streams = {level: _stream(level, split, seed) for level in sorted(set(levels))}
    while streams:
        level = rng.choice(list(streams))
        problem = next(streams[level], None)
        if problem is None:
            del streams[level]
        else:
            yield problem


def _stream(level: int, split: Split, seed: int) -> Iterator[Problem]:
    for epoch in count() if split == "train" else range(1):
        yield from _epoch(level, split, random.Random(f"{ENV} {split} {seed} {level} {epoch}"))


def _epoch(level: int, split: Split, rng: random.Random) -> Iterator[Problem]:
    """Every problem of a level and split once: no two forms of a level share an equation."""
    open_forms = [(form, _shuffled(form.size, rng)) for form in LEVELS[level]]
    while open_forms:
        weights = [form.weight for form, _ in open_forms]
        form, order = rng.choices(open_forms, weights)[0]
        problem = _next_problem(form, order, level, split)
        if problem is None:
            open_forms = [pair for pair in open_forms if pair[0] is not form]
        else:
            yield problem


def _next_problem(form: Form, order: Iterator[int], level: int, split: Split) -> Problem | None:
    for index in order:
        equation = form.equation_at(index)
        if equation is None:
            continue
        problem = Problem(level=level, equation=equation, in_words=form.in_words)
        if problem.split == split and _is_sound(problem):
            return problem
    return None


def _shuffled(size: int, rng: random.Random) -> Iterator[int]:
    """`range(size)` in random order: a lazy Fisher-Yates shuffle.

    Only moved entries are stored, since a grid has millions of points and few are taken.
    """
    moved: dict[int, int] = {}
    for at in range(size):
        swap = rng.randrange(at, size)
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


REQUEST = re.compile(
    r"(?:please )?(?:solve(?: the equation)?(?: for x)?|(?:find|what is) x(?: if| in| when)?)"
    r"(?: ?[:,] ?| )(.+?)(?: for x)?[.?!]?",
    re.IGNORECASE,
)
"""How people ask for what an equation holds for; the equation is the group."""


def find_problem(text: str) -> Problem:
    """The problem with this id, or the one that an equation makes, alone or in a request.

    >>> find_problem("3x + 7 = 16").id
    'math-1-3x+7=16'
    >>> find_problem("Solve for x: 3x + 7 = 16").id
    'math-1-3x+7=16'
    """
    match = re.fullmatch(rf"{ENV}-(\d+)-(words-)?(.+)", text.strip())
    request = REQUEST.fullmatch(" ".join(text.split()))
    equation = parse_equation(match[3] if match else request[1] if request else text)
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
