"""`Brief`: what a text must say, what it must not, and how it has to be written."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from practicum.core.task import JSON

Kind = Literal["date", "time", "money", "percent", "count", "person", "place", "phrase", "email"]
"""What a fact's value is; `count` is a number with what is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that a brief says."""

    key: str
    label: str
    """What the brief calls it, such as `last day`."""
    kind: Kind
    value: str
    """As the brief writes it."""
    cues: tuple[str, ...] = ()
    """Stems of words that tell it from another fact of its kind: `deadline`, `until`."""

    @property
    def line(self) -> str:
        """As the brief lists it."""
        return f"- {self.label}: {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """A text to be written. All of it is JSON, so that a task holds it."""

    family: str
    text_kind: str
    """Such as `notice`."""
    audience: str
    facts: tuple[Fact, ...]
    """To be said."""
    private: tuple[Fact, ...] = ()
    """Known to the writer, and not to be said."""
    words: tuple[int, int] = (20, 45)
    """Fewest and most."""
    paragraphs: int = 1
    needs_outline: bool = False
    greeting: str = ""
    """How the text begins, such as `Dear`; empty where it has no greeting."""
    tone: str = ""
    tone_words: tuple[str, ...] = ()
    """Of which the text uses one; none where the brief asks for no tone."""
    avoid: tuple[str, ...] = ()
    grade: float = 0.0
    """Highest Flesch-Kincaid grade; 0 where it does not matter."""
    notes_hidden: bool = False
    """Whether the values are in notes that brainstorm_ideas opens."""
    draft: tuple[str, ...] = ()
    """Paragraphs to begin with, where a text is to be mended."""

    def as_json(self) -> dict[str, JSON]:
        """All of it."""
        listed: dict[str, JSON] = _plain(asdict(self))
        return listed

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Brief":
        """From what `as_json` gave."""
        words = data["words"]
        return cls(
            **{
                **{name: _frozen(value) for name, value in data.items()},
                "facts": _facts(data["facts"]),
                "private": _facts(data["private"]),
                "words": (int(words[0]), int(words[1])),
            }
        )

    @property
    def all_facts(self) -> tuple[Fact, ...]:
        """Those to be said and those not to be."""
        return (*self.facts, *self.private)

    def lines(self) -> list[str]:
        """All of it in words, a line each."""
        return [*self.demands(), *(["Draft:", *self.draft] if self.draft else [])]

    def demands(self) -> list[str]:
        """What is asked for, a line each."""
        asked = [f"Write {a_kind(self.text_kind)} for {self.audience}."]
        if self.draft:
            asked = [f"Mend the draft of {a_kind(self.text_kind)}."]
        return [
            *asked,
            *self._what_to_say(),
            f"Length: {self.words[0]} to {self.words[1]} words, {_paragraphs(self.paragraphs)}.",
            *self._how(),
        ]

    def _what_to_say(self) -> list[str]:
        if self.notes_hidden:
            labels = ", ".join(fact.label for fact in self.facts)
            hidden = ", ".join(fact.label for fact in self.private)
            told = [f"Say: {labels}. Notes on each: brainstorm_ideas {self.facts[0].label} | ..."]
            return [*told, *([f"Do not tell: {hidden}"] if hidden else [])]
        said = ["Say:", *(fact.line for fact in self.facts)]
        return [*said, *(["Do not tell:", *(f.line for f in self.private)] if self.private else [])]

    def _how(self) -> list[str]:
        how = []
        if self.needs_outline:
            how.append("First create_outline: a point for each paragraph, naming what it says.")
        if self.greeting:
            how.append(f"Begin with: {self.greeting}")
        if self.tone_words:
            how.append(f"Tone: {self.tone}; use one of: {', '.join(self.tone_words)}")
        if self.avoid:
            how.append(f"Do not use: {', '.join(self.avoid)}")
        if self.grade:
            how.append(f"Easy to read: school grade {self.grade:g} at most.")
        return how


def a_kind(kind: str) -> str:
    """A kind of text with its article.

    >>> a_kind("invitation"), a_kind("meeting notes")
    ('an invitation', 'meeting notes')
    """
    if kind.endswith("s"):
        return kind
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _paragraphs(count: int) -> str:
    return "1 paragraph" if count == 1 else f"{count} paragraphs"


def _facts(rows: Sequence[Mapping[str, Any]]) -> tuple[Fact, ...]:
    return tuple(Fact(**{**row, "cues": tuple(row["cues"])}) for row in rows)


def _plain(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
