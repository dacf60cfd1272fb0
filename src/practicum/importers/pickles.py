"""Pickles read as plain data: nothing that a pickle names is imported, called or run.

FlowAgent saves its checkpoints as pickles of its own classes. A pickle can name any function of any
module and have it called; here every such name, whatever it is, stands for an inert record that
only remembers what it was given. Dates and a few containers are read as what they are.
"""

import io
import pickle
from collections import OrderedDict
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

from practicum.core.json_values import well_formed
from practicum.importers.records import Malformed

__all__ = ["PICKLE_MAGIC", "load_plain"]

PICKLE_MAGIC = b"\x80"
"""How every pickle since protocol 2 begins."""


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise Malformed(f"the pickle holds bytes in {encoding!r:.20}")
    return text.encode(encoding)


MOST_VALUES = 2_000_000
"""A small pickle can name one list a million million times."""

HARMLESS: dict[tuple[str, str], Any] = {
    ("datetime", "datetime"): datetime,
    ("datetime", "date"): date,
    ("datetime", "time"): time,
    ("datetime", "timedelta"): timedelta,
    ("datetime", "timezone"): timezone,
    ("collections", "OrderedDict"): OrderedDict,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("_codecs", "encode"): _encode,
}
"""Classes that do nothing but hold what they are given, and how protocol 2 writes bytes."""


class _Inert:
    """Stands for an object of any class: holds the state it was saved with."""

    name = ""

    def __new__(cls, *given: Any, **named: Any) -> "_Inert":
        made = super().__new__(cls)
        made.given = given
        made.held = dict(named)
        return made

    def __init__(self, *given: Any, **named: Any) -> None:
        self.given: tuple[Any, ...] = given
        self.held: dict[Any, Any] = dict(named)

    def __setstate__(self, state: Any) -> None:
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:  # objects with slots are saved as a pair of states
            if isinstance(part, dict):
                self.held.update(part)

    def __call__(self, *given: Any, **named: Any) -> "_Inert":
        return _Inert(*given, **named)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.held[key] = value

    def append(self, value: Any) -> None:
        """As lists of a class of their own are filled."""
        self.given = (*self.given, value)

    def extend(self, values: Any) -> None:
        """As lists of a class of their own are filled."""
        self.given = (*self.given, *values)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = HARMLESS.get((module, name))
        return known if known is not None else type(name.rpartition(".")[2], (_Inert,), {})

    def persistent_load(self, pid: Any) -> Any:
        return _Inert(pid)


def load_plain(content: bytes) -> Any:
    """What a pickle holds, objects as the dictionaries of their fields."""
    try:
        loaded = _Unpickler(io.BytesIO(content)).load()
        return _Plain().of(loaded)
    except Malformed:
        raise
    except RecursionError:
        raise Malformed("the pickle is nested too deep") from None
    except Exception as error:  # noqa: BLE001 - a damaged pickle can fail in any way
        raise Malformed(f"the pickle cannot be read ({error!s:.100})") from None


class _Plain:
    """Makes plain data of what was loaded; gives up on what would grow beyond all bounds."""

    def __init__(self) -> None:
        self._left = MOST_VALUES
        self._above: set[int] = set()

    def of(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Malformed("the pickle holds more values than any checkpoint")
        if not isinstance(value, _Inert | dict | list | tuple | set | frozenset):
            if isinstance(value, str):
                return well_formed(value)
            if isinstance(value, date | time):
                return value.isoformat()
            return value.total_seconds() if isinstance(value, timedelta) else value
        if id(value) in self._above:
            raise Malformed("the pickle contains itself")
        self._above.add(id(value))
        plain = self._inside(value)
        self._above.remove(id(value))
        return plain

    def _inside(self, value: Any) -> Any:
        if isinstance(value, _Inert):
            if not value.held:
                given = [self.of(one) for one in value.given]
                return given[0] if len(given) == 1 else given
            value = value.held
        if isinstance(value, dict):
            return {str(k): self.of(v) for k, v in value.items()}
        return [self.of(one) for one in value]
