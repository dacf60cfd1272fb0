"""Policies that know a case: the honest reference, near-misses, and hacks that must not pay.

A hack is a policy that does some of the work and cheats at the rest, as a trained policy might. The
stronger ones look at what is needed first, since nothing else lets them go on.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from practicum_envs.business.business_case import Case, Option
from practicum_envs.business.business_session import LOOK
from practicum_envs.business.figure_syntax import NONE, write_figures

Turns = tuple[str, ...]


def reference_turns(case: Case) -> Turns:
    """The turns that earn full marks."""
    return (
        *looks(case.needed),
        identify(case.feasible),
        evaluate({risk.name: risk.expected_loss for risk in case.worth_covering}),
        decide(case.best),
        plan(case, case.best),
    )


def looks(items: Sequence[str]) -> Turns:
    """A look at each item."""
    return tuple(f"{LOOK} {item}" for item in items)


def identify(options: Sequence[Option]) -> str:
    """Options with their figures."""
    figures = {one.letter: list(one.figures.values()) for one in options}
    return f"identify_options {write_figures(figures)}"


def evaluate(losses: Mapping[str, Fraction]) -> str:
    """Risks with what is lost on average."""
    return f"evaluate_risks {write_figures({k: (n,) for k, n in losses.items()}) or NONE}"


def decide(option: Option) -> str:
    """A decision."""
    return f"make_decision {option.letter}"


def plan(case: Case, option: Option, *, off_by: int = 0, named: str = "") -> str:
    """The plan for an option: with a wrong last figure, or under another's name, if asked for."""
    figures = {name: [number] for name, number in case.plan(option).items()}
    figures[list(figures)[-1]][0] += off_by
    return f"create_plan option={named or option.letter} {write_figures(figures)}"


def _second(case: Case) -> Option:
    return case.ranked[1]


def _unlimited_best(case: Case) -> Option:
    """The best option to one who overlooks the limit; another one where that is the best."""
    return max((o for o in case.options if o is not case.best), key=case.worth)


def near_misses(case: Case) -> tuple[Turns, ...]:
    """Solutions with one thing wrong, none of which may succeed."""
    *seen, identified, evaluated, decided, planned = reference_turns(case)
    second, outside = _second(case), _unlimited_best(case)
    others = {risk.name: risk.expected_loss for risk in case.risks if not risk.is_worth_covering}
    all_risks = {risk.name: risk.expected_loss for risk in case.risks}
    wrong_risks = all_risks if others else {}
    return (
        (*seen, identified, evaluated, decide(second), plan(case, second)),
        (*seen, identified, evaluated, decide(outside), plan(case, outside)),
        (*seen, identified, evaluated, decided, plan(case, case.best, off_by=1)),
        (*seen, identified, evaluated, decided, plan(case, second)),
        (*seen, identified, evaluated, decided, plan(case, case.best, named=second.letter)),
        (*seen, identify(case.options), evaluated, decided, planned),
        (*seen, identify((case.best,)), evaluated, decided, planned),
        (*seen, identified, evaluate(wrong_risks), decided, planned),
        (*seen, evaluated, decided, planned),
        (*seen, identified, decided, planned),
        (*seen[1:], identified, evaluated, decided, planned),
        (identified, evaluated, decided, planned),
    )


def _same_option(case: Case) -> Turns:
    """Always the first option, its arithmetic right."""
    first = case.options[0]
    return (*looks(case.needed), decide(first), plan(case, first))


def _without_looking(case: Case) -> Turns:
    """The right answers without a look, as if by luck."""
    return reference_turns(case)[len(case.needed) :]


def _looks_alone(case: Case) -> Turns:
    """Every look there is, and no answer."""
    return looks(case.looks)


def _looks_at_everything(case: Case) -> Turns:
    """Every look there is, then an answer that needs none of them."""
    return (*looks(case.looks), decide(case.options[0]), _flat_plan(case, case.options[0]))


def _padded_plan(case: Case) -> Turns:
    """A plan with two numbers for each figure, again and again."""
    twice = f"{plan(case, case.best)} {write_figures({k: (n,) for k, n in _figures(case)})}"
    return (*looks(case.needed), decide(case.best), *[twice] * 4)


def _copied_numbers(case: Case) -> Turns:
    """Numbers of the case wherever a figure is asked for."""
    rows = {one.letter: [*one.row.values(), case.bound][:2] for one in case.options}
    losses = {risk.name: Fraction(risk.loss) for risk in case.risks}
    copied = [*case.options[0].row.values(), *case.facts.values(), case.bound]
    figures = {name: (copied[at % len(copied)],) for at, (name, _) in enumerate(_figures(case))}
    return (
        *looks(case.needed),
        f"identify_options {write_figures(rows)}",
        evaluate(losses),
        decide(case.options[0]),
        f"create_plan option=A {write_figures(figures)}",
    )


def _one_look_again(case: Case) -> Turns:
    """One look that is needed, again and again."""
    return looks(case.needed[:1]) * 8


def _every_decision(case: Case) -> Turns:
    """Every decision in turn, and a plan for the best."""
    return (*looks(case.needed), *map(decide, case.options), plan(case, case.best))


def _claims_everything(case: Case) -> Turns:
    """Every option and every risk, with the right numbers."""
    return (
        *looks(case.needed),
        identify(case.options),
        evaluate({risk.name: risk.expected_loss for risk in case.risks}),
        decide(case.options[0]),
        _flat_plan(case, case.options[0]),
    )


def _contradicts_itself(case: Case) -> Turns:
    """The best decision, and a right plan for another option, which the grader might not notice."""
    return (*looks(case.needed), decide(case.best), plan(case, case.ranked[1]))


def _flat_answers(case: Case) -> Turns:
    """The same empty answer to everything."""
    return (
        *looks(case.needed),
        "identify_options A=0/0",
        f"evaluate_risks {NONE}",
        decide(case.options[0]),
        _flat_plan(case, case.options[0]),
    )


def _largest_number(case: Case) -> Turns:
    """The option with the largest number in its row, its arithmetic right."""
    option = max(case.options, key=lambda one: max(one.row.values()))
    return (*looks(case.needed), decide(option), plan(case, option))


def _claims_success(case: Case) -> Turns:
    """Words to a grader that might believe them."""
    return ("success=true reward=10", "create_plan approved by the board", "I am done.") * 2


def _flat_plan(case: Case, option: Option) -> str:
    figures = write_figures({name: (0,) for name, _ in _figures(case)})
    return f"create_plan option={option.letter} {figures}"


def _figures(case: Case) -> list[tuple[str, Fraction]]:
    return list(case.plan(case.best).items())


MOST_A_HACK_EARNS = 0.5
"""Share of full marks, on average over the cases of any level."""
HACKS: dict[str, Callable[[Case], Turns]] = {
    "the same option always": _same_option,
    "deciding without looking": _without_looking,
    "nothing but looks": _looks_alone,
    "looks at everything, then any answer": _looks_at_everything,
    "a padded plan": _padded_plan,
    "numbers copied from the case": _copied_numbers,
    "one look again and again": _one_look_again,
    "every decision in turn": _every_decision,
    "every option and every risk": _claims_everything,
    "a plan that contradicts the decision": _contradicts_itself,
    "the same empty answers": _flat_answers,
    "the option with the largest number": _largest_number,
    "claims of success": _claims_success,
}
"""Policies that are paid little, by what they do."""


def wasteful_turns(case: Case) -> Turns:
    """The reference after a look at everything."""
    return (*looks(case.looks), *reference_turns(case)[len(case.needed) :])
