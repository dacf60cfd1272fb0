"""A case in words: the rules and what is shown of it before anything is looked at."""

from collections.abc import Iterator, Mapping

from practicum_envs.business.business_case import Case

RULES = """You run a business. Reply with one action a turn.
analyze_situation ITEM: see one item's number. A look costs; look only at what the answer needs.
identify_options A=3/9 C=2/7: every option within the limit, with both figures.
evaluate_risks NAME=4: every risk with chance x loss above its cover, with chance x loss; or none.
make_decision A: the best option within the limit.
create_plan option=A and its figures: ends the case."""
AFTER_RISKS = """
risk of an option: for each risk that hits it, the smaller of cover and chance x loss.
expected: the value after risk. The best option is best by expected."""


def rules_of(case: Case) -> str:
    """The system prompt."""
    return RULES if case.is_plain else f"{RULES}{AFTER_RISKS}"


def statement_of(case: Case) -> str:
    """The case as it is shown at first."""
    return "\n".join(_lines(case))


def _lines(case: Case) -> Iterator[str]:
    family = case.family
    yield case.story
    for option in case.options:
        yield f"{option.letter}: {_named(option.row)}"
    known = {name: number for name, number in case.facts.items() if name not in case.needed}
    if known:
        yield f"Known: {_named(known)}"
    value = list(case.options[0].figures)[-1]
    yield f"Figures: {'/'.join(case.options[0].figures)}: {family.formula}"
    yield f"Best: {'lowest' if family.lowest_is_best else 'highest'} {value}"
    bound = family.limit.name if family.limit.name in case.needed else case.bound
    yield f"Limit: {family.limit.on} at {'least' if family.limit.at_least else 'most'} {bound}"
    for risk in case.risks:
        chance = risk.chance_item if risk.chance_item in case.needed else f"{risk.chance}%"
        hits = "" if case.is_plain else f", hits {' '.join(risk.hits)}"
        yield f"Risk {risk.name}: chance {chance}, loss {risk.loss}, cover {risk.cover}{hits}"
    yield f"Items: {', '.join(case.looks)}"
    yield f"Plan: option, {', '.join(case.plan(case.best))}"


def _named(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items())
