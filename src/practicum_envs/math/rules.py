"""The rules of an episode: what each action does, its reward, and the cheapest solution.

At the lower levels an action's name is the whole of it and the equation supplies the number
(`subtract_terms` on `3x + 7 = 16` subtracts 7). From `FIRST_WRITTEN_LEVEL` the policy writes the
term itself (`subtract_terms 7`).

A term is written as equations print it: an optional minus, up to four digits, `x` where the action
allows it, and `/` with up to three digits: `7`, `-5`, `3/4`, `2x`, `x/4`.

Rewards are potential-based: `remaining_pay` is the total price of the cheapest remaining steps, and
a step earns by how much it lowers the minimum so far. So no episode earns more than the reference.

The rewards:

* `identify_operation` 1.5, once, and only before any other reward.
* `set_up_equation` 1.0, once, where the problem is in words.
* An algebra step: the decrease of the minimum `remaining_pay`, at most its price, which is 2.0 for
  adding, subtracting, multiplying or dividing and 1.0 for `simplify`.
* `state_answer` 3.0 when the equation shows the answer and the answer is right; that ends the
  episode. A wrong number ends it too, for -0.5.
* Every other turn brings the solution no nearer and pays -0.5: what is unknown, malformed or not
  valid, a detour, a repetition, an answer before the equation shows it.

There is no way out but the solution: before x is alone nothing ends an episode, so a policy that
cannot solve yet gains nothing by giving up, and one that idles pays for each turn. Where x is alone
any attempt to state the answer is worth at least as much as any other turn.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from practicum.core.sampling import ActionForm, NextCharacters
from practicum_envs.math.equation import (
    Equation,
    Linear,
    Side,
    Term,
    collect,
    common_denominator,
    number,
    parse_term,
    variable,
)

FIRST_WRITTEN_LEVEL = 3
"""From this level on the policy writes the argument."""

LARGEST_NUMBER = 99_999
"""A step to a larger numerator or denominator is refused: else a policy could make the prompt grow
without bound."""

PRICE = {
    "add_terms": 2.0,
    "subtract_terms": 2.0,
    "multiply_terms": 2.0,
    "divide_terms": 2.0,
    "simplify": 1.0,
}
"""Reward of a useful algebra step."""

ALGEBRA = tuple(PRICE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One algebra action and the term it acts with; `simplify` has none."""

    action: str
    term: Term | None = None

    def __str__(self) -> str:
        return self.action if self.term is None else f"{self.action} {self.term}"


def apply_step(equation: Equation, step: Step) -> Equation | None:
    """The equation after the step; None if the step is invalid, such as dividing by 0 or by x.

    >>> from practicum_envs.math.equation import parse_equation
    >>> str(apply_step(parse_equation("x/4 = 2"), Step(action="multiply_terms", term=number(4))))
    'x = 8'
    """
    if step.term is None:
        return equation.simplify() if step.action == "simplify" else None
    if step.action == "add_terms":
        return equation.add(step.term)
    if step.action == "subtract_terms":
        return equation.add(step.term.scaled(Fraction(-1)))
    by = step.term.factor
    if step.term.kind != "number" or by == 0:
        return None
    if step.action == "multiply_terms":
        return equation.scale(by)
    return equation.scale(1 / by) if step.action == "divide_terms" else None


def removal_of(term: Term) -> Step:
    """The step that removes a number or a multiple of x from its side.

    >>> str(removal_of(number(-3)))
    'add_terms 3'
    """
    action = "subtract_terms" if term.factor > 0 else "add_terms"
    return Step(action=action, term=Term(factor=abs(term.factor), kind=term.kind))


def scaling_to_one(factor: Fraction) -> Step:
    """The step that turns a factor into 1.

    >>> str(scaling_to_one(Fraction(1, 4))), str(scaling_to_one(Fraction(-3)))
    ('multiply_terms 4', 'divide_terms -3')
    """
    if factor.denominator > 1 and abs(factor.numerator) == 1:
        return Step(action="multiply_terms", term=number(1 / factor))
    return Step(action="divide_terms", term=number(factor))


def implied_step(equation: Equation, action: str) -> Step | None:
    """The step of an action without argument: the term comes from the left side of `ax + b = c`.

    None where the action does not fit: there is nothing to subtract in `3x - 7 = 2`, and nothing to
    divide by in `x/4 = 5`.
    """
    if action == "simplify":
        return Step(action=action)
    of_kind = {term.kind: term.factor for term in equation.left}
    x, constant = of_kind.get("x", Fraction(0)), of_kind.get("number", Fraction(0))
    if action in {"add_terms", "subtract_terms"}:
        step = removal_of(number(constant))
        return step if constant and step.action == action else None
    by = x.numerator if action == "divide_terms" else x.denominator
    return Step(action=action, term=number(by)) if by != 1 else None


