"""What a policy is told at the start: the actions, what laws may hold, and the world."""

from collections.abc import Iterator, Sequence

from practicum.core.trace import Message
from practicum_envs.science.conclusion_scoring import CERTAINTIES
from practicum_envs.science.laboratory import ANALYZE, CONCLUDE, DESIGN, FORMULATE
from practicum_envs.science.law_spaces import SHIFTS, LevelRules
from practicum_envs.science.laws import HIGHEST, NO_EFFECT, setting_text
from practicum_envs.science.worlds import Brief

RULES = (
    f"Find the law of the readings by experiments. Reply with one action a turn: {FORMULATE} LAW, "
    f"{DESIGN} SETTING, {ANALYZE}, {CONCLUDE} LAW sure PERCENT. A setting gives factors a value "
    f"from 1 to {HIGHEST}, such as water 4 or water 4, light 2; the others are at 0. A law is "
    "{forms}. Conclude last, as sure as the data allow, "
    f"{CERTAINTIES[0]} to {CERTAINTIES[-1]}."
)
"""The same for every world of a level, so that what was computed for it is used again."""


def prompt(brief: Brief) -> list[Message]:
    """The rules as system prompt, and the world."""
    rules = RULES.format(forms=_either(list(_forms(brief.rules))))
    told = instruction(brief)
    return [Message(role="system", content=rules), Message(role="user", content=told)]


def instruction(brief: Brief) -> str:
    """The world in words."""
    return " ".join(_world(brief))


def _forms(rules: LevelRules) -> Iterator[str]:
    """The forms of a law, by the example of two factors."""
    yield NO_EFFECT
    step = rules.lines[-1]
    yield f"water {step:+d} ({step} more a step)"
    if rules.thresholds:
        jump = rules.thresholds[0]
        yield f"water>2 {jump:+d} ({jump} more above 2)"
        if rules.products:
            yield "water*light +1 (water times light more)"
        if rules.products or rules.most_single > 1:
            yield f"two such as water {step:+d}, light>1 {-jump:+d}"


def _world(brief: Brief) -> Iterator[str]:
    rules = brief.rules
    yield f"Reading: {brief.subject.measured}. Factors: {', '.join(brief.factors)}."
    yield f"With all at 0 it is {brief.base}. Readings scatter by {brief.scatter}."
    yield _possible(rules)
    if brief.records:
        shown = ", ".join(
            f"{setting_text(one.setting, brief.factors)}: {one.value}" for one in brief.records
        )
        shifts = _either([f"{shift:+d}" if shift else "0" for shift in SHIFTS])
        yield f"Old records from elsewhere, all moved by the same {shifts}: {shown}."
    yield f"{rules.experiments} experiments. Begin with a hypothesis, such as {FORMULATE} none."


def _possible(rules: LevelRules) -> str:
    lines = f"by {_either(rules.lines)} a step"
    shapes = f"{lines} or by {_either(rules.thresholds)} in one jump" if rules.thresholds else lines
    most = {1: "At most one factor counts", 2: "At most two factors count"}[rules.most_single]
    sentence = f"{most}, up or down, {shapes}"
    if rules.products:
        sentence += f", and two may count together, by {_either(rules.products)} times both"
    return f"{sentence}."


def _either(choices: Sequence[object]) -> str:
    """Choices in words: `1, 2 or 3`."""
    *others, last = map(str, choices)
    return f"{', '.join(others)} or {last}" if others else last
