"""Fields of a request's JSON, read with care: each is what was asked for, or a sentence.

A field that is null counts as not given, as the public services have it.
"""

import json
from collections.abc import Mapping, Sequence, Set
from typing import Any

from practicum.core.json_values import as_json, well_formed
from practicum.core.task import JSON
from practicum.gateway.requests import Refused

__all__ = ["Fields", "arguments_of", "refuse"]


def refuse(sentence: str, param: str = "") -> Refused:
    """A refusal of what a client asked for; `param` is the field that is wrong."""
    return Refused(400, sentence, param=param)


class Fields:
    """One JSON object and where it stands in the request.

    >>> Fields({"top_p": 0.5}).number("top_p", 0, 1)
    0.5
    """

    def __init__(self, values: Any, where: str = "") -> None:
        if not isinstance(values, Mapping):
            raise refuse(f"{where or 'the body'} is not an object; write {{...}}", where)
        self.values = values
        self.where = where

    def named(self, name: str) -> str:
        """A field as a client would write its place: `tools[0].name`."""
        return f"{self.where}.{name}" if self.where else name

    def has(self, name: str) -> bool:
        """Whether the field says something."""
        return self.values.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        return well_formed(value)

    def number(self, name: str, least: float, most: float) -> float | None:
        """A number between two bounds; None where there is none."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, f"a number from {least:g} to {most:g}")
        if not least <= value <= most:
            raise self._wrong(name, f"a number from {least:g} to {most:g}")
        return float(value)

    def integer(self, name: str, least: int, most: int = 2**63 - 1) -> int | None:
        """A whole number between two bounds; None where there is none."""
        value = self.values.get(name)
        if value is None:
            return None
        allowed = f"a whole number from {least}" + (f" to {most}" if most < 2**63 - 1 else "")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(name, allowed)
        return value

    def truth(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        """One of a few words."""
        value = self.values.get(name)
        if value is None:
            return default
        if value not in allowed:
            raise self._wrong(name, " or ".join(repr(word) for word in allowed))
        return str(value)

    def inner(self, name: str) -> "Fields":
        """An object inside this one; an empty one where there is none."""
        value = self.values.get(name)
        return Fields({} if value is None else value, self.named(name))

    def items(self, name: str) -> "list[Fields]":
        """A list of objects; an empty one where there is none."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return [Fields(one, f"{self.named(name)}[{i}]") for i, one in enumerate(value)]

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """A list of texts that say something; an empty one where there is none."""
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(name, f"a list of at most {most} texts")
        if not all(isinstance(one, str) and one for one in value):
            raise self._wrong(name, "a list of texts that are not empty")
        return tuple(value)

    def schema(self, name: str) -> dict[str, JSON]:
        """An object kept as it is, such as a JSON schema."""
        found = as_json(dict(self.inner(name).values))
        return found if isinstance(found, dict) else {}

    def forbid(self, reasons: Mapping[str, str]) -> None:
        """Refuse fields that would change what the request means and cannot be honoured."""
        for name, reason in reasons.items():
            if self.values.get(name) not in (None, False, "", [], {}):
                place = self.named(name)
                raise refuse(f"{place} is not supported here: {reason}", place)

    def allow(self, names: Set[str]) -> None:
        """Refuse fields of other names: nobody can say what they would change."""
        for name, value in self.values.items():
            if name not in names and value is not None:
                raise refuse(f"there is no parameter {name!r:.80} here; leave it out", name)

    def _wrong(self, name: str, allowed: str) -> Refused:
        value, place = self.values.get(name), self.named(name)
        if value is None:
            return refuse(f"{place} is missing; it must be {allowed}", place)
        return refuse(f"{place} is {value!r:.80}; it must be {allowed}", place)


def arguments_of(text: str, where: str) -> dict[str, JSON]:
    """A tool call's arguments from the JSON a client sends back."""
    try:
        value = as_json(json.loads(text or "{}"))
    except (ValueError, RecursionError) as error:
        sentence = f"{where} is not JSON ({error!s:.80}); send it as it was answered"
        raise refuse(sentence, where) from None
    if not isinstance(value, dict):
        raise refuse(f"{where} is not a JSON object; send it as it was answered", where)
    return value
