"""`search_text`: which episodes say something, looked for in the newest first for so many seconds.

Encoded episodes are decompressed and looked through without being decoded, some 50,000 short ones a
second, so no index is kept beside the store that a trainer writes.
"""

import json
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from practicum.core.sample import Episode
from practicum.store.trace_store import TraceSearch

SHOWN = 80
"""Characters on either side of what was found."""


class TextHit(NamedTuple):
    """An episode that says it, and the words around."""

    row: int
    excerpt: str


class TextPage(NamedTuple):
    """What a search found."""

    hits: list[TextHit]
    looked_at: int
    """Episodes that were looked through."""
    before: int | None
    """The row that the search goes on before; None when it is through."""


def search_text(
    store: TraceSearch,
    text: str,
    *,
    where: str = "",
    before: int | None = None,
    limit: int = 50,
    seconds: float = 1.2,
) -> TextPage:
    """Episodes that match a condition and say a text, whatever the case, the newest first.

    Args:
        store: Where.
        text: In a message, a tool call, an argument, the evidence or a reason.
        where: See `where`.
        before: The row that an earlier page ended at.
        limit: Hits after which it ends.
        seconds: Time after which it ends, with what it has found.
    """
    ends, hits, looked_at = time.monotonic() + seconds, [], 0
    lowered = text.lower()
    needle = json.dumps(lowered, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    while page := store.raw_bodies(where, before):
        for row, body in page:
            before, looked_at = row, looked_at + 1
            if _may_say(body, needle):
                episode = store.episode_at(row)
                excerpt = None if episode is None else _excerpt(episode, lowered)
                if excerpt is not None:
                    hits.append(TextHit(row, excerpt))
            if len(hits) >= limit or time.monotonic() > ends:
                return TextPage(hits, looked_at, before)
    return TextPage(hits, looked_at, None)


def _may_say(body: bytes, needle: bytes) -> bool:
    """Whether the JSON has the text anywhere; a name of a field may have it too."""
    try:
        raw = zlib.decompress(body)
    except zlib.error:
        return False
    if needle.isascii():
        return needle in raw.lower()
    return needle.decode("utf-8", "surrogatepass") in raw.decode("utf-8", "replace").lower()


def _excerpt(episode: Episode, lowered: str) -> str | None:
    """The text where it is said first, with what is around it; None where no value says it."""
    for value in _texts(episode):
        at = value.lower().find(lowered)
        if at >= 0:
            start, end = max(0, at - SHOWN), at + len(lowered) + SHOWN
            return f"{'…' if start else ''}{value[start:end]}{'…' if end < len(value) else ''}"
    return None


def _texts(episode: Episode) -> Iterator[str]:
    trace = episode.trace
    yield from (trace.id, trace.task_id)
    for message in trace.messages():
        yield from (message.content, message.reasoning)
        for call in message.tool_calls:
            yield call.name
            yield from _strings(dict(call.arguments))
    if episode.outcome is not None:
        yield from _strings(dict(episode.outcome.evidence))
    yield from _strings(asdict(trace.failure) if trace.failure else {})
    yield episode.score.reason


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name)
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
