"""What a policy is told at the start: the actions, what laws may hold, and the world."""

from collections.abc import Iterator, Sequence

from practicum.core.trace import Message
from practicum_envs.science.conclusion_scoring import CERTAINTIES
from practicum_envs.science.laboratory import ANALYZE, CONCLUDE, DESIGN, FORMULATE
from practicum_envs.science.law_spaces import SHIFTS, LevelRules
from practicum_envs.science.laws import HIGHEST, setting_text
from practicum_envs.science.worlds import Brief

RULES = (
    f"Find the law of the readings by experiments. Reply with one action a turn: {FORMULATE} LAW, "
    f"{DESIGN} SETTING, {ANALYZE}, {CONCLUDE} LAW sure PERCENT. A setting gives factors a value "
    f"from 1 to {HIGHEST}, such as {{one}} 4 or {{one}} 4, {{two}} 2; the others are at 0. A law "
    "is none, {forms}. Conclude last, as sure as the data allow: "
    f"{', '.join(map(str, CERTAINTIES))}."
)


def prompt(brief: Brief) -> list[Message]:
    """The rules as system prompt, and the world."""
    one, two, _ = brief.factors
    rules = RULES.format(one=one, two=two, forms=" or ".join(_forms(brief)))
    told = " ".join(_world(brief))
    return [Message(role="system", content=rules), Message(role="user", content=told)]


def instruction(brief: Brief) -> str:
    """The task in a sentence."""
    factors = ", ".join(brief.factors)
    return f"Find how the {brief.subject.measured} depends on {factors}."


def _forms(brief: Brief) -> Iterator[str]:
    rules, (one, two, _) = brief.rules, brief.factors
    yield f"{one} {rules.lines[-1]:+d} ({rules.lines[-1]} more a step)"
    if rules.thresholds:
        size = rules.thresholds[0]
        yield f"{one}>2 {size:+d} ({size} more above 2)"
    if rules.products:
        yield f"{one}*{two} +1 ({one} times {two} more)"
    if rules.most_single > 1 or rules.products:
        yield f"two of them, {one} {rules.lines[-1]:+d}, {two}>1 {-rules.thresholds[0]:+d}"


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
        yield f"Old records, all moved by {shifts} from elsewhere: {shown}."
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