MAX_DIGITS_OVER = 4
MAX_DIGITS_UNDER = 3
DIGITS = "0123456789"
WRITTEN = re.compile(r"(?P<sign>-?)(?P<over>\d*)(?P<x>x?)(?:(?P<line>/)(?P<under>\d*))?")


def term_syntax(written: str) -> NextCharacters:
    """Argument of `add_terms` and `subtract_terms`: a number other than 0 or a multiple of x."""
    return _following(written, with_x=True, with_zero=False)


def factor_syntax(written: str) -> NextCharacters:
    """Argument of `multiply_terms` and `divide_terms`: a number other than 0."""
    return _following(written, with_x=False, with_zero=False)


def answer_syntax(written: str) -> NextCharacters:
    """Argument of `state_answer`: a number.

    >>> answer_syntax("3/1")
    NextCharacters(allowed='0123456789', may_end=False)
    """
    return _following(written, with_x=False, with_zero=True)


def _following(written: str, *, with_x: bool, with_zero: bool) -> NextCharacters:
    match = WRITTEN.fullmatch(written)
    if match is None:
        return NextCharacters(allowed="", may_end=False)
    sign, over, x, line, under = match.group("sign", "over", "x", "line", "under")
    if line:
        return _below_the_line(under)
    if x:
        return NextCharacters(allowed="/", may_end=True)
    if over == "0":
        return NextCharacters(allowed="", may_end=True)
    letter = "x" if with_x else ""
    if over:
        more = DIGITS if len(over) < MAX_DIGITS_OVER else ""
        return NextCharacters(allowed=f"{more}/{letter}", may_end=True)
    first = DIGITS[1:] + letter
    if not sign:
        first += "-0" if with_zero else "-"
    return NextCharacters(allowed=first, may_end=False)


def _below_the_line(under: str) -> NextCharacters:
    if not under:
        return NextCharacters(allowed=DIGITS[1:], may_end=False)
    more = DIGITS if len(under) < MAX_DIGITS_UNDER else ""
    # A denominator of 1 is not written: the same number has a shorter form.
    return NextCharacters(allowed=more, may_end=under != "1")


STEP = PRICE["add_terms"]
"""Price of any step but `simplify`."""

MAX_COST = 20.0
"""An upper bound for any equation: clear denominators and simplify once for each depth of brackets,
and three steps after that."""

CACHE_SIZE = 1 << 14


def remaining_pay(equation: Equation, *, written: bool) -> float:
    """Total price of the cheapest steps to `x = number`."""
    return sum(PRICE[step.action] for step in remaining_steps(equation, written=written))


@lru_cache(maxsize=CACHE_SIZE)
def remaining_steps(equation: Equation, *, written: bool) -> tuple[Step, ...]:
    """The cheapest steps to `x = number`, found by iterative deepening over their total price.

    `written` says whether the policy chooses the terms; without it only implied steps are allowed.

    >>> from practicum_envs.math.equation import parse_equation
    >>> [str(s) for s in remaining_steps(parse_equation("2(x + 3) = x - 1"), written=True)]
    ['simplify', 'subtract_terms x', 'subtract_terms 6']
    """
    if not written:
        return tuple(_implied_path(equation))
    budget = _lower_bound(equation)
    while budget <= MAX_COST:
        path = _search(equation, budget)
        if path is not None:
            return path
        budget += 1.0
    raise ValueError(f"no way to solve {equation} was found")


def _implied_path(equation: Equation) -> Iterator[Step]:
    """Steps without arguments: the number first, then the denominator, then the factor of x."""
    taken = 0
    while equation.shown_answer is None:
        taken += 1
        steps = (implied_step(equation, action) for action in ALGEBRA if action != "simplify")
        step = next((s for s in steps if s is not None), None)
        after = None if step is None else apply_step(equation, step)
        if step is None or after is None or taken > len(ALGEBRA):
            raise ValueError(f"{equation} cannot be solved by actions without arguments")
        yield step
        equation = after


def _lower_bound(equation: Equation) -> float:
    """An admissible estimate of the cost: no path is cheaper.

    x must leave one side, the number must leave the other, x must lose its factor, and no
    denominator may stay under a sum. Exact for an equation without brackets or like terms.
    """
    left, right = equation.coefficients
    fractions = [f for side in (equation.left, equation.right) for f in _fractions(side)]
    return min(_cost(left, right, fractions), _cost(right, left, fractions))


