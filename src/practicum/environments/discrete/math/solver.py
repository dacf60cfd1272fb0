"""The cheapest way to finish, from any equation that play can reach.

`remaining_pay` is the potential that rewards are made of: what the steps still to be done would
pay. An algebra step earns what it takes off the lowest potential reached so far, so no play,
however long or clever, earns more than the reference path.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from practicum.environments.discrete.math.equation import (
    Equation,
    Linear,
    Side,
    Term,
    collect,
    common_denominator,
    number,
    variable,
)
from practicum.environments.discrete.math.steps import (
    ALGEBRA,
    PRICE,
    Step,
    apply_step,
    implied_step,
    scale_away,
    take_away,
)

__all__ = ["remaining_pay", "remaining_steps"]

STEP = PRICE["add_terms"]
"""What any step but `simplify` costs."""

MOST = 20.0
"""More than any equation takes: clearing denominators and simplifying, once for each depth of
brackets, and three steps after that."""

CACHE_SIZE = 1 << 14


def remaining_pay(equation: Equation, *, written: bool) -> float:
    """What the cheapest steps from here to `x = number` pay together."""
    return sum(PRICE[step.action] for step in remaining_steps(equation, written=written))


@lru_cache(maxsize=CACHE_SIZE)
def remaining_steps(equation: Equation, *, written: bool) -> tuple[Step, ...]:
    """The cheapest steps from here to `x = number`.

    `written` says whether steps carry a term of the policy's choice; without it only the steps
    that the equation itself implies are open.

    >>> from practicum.environments.discrete.math.parse import parse_equation
    >>> [str(s) for s in remaining_steps(parse_equation("2(x + 3) = x - 1"), written=True)]
    ['simplify', 'subtract_terms x', 'subtract_terms 6']
    """
    if not written:
        return tuple(_implied_path(equation))
    budget = _least(equation)
    while budget <= MOST:
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


def _least(equation: Equation) -> float:
    """What is needed at least, whatever the path.

    x must leave one side, the number must leave the other, x must stand without a factor, and no
    sum may stay over a denominator. For an equation without brackets or like terms this is the
    exact cost.
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
    """Sums over a denominator that `simplify` leaves as they are."""
    return (t for t in side if t.kind == "bracket" and not _is_cleared(t))


def _is_cleared(term: Term) -> bool:
    if term.factor.denominator == 1:
        return True
    inside = collect(term.inside)
    return all((term.factor * part).denominator == 1 for part in inside)


def _search(equation: Equation, budget: float) -> tuple[Step, ...] | None:
    """Steps that cost at most `budget`, found depth first; None when there are none."""
    if _least(equation) > budget:
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
        yield take_away(variable(clear.x))
    if keep.number:
        yield take_away(number(keep.number))
    if keep.x - clear.x != 1:
        yield scale_away(keep.x - clear.x)


def _candidates(equation: Equation) -> Iterator[Step]:
    """Steps worth trying where there are brackets or like terms."""
    both = equation.left + equation.right
    denominator = common_denominator(both)
    if denominator > 1:
        yield Step(action="multiply_terms", term=number(denominator))
    yield Step(action="simplify")
    left, right = equation.coefficients
    in_the_end = left.x - right.x
    factors = [t.factor for t in both if t.kind == "bracket"] + [in_the_end, -in_the_end]
    yield from (scale_away(f) for f in dict.fromkeys(factors) if f != 1)
    yield from (take_away(t) for t in dict.fromkeys(both) if t.kind != "bracket")
