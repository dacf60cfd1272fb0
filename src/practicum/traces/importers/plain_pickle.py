"""Pickles as plain data, read by a process of their own with limits of memory and time.

A pickle can call any function of any module (arbitrary code execution); here every global except
dates and a few containers resolves to an inert class that only stores its arguments and state.
What is left are pickles of a few bytes that take all memory or never end (a memo of 2^31 places, a
set of nested tuples): a child process reads them, and dies of its limits in place of the importer.

This file itself is run in the child by `python -I -S`, so it imports the standard library only.
"""

import io
import json
import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

MAX_VALUES = 2_000_000
"""Nested references let a tiny pickle expand to billions of values (a "billion laughs" attack)."""
MAX_TEXT = 1 << 26
"""Characters and bytes of all values together: one long text can be referred to many times."""
MEMORY_BYTES = 1 << 30
"""Address space of the child; a checkpoint of 2,000,000 values needs less."""
SECONDS = 60
"""Time of the child, on a processor and in all."""


class BadPickle(Exception):
    """A pickle that cannot be read; the text says why."""


def pickle_to_json(path: str) -> str:
    """The plain data of a pickle as JSON; `BadPickle` where it holds none within the limits."""
    try:
        ran = subprocess.run(
            [sys.executable, "-I", "-S", __file__, path],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BadPickle(f"it was not read after {SECONDS} seconds") from None
    if ran.returncode == 0:
        return ran.stdout.decode("ascii")
    if ran.returncode == SAID:
        raise BadPickle(ran.stdout.decode("utf-8", "replace"))
    raise BadPickle(f"it takes more than {MEMORY_BYTES >> 30} GB or {SECONDS} seconds to read")


SAID, OUT_OF_MEMORY = 3, 4
"""Exit codes of a child that printed what is wrong, and of one that met its limit."""


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise BadPickle(f"it holds bytes in {encoding!r:.20}")
    return text.encode(encoding)


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
"""Globals that are safe to call: plain data classes, and protocol 2's encoding of bytes."""


class _Inert:
    """Stands in for an object of any class; stores its arguments and state."""

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
        for part in parts:  # objects with slots have a pair of states
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


class _Plain:
    """Converts loaded objects to JSON values; refuses cycles and too many values."""

    def __init__(self) -> None:
        self._left = MAX_VALUES
        self._text_left = MAX_TEXT
        self._ancestors: set[int] = set()

    def of(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise BadPickle("it holds more values than any checkpoint")
        if not isinstance(value, _Inert | dict | list | tuple | set | frozenset):
            return self._single(value)
        if id(value) in self._ancestors:
            raise BadPickle("it contains itself")
        self._ancestors.add(id(value))
        plain = self._inside(value)
        self._ancestors.remove(id(value))
        return plain

    def _single(self, value: Any) -> Any:
        if isinstance(value, date | time):
            return value.isoformat()
        if isinstance(value, timedelta):
            return value.total_seconds()
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int) and value.bit_length() <= 1024:
            return value
        return self._text(value if isinstance(value, str) else repr(value))

    def _text(self, value: str) -> str:
        self._text_left -= len(value)
        if self._text_left < 0:
            raise BadPickle("it holds more text than any checkpoint")
        return value

    def _inside(self, value: Any) -> Any:
        if isinstance(value, _Inert):
            if not value.held:
                given = [self.of(one) for one in value.given]
                return given[0] if len(given) == 1 else given
            value = value.held
        if isinstance(value, dict):
            return {self._text(str(k)): self.of(v) for k, v in value.items()}
        return [self.of(one) for one in value]


def load_plain(content: bytes) -> Any:
    """The content of a pickle as JSON values; objects become dictionaries of their fields."""
    try:
        return _Plain().of(_Unpickler(io.BytesIO(content)).load())
    except (BadPickle, MemoryError):
        raise
    except RecursionError:
        raise BadPickle("it is nested too deep") from None
    except Exception as error:  # noqa: BLE001 - a damaged pickle can fail in any way
        raise BadPickle(f"{error!s:.100}") from None


def main(path: str) -> int:
    """In the child: print the content, or what is wrong with it."""
    import resource  # Unix only, like the limits themselves

    for kind, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        with suppress(ValueError, OSError):  # macOS has no limit of address space
            resource.setrlimit(kind, (most, most))
    try:
        with open(path, "rb") as file:
            shown = json.dumps(load_plain(file.read()))
    except (BadPickle, OSError) as error:
        os.write(1, str(error).encode("utf-8", "replace")[:4000])
        return SAID
    except MemoryError:
        return OUT_OF_MEMORY
    with os.fdopen(1, "w", encoding="ascii") as out:
        out.write(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
