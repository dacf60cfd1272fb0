"""Names of people, groups, projects and files; no word is used on both sides of the wall."""

import random
from collections.abc import Callable

from practicum.core.task import Split

__all__ = ["EXTENSIONS", "Names"]

PEOPLE = (
    "amira anton astrid bea benno carla cosmo dalia damir edda elias enzo fatima felix freya "
    "gianni greta hana henrik ida ilan ines ivo jana jonas juno kaito karin lars leila lena "
    "lucia malik mara mateo mina nadia nils noor olga omar otto paula petra priya quinn rafael "
    "rhea rosa ruben sana selma simon sofia stellan tamar tariq theo tilda uma vera viktor wanda "
    "xenia yara yusuf zelda zoran"
)

CREWS = (
    "analysts archivists auditors bakers binders brewers builders buyers carvers clerks coders "
    "couriers curators divers editors farmers fitters gardeners glaziers growers guides hauliers "
    "indexers joiners keepers loaders makers mappers masons menders millers minders movers "
    "painters pilots planners potters printers rangers readers riggers roofers sailors scouts "
    "sorters surveyors tailors testers tilers trainers tutors weavers welders writers"
)

PLACES = (
    "acorn alder amber anchor aspen atlas basalt beacon birch bramble breeze canyon cedar cinder "
    "clover cobalt comet coral cove crane crater delta dune ember falcon fern fjord flint garnet "
    "glacier granite grove harbor hazel heron hollow indigo iris island jasper juniper kelp "
    "lagoon lantern larch lichen linden lotus lunar maple marble marsh meadow meteor mistral "
    "nectar nimbus oak oasis onyx opal orchard osprey pebble pine plover prairie quarry quartz "
    "raven reef ridge river saffron sage shale sierra slate sorrel spruce summit tern thistle "
    "tidal timber topaz tundra umber valley violet walnut willow wren zephyr zinc"
)

THINGS = (
    "agenda alerts audit backup batch billing briefing budget calendar catalog census charter "
    "checklist clients contacts contract costs credits customers daily deliveries demand digest "
    "draft entries estimate events expenses export feedback figures forecast freight glossary "
    "guests guide history import incidents index inventory invoice items journal labels ledger "
    "letters licenses log manual margins members memo menu minutes monthly news notes notice "
    "orders outline packing payments payroll permits plan policy prices profile protocol quota "
    "quotes ratings receipts records recipes refunds register releases renewals rental report "
    "requests results returns review rota routes sales samples schedule scores sessions shifts "
    "shipping signups snapshot staff stock storage summary suppliers survey tally targets tasks "
    "terms tickets totals tracking transfers trends update vendors visits volumes votes weekly"
)

EXTENSIONS = ("txt", "md", "csv", "conf", "dat", "cfg", "list", "rst", "ini", "tsv")

HELD_OUT_ONE_IN = 3
"""One word of each list in this many is only for held-out tasks."""

SPACED = 0.12
"""Share of file names that have a space in them."""


def _side(text: str, split: Split) -> list[str]:
    words = text.split()
    held_out = words[::HELD_OUT_ONE_IN]
    return held_out if split == "heldout" else [word for word in words if word not in held_out]


class Names:
    """Draws names of one split, none twice."""

    def __init__(self, split: Split, chance: random.Random) -> None:
        self._chance = chance
        self._used: set[str] = set()
        self._people, self._crews = _side(PEOPLE, split), _side(CREWS, split)
        self._places, self._things = _side(PLACES, split), _side(THINGS, split)

    def user(self) -> str:
        """A login name."""
        ending = ("", str(self._chance.randint(2, 99)), self._chance.choice("bdfghkmprstw"))
        return self._fresh(lambda: self._one(self._people) + self._chance.choice(ending))

    def group(self) -> str:
        """A group name; never one that a user's own group may have."""
        joined = ("{}", "{}-{}", "{}_{}", "{1}{0}")
        return self._fresh(
            lambda: self._chance.choice(joined).format(
                self._one(self._crews), self._one(self._places)
            )
        )

    def word(self) -> str:
        """One plain word, such as a file's text may hold."""
        return self._one(self._things)

    def place(self) -> str:
        """The name of a project or a folder, without blanks."""
        joined = ("{}", "{}-{}", "{}_{}", "{}{}", "{}.d", "{}-{}")
        return self._fresh(
            lambda: self._chance.choice(joined).format(
                self._one(self._places), self._chance.choice([self._one(self._things), "2"])
            )
        )

    def file(self, extension: str | None = None) -> str:
        """A file name with its extension; sometimes with a blank, a dash or a second dot."""
        end = self._chance.choice(EXTENSIONS) if extension is None else extension
        return self._fresh(lambda: self._stem() + (f".{end}" if end else ""))

    def _stem(self) -> str:
        one, other = self._one(self._things), self._one(self._things)
        if self._chance.random() < SPACED:
            return f"{one} {other}"
        number = self._chance.randint(1, 2400)
        shapes = (one, f"{one}-{other}", f"{one}_{number}", f"{one}.{other}", f"{one}{number}")
        return self._chance.choice(shapes)

    def _one(self, words: list[str]) -> str:
        return self._chance.choice(words)

    def _fresh(self, draw: Callable[[], str]) -> str:
        while (name := draw()) in self._used:
            pass
        self._used.add(name)
        return name