def _cost(keep: Linear, clear: Linear, fractions: Sequence[Term] = ()) -> float:
    factor = keep.x - clear.x
    scalings = int(factor != 1)
    if fractions:
        # One multiplication can do both only if what frees x also removes every denominator.
        scalings = 1 if all(_is_cleared(term.scaled(1 / factor)) for term in fractions) else 2
    return STEP * ((clear.x != 0) + (keep.number != 0) + scalings)


def _fractions(side: Side) -> Iterator[Term]:
    """The sums with a denominator that `simplify` keeps."""
    return (t for t in side if t.kind == "bracket" and not _is_cleared(t))


def _is_cleared(term: Term) -> bool:
    if term.factor.denominator == 1:
        return True
    inside = collect(term.inside)
    return all((term.factor * part).denominator == 1 for part in inside)


def _search(equation: Equation, budget: float) -> tuple[Step, ...] | None:
    """Steps that cost at most `budget`, by depth-first search; None when there are none."""
    if _lower_bound(equation) > budget:
        return None
    if equation.is_plain:
        return tuple(_plain_path(*equation.coefficients))
    for step in _candidates(equation):
        after = apply_step(equation, step)
        if after is not None and after != equation:
            rest = _search(after, budget - PRICE[step.action])
            if rest is not None:
                return (step, *rest)
    return None


def _plain_path(left: Linear, right: Linear) -> Iterator[Step]:
    """Steps for `ax + b = cx + d`: x to one side, the number to the other, the factor away."""
    keep, clear = min(
        ((left, right), (right, left)),
        key=lambda sides: (_cost(*sides), sides[0].x < sides[1].x),
    )
    if clear.x:
        yield removal_of(variable(clear.x))
    if keep.number:
        yield removal_of(number(keep.number))
    if keep.x - clear.x != 1:
        yield scaling_to_one(keep.x - clear.x)


def _candidates(equation: Equation) -> Iterator[Step]:
    """Steps worth trying where there are brackets or like terms."""
    both = equation.left + equation.right
    denominator = common_denominator(both)
    if denominator > 1:
        yield Step(action="multiply_terms", term=number(denominator))
    yield Step(action="simplify")
    left, right = equation.coefficients
    final = left.x - right.x  # the factor of x once all x are on one side
    factors = [t.factor for t in both if t.kind == "bracket"] + [final, -final]
    yield from (scaling_to_one(f) for f in dict.fromkeys(factors) if f != 1)
    yield from (removal_of(t) for t in dict.fromkeys(both) if t.kind != "bracket")


IDENTIFY_PAY = 1.5
SET_UP_PAY = 1.0
ANSWER_PAY = 3.0
PENALTY = -0.5
"""Pay of a turn that brings the solution no nearer."""

ACTION_NAMES = ("identify_operation", "set_up_equation", *ALGEBRA, "state_answer")
SYNTAX = {
    "add_terms": term_syntax,
    "subtract_terms": term_syntax,
    "multiply_terms": factor_syntax,
    "divide_terms": factor_syntax,
    "state_answer": answer_syntax,
}
NAMED_ACTIONS = tuple(ActionForm(name=name) for name in ACTION_NAMES)
"""The actions of the lower levels: names only."""
WRITTEN_ACTIONS = tuple(ActionForm(name=n, argument=SYNTAX.get(n)) for n in ACTION_NAMES)
"""The actions of the higher levels: the policy writes the term too."""

