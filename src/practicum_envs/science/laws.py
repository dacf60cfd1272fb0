"""Laws, and settings of the factors they are about: what they are, and how they are written.

>>> law = (Effect(factors=(0,), amount=3), Effect(factors=(2,), amount=-8, above=2))
>>> law_text(law, ("water", "light", "salt"))
'water +3, salt>2 -8'
>>> change(law, (4, 0, 3))
4
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

FACTORS = 3
"""Factors of a world."""
HIGHEST = 4
"""Factors are set to a whole number from 0 to this."""

Kind = Literal["line", "threshold", "product"]
Setting = tuple[int, ...]
"""A value for each factor."""

SETTINGS: tuple[Setting, ...] = tuple(product(range(HIGHEST + 1), repeat=FACTORS))
"""All there are; a setting's place here is its number in arrays."""
NUMBER_OF = {setting: number for number, setting in enumerate(SETTINGS)}
START = SETTINGS[0]
"""All factors at 0, where the reading is known."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Effect:
    """One factor's effect, in a straight line or from a threshold on, or that of two together."""

    factors: tuple[int, ...]
    amount: int
    """For each step of a line or of a product; in one jump above a threshold."""
    above: int = -1
    """The threshold; -1 where there is none."""

    @property
    def kind(self) -> Kind:
        """Its shape."""
        if len(self.factors) > 1:
            return "product"
        return "line" if self.above < 0 else "threshold"

    def at(self, setting: Setting) -> int:
        """What it adds to the reading."""
        first = setting[self.factors[0]]
        if self.kind == "threshold":
            return self.amount if first > self.above else 0
        return self.amount * (first if self.kind == "line" else first * setting[self.factors[1]])


Law = tuple[Effect, ...]
"""Effects that add up; the empty law says that nothing has an effect."""
NO_EFFECT = "none"
"""The empty law in words."""


def change(law: Law, setting: Setting) -> int:
    """By how much the reading differs from that at the start."""
    return sum(effect.at(setting) for effect in law)


def effect_text(effect: Effect, names: Sequence[str]) -> str:
    """An effect as it is written, such as `water +3`, `water>2 +8` or `water*light +1`."""
    about = "*".join(names[factor] for factor in effect.factors)
    threshold = f">{effect.above}" if effect.kind == "threshold" else ""
    return f"{about}{threshold} {effect.amount:+d}"


def law_text(law: Law, names: Sequence[str]) -> str:
    """A law as it is written."""
    return ", ".join(effect_text(effect, names) for effect in law) or NO_EFFECT


def setting_text(setting: Setting, names: Sequence[str]) -> str:
    """A setting as it is written: the factors that are not at 0.

    >>> setting_text((4, 0, 2), ("water", "light", "salt"))
    'water 4, salt 2'
    """
    pairs = zip(names, setting, strict=True)
    return ", ".join(f"{name} {value}" for name, value in pairs if value)
