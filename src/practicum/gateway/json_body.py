"""`parse_object`: the JSON object in a request's body, within bounds; for every server here."""

import json
from typing import Any

from practicum.core.json_values import well_formed

MOST_NESTING = 64
"""Most levels of nesting in a body: later code that recurses over it cannot overflow the stack."""

MOST_PARTS = 300_000
"""Most brackets and commas in a body: so many values are parsed in some 30 ms, during which nothing
else in the process runs."""

COUNTED_BYTES = 256 * 1024
"""Bodies up to this length cannot have so many that it matters."""


class NoObject(ValueError):
    """A body that is no JSON object, or one beyond the bounds; its text is a whole sentence."""


class NotAnObject(NoObject):
    """A body that is JSON, but no object."""


def parse_object(body: bytes) -> dict[str, Any]:
    r"""The JSON object in a body, its texts well formed; raises `NoObject` if there is none.

    >>> parse_object(b'{"a": 1}')
    {'a': 1}
    """
    if len(body) > COUNTED_BYTES and sum(map(body.count, (b"[", b"{", b","))) > MOST_PARTS:
        raise NoObject(f"the body has more than {MOST_PARTS} values; send fewer")
    try:
        value = json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise NoObject(f"the body is nested deeper than {MOST_NESTING} levels") from None
    except ValueError as error:
        raise NoObject(f"the body is not JSON ({error!s:.100})") from None
    if not isinstance(value, dict):
        raise NotAnObject("the body is not a JSON object; write {...}")
    _mend(value)
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _mend(value: dict[str, Any]) -> None:
    """Refuses deep nesting, without recursion; replaces lone surrogates in texts and names."""
    level: list[Any] = [value]
    for _ in range(MOST_NESTING):
        below: list[Any] = []
        for holder in level:
            if isinstance(holder, dict) and not all(map(str.isascii, holder)):
                named = {well_formed(key): one for key, one in holder.items()}
                holder.clear()
                holder.update(named)
            for key, one in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
                if isinstance(one, dict | list):
                    below.append(one)
                elif isinstance(one, str) and not one.isascii():
                    holder[key] = well_formed(one)
        if not below:
            return
        level = below
    raise NoObject(f"the body is nested deeper than {MOST_NESTING} levels")
