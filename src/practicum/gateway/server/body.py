"""Bodies of requests: JSON of a bounded depth that can be told to a model."""

import json
from typing import Any

from practicum.core.json_values import well_formed
from practicum.gateway.requests import Refused

__all__ = ["read_json"]

DEEPEST = 64
"""Levels of nesting."""


def read_json(body: bytes, content_type: str) -> dict[str, Any]:
    """The object that a body holds; `Refused` where it holds none."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "send the body as application/json, with that content type")
    try:
        value = json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise Refused(400, f"the body is nested deeper than {DEEPEST} levels") from None
    except ValueError as error:
        raise Refused(400, f"the body is not JSON ({error!s:.100})") from None
    if not isinstance(value, dict):
        raise Refused(400, "the body is not a JSON object; write {...}")
    _check_depth(value)
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _check_depth(value: dict[str, Any]) -> None:
    """Walk through all of it, a level at a time; half characters in texts are replaced."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for holder in level:
            pairs = list(holder.items() if isinstance(holder, dict) else enumerate(holder))
            for key, one in pairs:
                if isinstance(one, dict | list):
                    below.append(one)
                elif isinstance(one, str) and not one.isascii():
                    holder[key] = well_formed(one)
        if not below:
            return
        level = below
    raise Refused(400, f"the body is nested deeper than {DEEPEST} levels")
