"""Conversion of any Python value to JSON, without ever failing."""

import math
from collections.abc import Iterator, Mapping
from typing import IO, Any

from practicum.core.task import JSON

MOST_BYTES = 64 << 20
"""Of one JSON record of others: parsed, it takes some ten times as much memory."""

TOO_LONG = f"it has more than {MOST_BYTES >> 20} MiB, and is not read"

MAX_DEPTH = 40
"""Levels of nesting that are converted; deeper values become text, so recursion is bounded."""


def as_json(value: Any, depth: int = 0) -> JSON:
    """The value itself where JSON can represent it, else its `str`.

    >>> as_json({"n": 1, "at": {2.5}, "nan": float("nan")})
    {'n': 1, 'at': '{2.5}', 'nan': 'nan'}
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return well_formed(str(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth < MAX_DEPTH and isinstance(value, Mapping):
        return {well_formed(str(key)): as_json(one, depth + 1) for key, one in value.items()}
    if depth < MAX_DEPTH and isinstance(value, list | tuple):
        return [as_json(one, depth + 1) for one in value]
    return well_formed(str(value))


def well_formed(text: str) -> str:
    r"""The text with lone surrogates replaced: JSON can escape them but UTF-8 cannot encode them.

    >>> well_formed("a\ud800b") == "a\ufffdb"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def lines_within(file: IO[bytes], most: int = MOST_BYTES) -> Iterator[tuple[bytes | None, int]]:
    r"""The lines of a file, each with its length; None for one that is too long to be read.

    >>> import io
    >>> list(lines_within(io.BytesIO(b"ab\nlonger\nc"), most=3))
    [(b'ab\n', 3), (None, 7), (b'c', 1)]
    """
    while line := file.readline(most + 1):
        length = len(line)
        if length <= most:
            yield line, length
            continue
        while not line.endswith(b"\n") and (line := file.readline(CHUNK)):
            length += len(line)
        yield None, length


CHUNK = 1 << 20