IDENTIFIED = {
    "add_terms": "minus",
    "subtract_terms": "plus",
    "multiply_terms": "over",
    "divide_terms": "times",
}
"""What `identify_operation` answers: the operation on x, by the step that undoes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """State of an episode."""

    equation: Equation
    solution: Fraction
    """Of the original problem, so that no step of the policy can change what is correct."""
    written: bool
    """Whether actions carry arguments."""
    in_words: bool
    """Whether the equation has still to be set up."""
    lowest: float
    """The minimum of `remaining_pay` so far."""
    has_paid: bool = False
    ending: Literal["right", "wrong"] | None = None
    stated: Fraction | None = None
    """The answer that ended the episode, if one was given."""

    @property
    def shown(self) -> str:
        """The equation as the policy sees it."""
        return "no equation yet" if self.in_words else str(self.equation)


class Turn(NamedTuple):
    """The result of one action."""

    state: State
    pay: float
    observation: str


def start(equation: Equation, *, in_words: bool, written: bool) -> State:
    """The state an episode begins in."""
    if equation.solution is None:
        raise ValueError(f"{equation} does not have exactly one solution")
    return State(
        equation=equation,
        solution=equation.solution,
        written=written,
        in_words=in_words,
        lowest=remaining_pay(equation, written=written),
    )


def full_marks(state: State) -> float:
    """The total reward of the reference; no episode earns more."""
    return IDENTIFY_PAY + (SET_UP_PAY if state.in_words else 0.0) + state.lowest + ANSWER_PAY


def reference_actions(state: State) -> tuple[str, ...]:
    """The actions of a full-marks episode from the start."""
    steps = remaining_steps(state.equation, written=state.written)
    algebra = [str(step) if state.written else step.action for step in steps]
    answer = f"state_answer {state.solution}" if state.written else "state_answer"
    set_up = ["set_up_equation"] if state.in_words else []
    return ("identify_operation", *set_up, *algebra, answer)


def play(state: State, text: str) -> Turn:
    """Take one action.

    >>> from practicum_envs.math.equation import parse_equation
    >>> begin = start(parse_equation("3x + 7 = 16"), in_words=False, written=False)
    >>> play(begin, "subtract_terms")[1:]
    (2.0, '3x = 9')
    """
    name, argument = _read(text)
    takes_argument = state.written and name in SYNTAX
    if name not in ACTION_NAMES or takes_argument != bool(argument):
        return _rejected(state)
    if name == "identify_operation":
        return _identify(state)
    if name == "set_up_equation":
        return _set_up(state)
    if name == "state_answer":
        return _answer(state, argument)
    return _algebra(state, name, argument)


def _read(text: str) -> tuple[str, str]:
    """Name and argument of an action; an empty name when the text is not one action."""
    plain = re.sub(r"^action\s*:", "", text.strip().strip("`'\"*").lower().strip())
    match = re.fullmatch(r"([a-z_]+)(?:[ \t]+(\S[^\n]*?))?[ \t]*\.?", plain.strip())
    return (match[1], match[2] or "") if match else ("", "")


def _rejected(state: State) -> Turn:
    return Turn(state, PENALTY, f"not valid: {state.shown}")


def _identify(state: State) -> Turn:
    pay = PENALTY if state.has_paid else IDENTIFY_PAY
    return Turn(replace(state, has_paid=True), pay, f"{_next_obstacle(state)}: {state.shown}")


def _next_obstacle(state: State) -> str:
    if state.in_words:
        return "in words"
    steps = remaining_steps(state.equation, written=state.written)
    if not steps:
        return "solved"
    action = steps[0].action
    if action == "simplify":
        both = state.equation.left + state.equation.right
        return "brackets" if any(t.kind == "bracket" for t in both) else "like terms"
    term = steps[0].term
    left, right = state.equation.coefficients
    moves_x = term is not None and term.kind == "x"
    return "x on both sides" if moves_x and left.x and right.x else IDENTIFIED[action]


def _set_up(state: State) -> Turn:
    if not state.in_words:
        return _rejected(state)
    after = replace(state, in_words=False, has_paid=True)
    return Turn(after, SET_UP_PAY, after.shown)


def _algebra(state: State, name: str, argument: str) -> Turn:
    step = None if state.in_words else _step(state, name, argument)
    equation = None if step is None else apply_step(state.equation, step)
    if equation is None or equation.largest > LARGEST_NUMBER:
        return _rejected(state)
    remaining = remaining_pay(equation, written=state.written)
    gain = min(PRICE[name], max(0.0, state.lowest - remaining))
    after = replace(
        state,
        equation=equation,
        lowest=min(state.lowest, remaining),
        has_paid=state.has_paid or gain > 0.0,
    )
    return Turn(after, gain or PENALTY, after.shown)


def _step(state: State, name: str, argument: str) -> Step | None:
    if not state.written:
        return implied_step(state.equation, name)
    if name == "simplify":
        return Step(action=name)
    term = parse_term(argument)
    return None if term is None else Step(action=name, term=term)


def _answer(state: State, argument: str) -> Turn:
    shown = None if state.in_words else state.equation.shown_answer
    if shown is None:
        return _rejected(state)
    stated = shown
    if state.written:
        term = parse_term(argument)
        if term is None or term.kind != "number":
            return _rejected(state)
        stated = term.factor
    is_right = stated == shown == state.solution
    ending: Literal["right", "wrong"] = "right" if is_right else "wrong"
    after = replace(state, ending=ending, stated=stated, has_paid=True)
    return Turn(after, ANSWER_PAY if is_right else PENALTY, f"{ending}: {state.shown}")
