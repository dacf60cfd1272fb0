"""The families of worlds: what is studied, what is measured, and the factors it may depend on."""

from collections.abc import Mapping
from dataclasses import dataclass

from practicum.core.task import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One family of worlds."""

    measured: str
    """What a reading is of, with its unit."""
    factors: tuple[str, ...]
    """A world has three of them."""
    split: Split = "train"
    """Whether its worlds are trained on."""


SUBJECTS: Mapping[str, Subject] = {
    "plants": Subject(
        measured="height of a plant in cm",
        factors=("water", "light", "salt", "compost", "wind"),
    ),
    "bread": Subject(
        measured="height of a loaf in mm",
        factors=("yeast", "sugar", "salt", "rest", "heat"),
    ),
    "batteries": Subject(
        measured="life of a battery in hours",
        factors=("charge", "cold", "load", "age", "damp"),
    ),
    "circuits": Subject(
        measured="current in a circuit in mA",
        factors=("cells", "lamps", "coils", "wire", "heat"),
    ),
    "bees": Subject(
        measured="honey of a hive in spoons",
        factors=("clover", "rain", "shade", "smoke", "space"),
    ),
    "bikes": Subject(
        measured="way a bike needs to stop in feet",
        factors=("speed", "load", "rain", "wear", "slope"),
    ),
    "paint": Subject(
        measured="time paint needs to dry in minutes",
        factors=("oil", "water", "wind", "heat", "coats"),
    ),
    "fish": Subject(
        measured="weight of a fish in grams",
        factors=("food", "depth", "salt", "light", "plants"),
    ),
    "kites": Subject(
        measured="height of a kite in metres",
        factors=("wind", "tail", "line", "rain", "weight"),
    ),
    "soap": Subject(
        measured="foam of a soap in ml",
        factors=("oil", "ash", "salt", "water", "stir"),
    ),
    "runners": Subject(
        measured="pulse of a runner in beats",
        factors=("speed", "hills", "sleep", "heat", "tea"),
    ),
    "bridges": Subject(
        measured="load a bridge bears in kg",
        factors=("beams", "ropes", "span", "rust", "damp"),
    ),
    "candles": Subject(
        measured="time a candle burns in minutes",
        factors=("wax", "wick", "wind", "dye", "cold"),
        split="heldout",
    ),
    "cheese": Subject(
        measured="weight of a cheese in grams",
        factors=("milk", "rennet", "salt", "age", "heat"),
        split="heldout",
    ),
    "glue": Subject(
        measured="pull a glue bears in kg",
        factors=("resin", "chalk", "damp", "heat", "rest"),
        split="heldout",
    ),
    "rivers": Subject(
        measured="depth of a river in cm",
        factors=("rain", "snow", "dams", "trees", "slope"),
        split="heldout",
    ),
}
"""The subjects by the names of their families."""
