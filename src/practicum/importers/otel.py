"""OpenTelemetry spans of generative AI, as OTLP JSON: one document, or one a line.

The spans of one trace id are one episode. Messages are read from the attributes
`gen_ai.input.messages` and `gen_ai.output.messages`, from the events that came before those
(`gen_ai.user.message`, `gen_ai.choice`, ...), or from attributes with numbers
(`gen_ai.prompt.0.content`).

Spans of one trace may lie far apart in a file, so they are first laid into a temporary database:
memory stays flat, however long the file is.
"""

import json
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from practicum.importers.json_files import Item, array_items
from practicum.importers.otel_spans import draft_of_spans, span_time
from practicum.importers.records import Malformed, Part
from practicum.importers.values import as_list, as_map, as_text, decode_json

__all__ = ["SOURCE", "read"]

SOURCE = "otel"
LONGEST_LINE = 1 << 24
"""A longer first line is taken for the whole document, and read entry by entry."""


def read(path: Path, skip: int) -> Iterator[Part]:
    """Traces in the order they are first met, after the lines that cannot be read."""
    with tempfile.TemporaryDirectory(prefix="practicum-spans-") as folder:
        database = sqlite3.connect(Path(folder) / "spans.sqlite", isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = OFF")
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("CREATE TABLE spans (number INTEGER PRIMARY KEY, trace, start, span)")
            database.execute("CREATE TABLE traces (number INTEGER PRIMARY KEY, trace UNIQUE)")
            for part in _spool(path, database):
                if skip:
                    skip -= 1
                else:
                    yield part
            yield from _traces(path, database, skip)
        finally:
            database.close()


def _spool(path: Path, database: sqlite3.Connection) -> Iterator[Part]:
    """Lay every span into the database; gives the lines that cannot be read."""
    offset = 0
    for item in _documents(path):
        offset = item.offset
        if isinstance(item.value, Malformed):
            yield Part(line=item.line, offset=offset, problem=str(item.value))
            continue
        try:
            rows = list(_rows(as_map(item.value, "the line")))
        except Malformed as error:
            yield Part(line=item.line, offset=offset, problem=str(error))
            continue
        for trace, start, span in rows:
            database.execute("INSERT OR IGNORE INTO traces (trace) VALUES (?)", (trace,))
            database.execute(
                "INSERT INTO spans (trace, start, span) VALUES (?, ?, ?)",
                (trace, start, json.dumps(span)),
            )
    database.execute("CREATE INDEX by_trace ON spans (trace, start, number)")


def _documents(path: Path) -> Iterator[Item]:
    """One `resourceSpans` entry or one line at a time; a bad line is an item with its fault."""
    if _is_one_document(path):
        items = array_items(path, "resourceSpans")
        line = 0
        while True:
            try:
                item = next(items, None)
            except Malformed as error:
                yield Item(error, error.line or line, 0)
                return
            if item is None:
                return
            line = item.line
            yield Item({"resourceSpans": [item.value]}, item.line, item.offset)
    else:
        offset = 0
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                offset += len(raw)
                if raw.strip():
                    yield Item(_line(raw), number, offset)


def _is_one_document(path: Path) -> bool:
    """Whether the first two lines are not values of their own."""
    with path.open("rb") as file:
        first, second = (_line(file.readline(LONGEST_LINE)) for _ in range(2))
    return not isinstance(first, dict) and not isinstance(second, dict)


def _line(raw: bytes) -> Any:
    try:
        return decode_json(raw.decode("utf-8-sig"))
    except Malformed as error:
        return error
    except UnicodeDecodeError as error:
        return Malformed(f"it is not UTF-8 text ({error.reason})")


def _rows(document: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    if "resourceSpans" not in document:
        raise Malformed('it has no "resourceSpans"')
    for resource in as_list(document["resourceSpans"], "resourceSpans"):
        holder = as_map(resource, "a resourceSpans entry")
        named = as_map(holder.get("resource"), "resource").get("attributes")
        # Before version 0.19 of the protocol scopes were called libraries.
        scopes = holder.get("scopeSpans") or holder.get("instrumentationLibrarySpans")
        for scope in as_list(scopes, "scopeSpans"):
            for value in as_list(as_map(scope, "a scopeSpans entry").get("spans"), "spans"):
                span = as_map(value, "a span")
                trace = as_text(span.get("traceId"))
                if not trace:
                    raise Malformed("a span has no traceId")
                yield trace, span_time(span, "startTimeUnixNano"), {**span, "resource": named}


def _traces(path: Path, database: sqlite3.Connection, skip: int) -> Iterator[Part]:
    size = path.stat().st_size
    [(total,)] = database.execute("SELECT COUNT(*) FROM traces").fetchall()
    for number, (trace,) in enumerate(
        database.execute("SELECT trace FROM traces ORDER BY number"), 1
    ):
        if number <= skip:
            continue
        rows = database.execute(
            "SELECT span FROM spans WHERE trace = ? ORDER BY start, number", (trace,)
        )
        offset = size * number // total
        try:
            draft = draft_of_spans([json.loads(span) for (span,) in rows], SOURCE)
            found = () if draft is None else (draft.finish(),)
            yield Part(line=0, offset=offset, found=found)
        except Malformed as error:
            yield Part(line=0, offset=offset, problem=f"trace {trace}: {error}")
