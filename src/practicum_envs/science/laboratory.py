"""The rules of an episode: what each action does and pays, and what is said to it.

Turns may come in any order. An experiment costs one of the budget, whether or not it tells anything
new; a conclusion ends the episode. `conclusion_scoring` has the prices.
"""

import re
from collections.abc import Mapping
from statistics import fmean
from typing import NamedTuple

from practicum.core.task import JSON
from practicum_envs.science.conclusion_scoring import (
    ANALYSIS_PAY,
    CERTAINTIES,
    EXPERIMENTS_PAY,
    HYPOTHESIS_PAY,
    USELESS,
    Verdict,
    prediction_skill,
    share_told,
)
from practicum_envs.science.law_spaces import law_space
from practicum_envs.science.law_syntax import LONGEST, syntax_of
from practicum_envs.science.laws import Law, Setting, change, law_text, setting_text
from practicum_envs.science.posterior import Reading
from practicum_envs.science.worlds import World

FORMULATE = "formulate_hypothesis"
DESIGN = "design_experiment"
ANALYZE = "analyze_data"
CONCLUDE = "draw_conclusions"
ACTIONS = (FORMULATE, DESIGN, ANALYZE, CONCLUDE)
SHORT = {name[0]: name for name in (FORMULATE, DESIGN, ANALYZE)} | {"c": CONCLUDE}
"""Letters that a person may type for the actions."""
ACTION = re.compile(
    rf"(?:action\s*:\s*)?({'|'.join(ACTIONS)})(?:[ \t]+(\S[^\n]*?))?[ \t]*\.?", re.IGNORECASE
)


class Turn(NamedTuple):
    """The result of one action."""

    pay: float
    said: str


