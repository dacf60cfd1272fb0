"""Names, file contents and wordings of generated tasks.

No name of a user, group, folder or file is used in both splits.
"""

import random
from collections.abc import Callable, Sequence

from practicum.core.task import Split

SUBJECTS = (
    "disk mirror queue cache worker socket parser mailer printer sensor router scanner builder "
    "index archive session gateway import export ticket backup token upload lease"
)
VERBS = "stopped started restarted stalled answered closed opened failed moved waited"
PREPOSITIONS = "on at near behind beside under"
AREAS = "north south east west central harbor upper lower inner outer"
KEYS = (
    "port host timeout retries workers color language region prefix limit interval depth "
    "threads format encoding level window margin weight priority"
)


def text_of(lines: list[str]) -> str:
    """Lines as a file holds them."""
    return "".join(f"{line}\n" for line in lines)


def _distinct(draw: Callable[[], str], count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[draw()] = None
    return list(found)


def prose(rng: random.Random, count: int) -> list[str]:
    """Distinct lines such as `disk stalled near north 12`."""
    return _distinct(
        lambda: " ".join(
            (
                rng.choice(SUBJECTS.split()),
                rng.choice(VERBS.split()),
                rng.choice(PREPOSITIONS.split()),
                rng.choice(AREAS.split()),
                str(rng.randint(2, 99)),
            )
        ),
        count,
    )


def log_lines(rng: random.Random, count: int, levels: tuple[str, ...]) -> list[str]:
    """Log lines in order of time, each with a level; every level occurs at least once."""
    minute = rng.randint(0, 300)
    order = list(levels) + [rng.choice(levels) for _ in range(count - len(levels))]
    rng.shuffle(order)
    date = f"2024-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    lines = []
    for level in order:
        minute += rng.randint(1, 9)
        clock = f"{minute // 60 % 24:02}:{minute % 60:02}"
        subject, verb = rng.choice(SUBJECTS.split()), rng.choice(VERBS.split())
        lines.append(f"{date} {clock} {level} {subject} {verb} code {rng.randint(100, 999)}")
    return lines


def amount_table(rng: random.Random, rows: int, names: list[str]) -> list[tuple[str, str, int]]:
    """Rows of a name, an area and a number; all numbers differ."""
    amounts = rng.sample(range(61, 950), rows)
    return [(rng.choice(names), rng.choice(AREAS.split()), amount) for amount in amounts]


def settings(rng: random.Random, count: int) -> dict[str, str]:
    """Keys with values that all differ."""
    keys = rng.sample(KEYS.split(), count)
    values = rng.sample(range(10, 9000), count)
    return {key: str(value) for key, value in zip(keys, values, strict=True)}


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

NOUNS = (
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
"""One word in this many of each list is for held-out tasks only."""

SPACE_PROBABILITY = 0.12
"""Share of file names that have a space in them."""


def _words_of(text: str, split: Split) -> list[str]:
    words = text.split()
    held_out = words[::HELD_OUT_ONE_IN]
    return held_out if split == "heldout" else [word for word in words if word not in held_out]


class Names:
    """Draws names from the words of one split; no name twice."""

    def __init__(self, split: Split, rng: random.Random) -> None:
        self._rng = rng
        self._used: set[str] = set()
        self._people, self._crews = _words_of(PEOPLE, split), _words_of(CREWS, split)
        self._places, self._nouns = _words_of(PLACES, split), _words_of(NOUNS, split)

    def user(self) -> str:
        """A login name."""
        ending = ("", str(self._rng.randint(2, 99)), self._rng.choice("bdfghkmprstw"))
        return self._fresh(lambda: self._one(self._people) + self._rng.choice(ending))

    def group(self) -> str:
        """A group name; never a user's, since `useradd` makes a group of the user's name."""
        joined = ("{}", "{}-{}", "{}_{}", "{1}{0}")
        return self._fresh(
            lambda: self._rng.choice(joined).format(self._one(self._crews), self._one(self._places))
        )

    def word(self) -> str:
        """One plain word for the content of a file; may repeat."""
        return self._one(self._nouns)

    def folder(self) -> str:
        """A folder name without spaces."""
        joined = ("{}", "{}-{}", "{}_{}", "{}{}", "{}.d", "{}-{}")
        return self._fresh(
            lambda: self._rng.choice(joined).format(
                self._one(self._places), self._rng.choice([self._one(self._nouns), "2"])
            )
        )

    def file(self, extension: str | None = None) -> str:
        """A file name with its extension; sometimes with a space, a dash or a second dot."""
        end = self._rng.choice(EXTENSIONS) if extension is None else extension
        return self._fresh(lambda: self._stem() + (f".{end}" if end else ""))

    def _stem(self) -> str:
        one, other = self._one(self._nouns), self._one(self._nouns)
        if self._rng.random() < SPACE_PROBABILITY:
            return f"{one} {other}"
        number = self._rng.randint(1, 2400)
        shapes = (one, f"{one}-{other}", f"{one}_{number}", f"{one}.{other}", f"{one}{number}")
        return self._rng.choice(shapes)

    def _one(self, words: list[str]) -> str:
        return self._rng.choice(words)

    def _fresh(self, draw: Callable[[], str]) -> str:
        while (name := draw()) in self._used:
            pass
        self._used.add(name)
        return name


QUOTES = ("{}", "'{}'", '"{}"', "`{}`")
"""How instructions quote a path; a path with a space is always quoted."""

OPENINGS = (
    "",
    "",
    "You are root on this machine. ",
    "Please do the following on this system. ",
    "Here is a small piece of system work. ",
    "Some work is waiting on this server. ",
)
ROOT_OPENINGS = (
    "The files for this work are in {}. ",
    "This is about the project in {}. ",
)
THEN = ("Then", "Next", "After that", "Now", "Once that is done")


def and_list(items: Sequence[str]) -> str:
    """Items as an English list.

    >>> and_list(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def mode_text(mode: int, rng: random.Random) -> str:
    """Nine permission bits in one of several notations.

    >>> sorted({mode_text(0o640, random.Random(n)) for n in range(40)})[:3]
    ['640', '640 (octal)', 'owner: read and write; group: read only; others: nothing']
    """
    letters = "".join(
        letter if mode & (1 << (8 - at)) else "-" for at, letter in enumerate("rwxrwxrwx")
    )
    parts = [letters[at : at + 3] for at in (0, 3, 6)]
    words = [_bits_in_words(part) for part in parts]
    symbolic = ",".join(
        f"{who}={part.replace('-', '')}" for who, part in zip("ugo", parts, strict=True)
    )
    return rng.choice(
        (
            f"{mode:o}",
            f"{mode:o} (octal)",
            f"{letters} (as ls shows it)",
            f"{symbolic} (symbolic)",
            f"owner: {words[0]}; group: {words[1]}; others: {words[2]}",
        )
    )


def _bits_in_words(bits: str) -> str:
    names = [
        name for name, bit in zip(("read", "write", "execute"), bits, strict=True) if bit != "-"
    ]
    if not names:
        return "nothing"
    return and_list(names) + (" only" if len(names) == 1 else "")


def instruct(sentences: Sequence[str], rng: random.Random, root: str | None = None) -> str:
    """The instruction: the steps' sentences in order, in one of several layouts.

    `root` is the task's main folder. A sentence that ends with literal text (no full stop) goes
    into a list, alone on its line: else the next sentence would look like part of that text.
    """
    placed = [text.format(root) for text in ROOT_OPENINGS] if root else []
    opening = rng.choice([*OPENINGS, *placed])
    if len(sentences) == 1:
        return opening + sentences[0]
    are_closed = all(sentence.endswith(".") for sentence in sentences)
    style = rng.choice(("numbers", "dashes", *(("then", "plain") if are_closed else ())))
    if style == "numbers":
        lines = [f"{n}. {sentence}" for n, sentence in enumerate(sentences, start=1)]
        return f"{opening}Do these in order:\n" + "\n".join(lines)
    if style == "dashes":
        lines = [f"- {sentence}" for sentence in sentences]
        return f"{opening}Work through this list from top to bottom:\n" + "\n".join(lines)
    if style == "then":
        return opening + " ".join(_chained(sentences, rng))
    return f"{opening}In this order: " + " ".join(sentences)


def _chained(sentences: Sequence[str], rng: random.Random) -> list[str]:
    links = ["First", *(rng.choice(THEN) for _ in sentences[1:-1]), "Finally"]
    return [
        f"{link}, {text[0].lower()}{text[1:]}" for link, text in zip(links, sentences, strict=True)
    ]
