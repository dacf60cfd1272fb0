"""Lenient parsing of JSON values."""

import json
from datetime import UTC, datetime
from typing import Any

from practicum.core.json_values import as_json, well_formed
from practicum.traces.importers.records import Malformed


def decode_json(text: str) -> Any:
    """Parse JSON; raises `Malformed`."""
    try:
        return whole_characters(json.loads(text), text)
    except ValueError as error:
        raise Malformed(f"it is not JSON ({error!s:.100})") from None
    except RecursionError:
        raise Malformed("its JSON is nested too deep") from None


def whole_characters(value: Any, text: str) -> Any:
    """A value parsed from `text`, with lone surrogates replaced (see `well_formed`)."""
    if "\\ud" not in text and "\\uD" not in text:
        return value
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [whole_characters(one, text) for one in value]
    if isinstance(value, dict):
        return {well_formed(k): whole_characters(v, text) for k, v in value.items()}
    return value


def as_map(value: Any, what: str) -> dict[str, Any]:
    """A JSON object; empty for null."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed(f"{what} is not an object")
    return value


def as_list(value: Any, what: str) -> list[Any]:
    """A JSON list; empty for null."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(f"{what} is not a list")
    return value


def as_text(value: Any) -> str:
    """A string as it is, null as an empty one, anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(as_json(value), ensure_ascii=False)


def as_number(value: Any, what: str) -> float | None:
    """A finite number, or None for null."""
    if value is None:
        return None
    if not isinstance(value, int | float) or not abs(value) < LARGEST:
        raise Malformed(f"{what} is {value!r:.40}, not a number")
    return float(value)


def as_truth(value: Any, what: str) -> bool | None:
    """A boolean, also as 0, 1 or a word such as "yes"; None for null."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in WORDS:
        return WORDS[word]
    raise Malformed(f"{what} is {value!r:.40}; it must be true, false, 1 or 0")


WORDS = {"true": True, "yes": True, "good": True, "false": False, "no": False, "bad": False}


def as_seconds(value: Any) -> float:
    """A time (a number or ISO 8601) as seconds since the epoch; 0 where there is none."""
    if isinstance(value, int | float) and 0 < value < LARGEST:
        seconds = float(value)
        while seconds > LAST_MOMENT:  # milliseconds, microseconds or nanoseconds
            seconds /= 1000
        return seconds
    if not isinstance(value, str) or not value:
        return 0.0
    try:
        moment = datetime.fromisoformat(value)
        return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0.0


LARGEST = 1e300
LAST_MOMENT = 1e11
"""The year 5138; larger numbers are not in seconds."""