class Laboratory:
    """One episode in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.brief = world.brief
        self.readings: tuple[Reading, ...] = ()
        self.hypothesis: Law | None = None
        self.verdict: Verdict | None = None
        self.concluded: Law | None = None
        self._syntax = syntax_of(self.brief.level, self.brief.factors)
        self._beliefs = self.brief.beliefs()
        self._at_start = self._beliefs.entropy
        self._told = 0.0
        self._analysed = 0.0
        self._seen_by_analysis = 0

    @property
    def experiments_left(self) -> int:
        """Of the budget."""
        return self.brief.rules.experiments - len(self.readings)

    @property
    def is_over(self) -> bool:
        """Whether a conclusion was drawn."""
        return self.verdict is not None

    def act(self, text: str) -> Turn:
        """Carry one action out; what cannot be read costs the turn."""
        plain = text.strip().strip("`'\"*").strip() if len(text) <= LONGEST else ""
        found = ACTION.fullmatch(plain)
        if found is None:
            return Turn(USELESS, f"Not an action. Reply with one of {', '.join(self.possible)}.")
        name, argument = found[1].lower(), found[2] or ""
        if name == ANALYZE:
            return self._analyze(argument)
        if name == FORMULATE:
            return self._formulate(self._syntax.read_law(argument))
        if name == DESIGN:
            return self._design(self._syntax.read_setting(argument))
        return self._conclude(argument)

    @property
    def possible(self) -> tuple[str, ...]:
        """The names of the actions that can be taken now."""
        return (FORMULATE, *([DESIGN] if self.experiments_left else []), ANALYZE, CONCLUDE)

    def _formulate(self, law: Law | None) -> Turn:
        if law is None:
            return Turn(
                USELESS,
                f"Not a law that may be true here. Write one such as {FORMULATE} {self._a_law}.",
            )
        is_first = self.hypothesis is None and not self.readings
        is_new = law != self.hypothesis
        self.hypothesis = law
        said = f"Hypothesis: {law_text(law, self.brief.factors)}. {self._fit(law)}"
        return Turn(HYPOTHESIS_PAY if is_first else 0.0 if is_new else USELESS, said)

    @property
    def _a_law(self) -> str:
        """One that may be true, as an example."""
        return law_text(law_space(self.brief.level).laws[1], self.brief.factors)

    def _fit(self, law: Law) -> str:
        if not self.readings:
            return f"{self.experiments_left} experiments to test it."
        miss = max(abs(self._change_at(s) - change(law, s)) for s in self._tried())
        return f"It misses the data by up to {_short(miss)}."

    def _design(self, setting: Setting | None) -> Turn:
        names = self.brief.factors
        if setting is None:
            return Turn(USELESS, f"Not a setting. Write one such as {DESIGN} {names[0]} 4.")
        if not self.experiments_left:
            return Turn(USELESS, "No experiments left. Analyze the data, then conclude.")
        repeat = sum(one.setting == setting for one in self.readings)
        reading = self.world.measure(setting, repeat)
        self.readings = (*self.readings, reading)
        self._beliefs = self._beliefs.after(reading)
        told = max(self._told, share_told(self._at_start, self._beliefs.entropy))
        pay, self._told = EXPERIMENTS_PAY * (told - self._told), told
        left = self.experiments_left or "no"
        return Turn(pay, f"{setting_text(setting, names)}: {reading.value}. {left} left.")

    def _analyze(self, argument: str) -> Turn:
        if argument:
            return Turn(USELESS, f"{ANALYZE} stands alone.")
        if len(self.readings) == self._seen_by_analysis:
            nothing = "no experiment was done" if not self.readings else "nothing is new"
            return Turn(USELESS, f"Nothing to analyze: {nothing}.")
        self._seen_by_analysis = len(self.readings)
        pay, self._analysed = ANALYSIS_PAY * (self._told - self._analysed), self._told
        changes = "; ".join(self._change_text(setting) for setting in self._tried())
        return Turn(pay, f"Changes from {self.brief.base}: {changes}.")

    def _change_text(self, setting: Setting) -> str:
        """What was measured at a setting, on average, as a change from the start."""
        found = self._change_at(setting)
        text = f"{setting_text(setting, self.brief.factors)}: {_short(found)}"
        alone = [value for value in setting if value]
        return f"{text} ({_short(found / alone[0])} a step)" if len(alone) == 1 else text

    def _change_at(self, setting: Setting) -> float:
        return fmean(r.value for r in self.readings if r.setting == setting) - self.brief.base

    def _tried(self) -> list[Setting]:
        """Each setting once, in order."""
        return list(dict.fromkeys(one.setting for one in self.readings))

    def _conclude(self, argument: str) -> Turn:
        stated = self._syntax.read_conclusion(argument)
        if stated is None:
            sure = ", ".join(map(str, CERTAINTIES))
            return Turn(
                USELESS,
                f"Not a conclusion. Write one such as {CONCLUDE} {self._a_law} sure 50; as sure as "
                f"{sure}.",
            )
        self.concluded = stated.law
        self.verdict = Verdict(
            probability=self._beliefs.of(stated.law),
            percent=stated.percent,
            told=self._told,
            skill=prediction_skill(self.brief.level, stated.law, self.world.law, self._tried()),
            is_true=stated.law == self.world.law,
        )
        return Turn(self.verdict.pay, self._judged(self.verdict))

    def _judged(self, verdict: Verdict) -> str:
        law = law_text(self.world.law, self.brief.factors)
        likely, right = (f"{round(100 * one)} %" for one in (verdict.probability, verdict.skill))
        return (
            f"The law is {law}. Your data make yours {likely} likely, you said {verdict.percent} "
            f"%. What it predicts elsewhere is {right} right."
        )

    def evidence(self) -> Mapping[str, JSON]:
        """What was measured and concluded, and how it was judged."""
        names, verdict = self.brief.factors, self.verdict
        readings: list[JSON] = [[setting_text(r.setting, names), r.value] for r in self.readings]
        found: dict[str, JSON] = {
            "family": self.brief.family,
            "law": law_text(self.world.law, names),
            "readings": readings,
            "told": self._told,
            "conclusion": None if self.concluded is None else law_text(self.concluded, names),
        }
        if verdict is not None:
            found |= {
                "sure": verdict.percent / 100,
                "posterior": verdict.probability,
                "prediction_skill": verdict.skill,
                "is_true": verdict.is_true,
                "brier": verdict.brier,
            }
        return found


def _short(value: float) -> str:
    """A number with its sign and at most one decimal.

    >>> _short(12.0), _short(-0.25), _short(0.0)
    ('+12', '-0.2', '0')
    """
    rounded = round(value, 1)
    return f"{rounded:+g}" if rounded else "0"
