"""One business case with its numbers, and what follows from them exactly.

A case has options, a limit that some of them break, and risks. Each option has figures, worked out
by its family; the last of them is its value. All arithmetic is on fractions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

LETTERS = "ABCDEF"
"""The names of options."""

Row = Mapping[str, int]
"""The numbers of one option, by column."""
Facts = Mapping[str, int]
"""The numbers that hold for every option."""
Figures = Mapping[str, Fraction | int]
"""What is worked out for one option, by name, in order; the last is its value."""
Sizes = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""What a number may be at levels 1, 2 and 3; empty where a level does without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What an option must keep to."""

    on: str
    """The column or figure that it limits."""
    name: str
    """The item to look at where the bound is hidden."""
    at_least: bool = False
    """Whether the bound is the least that will do; otherwise the most."""

    def admits(self, number: Fraction | int, bound: int) -> bool:
        """Whether a number keeps to a bound."""
        return number >= bound if self.at_least else number <= bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of cases: which numbers they have, and how an option's figures are worked out."""

    name: str
    kind: str
    """Pricing, stock, hiring, make_or_buy, project or cash_flow."""
    stories: tuple[str, ...]
    formula: str
    """How the figures are worked out, in the words of the case."""
    columns: Mapping[str, Sizes]
    facts: Mapping[str, Sizes]
    hidden: str
    """The fact that has to be looked at."""
    limit: Limit
    work_out: Callable[[Facts, Row], Figures]
    lowest_is_best: bool = False
    """Whether the value is a cost."""
    is_heldout: bool = False
    """Whether none of its cases is trained on."""
    step: Callable[[str, Facts, Row], int] = lambda column, facts, row: 1
    """What a column's numbers are multiples of, so that figures come out whole; the row has the
    columns before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """Something that may happen, and what it costs to be covered against it."""

    name: str
    chance: int
    """In percent."""
    loss: int
    cover: int
    hits: str
    """The letters of the options that it concerns."""

    @property
    def expected_loss(self) -> Fraction:
        """Chance times loss."""
        return Fraction(self.chance * self.loss, 100)

    @property
    def is_worth_covering(self) -> bool:
        """Whether to be covered costs less than what is lost on average."""
        return self.expected_loss > self.cover

    @property
    def price(self) -> Fraction:
        """What it costs an option that it hits, by the cheaper way."""
        return min(Fraction(self.cover), self.expected_loss)

    @property
    def chance_item(self) -> str:
        """The item to look at where the chance is hidden."""
        return f"{self.name}_chance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option, worked out."""

    letter: str
    row: Row
    figures: Mapping[str, Fraction]
    fits: bool
    """Whether it keeps to the limit."""
    risk: Fraction
    """What the risks cost that hit it."""
    expected: Fraction
    """Its value after risks."""

    @property
    def value(self) -> Fraction:
        """Its last figure."""
        return list(self.figures.values())[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case with all its numbers, hidden or not."""

    family: Family
    level: int
    story: str
    facts: Facts
    rows: tuple[Row, ...]
    bound: int
    """Of the limit."""
    risks: tuple[Risk, ...]
    needed: tuple[str, ...]
    """The hidden items that the answer rests on."""
    spare: Mapping[str, int]
    """Items that can be looked at and have no part in the answer."""
    looks: tuple[str, ...]
    """Every item that can be looked at, in the order shown."""
    options: tuple[Option, ...]
    ranked: tuple[Option, ...]
    """The options within the limit, the one that is worth most after risks first."""

    @property
    def is_plain(self) -> bool:
        """Whether risks concern every option alike, so that plans leave them out."""
        return self.level == 1

    @property
    def feasible(self) -> tuple[Option, ...]:
        """The options within the limit."""
        return tuple(option for option in self.options if option.fits)

    @property
    def best(self) -> Option:
        """The option within the limit that is worth most after risks."""
        return self.ranked[0]

    def worth(self, option: Option) -> Fraction:
        """What an option is worth after risks: more is better, also where values are costs."""
        return _worth(self.family, option)

    def regret(self, option: Option) -> Fraction:
        """How much less a feasible option is worth than the best one."""
        return self.worth(self.best) - self.worth(option)

    def option(self, letter: str) -> Option:
        """The option with a letter."""
        return self.options[LETTERS.index(letter)]

    def plan(self, option: Option) -> dict[str, Fraction]:
        """The figures of a plan for an option, in order."""
        figures = dict(option.figures)
        return figures if self.is_plain else figures | _after_risks(option)

    @property
    def worth_covering(self) -> tuple[Risk, ...]:
        """The risks that cost more than the cover."""
        return tuple(risk for risk in self.risks if risk.is_worth_covering)

    def item(self, name: str) -> int:
        """The number behind an item."""
        if name in self.spare:
            return self.spare[name]
        if name == self.family.limit.name:
            return self.bound
        chances = {risk.chance_item: risk.chance for risk in self.risks}
        return chances[name] if name in chances else self.facts[name]

    def shown(self) -> set[int]:
        """Every number that can be read in the case, hidden ones among them."""
        in_rows = {number for row in self.rows for number in row.values()}
        in_risks = {n for risk in self.risks for n in (risk.chance, risk.loss, risk.cover)}
        return {*in_rows, *in_risks, *self.facts.values(), *self.spare.values(), self.bound}


def _worth(family: Family, option: Option) -> Fraction:
    return -option.expected if family.lowest_is_best else option.expected


def _after_risks(option: Option) -> dict[str, Fraction]:
    return {"risk": option.risk, "expected": option.expected}


def case_of(family: Family, numbers: Mapping[str, Any]) -> Case:
    """The case that these numbers make, worked out; they are what a task holds."""
    facts: Facts = dict(numbers["facts"])
    risks = tuple(Risk(**one) for one in numbers["risks"])
    bound = int(numbers["bound"])
    rows: tuple[Row, ...] = tuple(dict(row) for row in numbers["rows"])
    options = tuple(
        _option(family, facts, row, letter, bound, risks)
        for letter, row in zip(LETTERS, rows, strict=False)
    )
    return Case(
        family=family,
        level=int(numbers["level"]),
        story=str(numbers["story"]),
        facts=facts,
        rows=rows,
        bound=bound,
        risks=risks,
        needed=tuple(numbers["needed"]),
        spare=dict(numbers["spare"]),
        looks=tuple(numbers["looks"]),
        options=options,
        ranked=tuple(
            sorted((one for one in options if one.fits), key=lambda one: -_worth(family, one))
        ),
    )


def _option(
    family: Family, facts: Facts, row: Row, letter: str, bound: int, risks: Sequence[Risk]
) -> Option:
    figures = {name: Fraction(n) for name, n in family.work_out(facts, row).items()}
    value = list(figures.values())[-1]
    risk = sum((one.price for one in risks if letter in one.hits), Fraction(0))
    return Option(
        letter=letter,
        row=row,
        figures=figures,
        fits=family.limit.admits(limited(family, row, figures), bound),
        risk=risk,
        expected=value + risk if family.lowest_is_best else value - risk,
    )


def limited(family: Family, row: Row, figures: Figures) -> Fraction | int:
    """The number of an option that the limit is on."""
    return row[family.limit.on] if family.limit.on in row else figures[family.limit.on]
