"""The rules of an episode as a pure function: state and text in, state and pay out.

What pays, and when:

* `identify_operation` 1.5, once, and only before anything else has paid.
* `set_up_equation` 1.0, once, where the problem is in words.
* An algebra step earns what it takes off the lowest `remaining_pay` reached so far, at most its
  price: 2.0 for adding, subtracting, multiplying or dividing, 1.0 for `simplify`. A step that
  gets no nearer pays 0, so circles, detours and repetitions never pay.
* `state_answer` 3.0 when the equation shows the answer and the answer is right. Otherwise it pays
  -0.5. Either way it ends the episode.
* Anything unknown, malformed or not valid here pays -0.5 and changes nothing.
"""

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, NamedTuple

from practicum.core.sampling import ActionForm
from practicum.environments.discrete.math.arguments import (
    answer_syntax,
    factor_syntax,
    term_syntax,
)
from practicum.environments.discrete.math.equation import Equation
from practicum.environments.discrete.math.parse import parse_term
from practicum.environments.discrete.math.solver import remaining_pay, remaining_steps
from practicum.environments.discrete.math.steps import (
    ALGEBRA,
    LARGEST_NUMBER,
    PRICE,
    Step,
    apply_step,
    implied_step,
)

__all__ = [
    "NAMED_ACTIONS",
    "WRITTEN_ACTIONS",
    "State",
    "Turn",
    "full_marks",
    "play",
    "reference_actions",
    "start",
]

IDENTIFY_PAY = 1.5
SET_UP_PAY = 1.0
ANSWER_PAY = 3.0
PENALTY = -0.5

ACTION_NAMES = ("identify_operation", "set_up_equation", *ALGEBRA, "state_answer")
SYNTAX = {
    "add_terms": term_syntax,
    "subtract_terms": term_syntax,
    "multiply_terms": factor_syntax,
    "divide_terms": factor_syntax,
    "state_answer": answer_syntax,
}
NAMED_ACTIONS = tuple(ActionForm(name=name) for name in ACTION_NAMES)
"""The actions where a name says it all."""
WRITTEN_ACTIONS = tuple(ActionForm(name=n, argument=SYNTAX.get(n)) for n in ACTION_NAMES)
"""The actions where the policy writes the term too."""

IDENTIFIED = {
    "add_terms": "minus",
    "subtract_terms": "plus",
    "multiply_terms": "over",
    "divide_terms": "times",
}
"""What stands in the way of x, by the step that undoes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where an episode stands."""

    equation: Equation
    solution: Fraction
    """Of the problem as it was set, so that an answer is never judged by what play made of it."""
    written: bool
    """Whether actions carry arguments."""
    in_words: bool
    """Whether the equation has still to be set up."""
    lowest: float
    """The lowest remaining pay reached so far."""
    has_paid: bool = False
    ending: Literal["right", "wrong"] | None = None
    stated: Fraction | None = None
    """The answer that ended the episode, if one was given."""

    @property
    def shown(self) -> str:
        """What the policy is shown of it."""
        return "no equation yet" if self.in_words else str(self.equation)


class Turn(NamedTuple):
    """What one action came to."""

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
    """What the reference earns from the start; no play earns more."""
    return IDENTIFY_PAY + (SET_UP_PAY if state.in_words else 0.0) + state.lowest + ANSWER_PAY


def reference_actions(state: State) -> tuple[str, ...]:
    """The actions of a full-marks episode from the start."""
    steps = remaining_steps(state.equation, written=state.written)
    algebra = [str(step) if state.written else step.action for step in steps]
    answer = f"state_answer {state.solution}" if state.written else "state_answer"
    set_up = ["set_up_equation"] if state.in_words else []
    return ("identify_operation", *set_up, *algebra, answer)


def play(state: State, text: str) -> Turn:
    """One turn.

    >>> from practicum.environments.discrete.math.parse import parse_equation
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
    pay = 0.0 if state.has_paid else IDENTIFY_PAY
    return Turn(replace(state, has_paid=True), pay, f"{_in_the_way(state)}: {state.shown}")


def _in_the_way(state: State) -> str:
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
    pay = min(PRICE[name], max(0.0, state.lowest - remaining))
    after = replace(
        state,
        equation=equation,
        lowest=min(state.lowest, remaining),
        has_paid=state.has_paid or pay > 0.0,
    )
    return Turn(after, pay, after.shown)


def _step(state: State, name: str, argument: str) -> Step | None:
    if not state.written:
        return implied_step(state.equation, name)
    if name == "simplify":
        return Step(action=name)
    term = parse_term(argument)
    return None if term is None else Step(action=name, term=term)


def _answer(state: State, argument: str) -> Turn:
    shown = None if state.in_words else state.equation.shown_answer
    stated = shown
    if state.written:
        term = parse_term(argument)
        if term is None or term.kind != "number":
            return _rejected(state)
        stated = term.factor
    is_right = shown is not None and stated == shown == state.solution
    ending: Literal["right", "wrong"] = "right" if is_right else "wrong"
    after = replace(state, ending=ending, stated=stated, has_paid=True)
    return Turn(after, ANSWER_PAY if is_right else PENALTY, f"{ending}: {state.shown}")
