"""Which format a file is in, seen from what is in it; and which files a folder holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from practicum.core.errors import UserError
from practicum.importers import (
    art,
    lifelong,
    openai_chat,
    openhands_v0,
    openhands_v1,
    otel,
    practicum_export,
    toolbox,
)
from practicum.importers.pickles import PICKLE_MAGIC
from practicum.importers.practicum_export import PARQUET_MAGIC
from practicum.importers.records import Read

__all__ = ["FORMATS", "Format", "files_in", "find_format", "recognise"]

LOOKED_AT = 1 << 18
"""Bytes of a file that are enough to know it by."""
DATABASE_MAGIC = b"SQLite format 3"
SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".parquet", ".pkl"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format that can be imported."""

    name: str
    title: str
    read: Read


FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format(
            name=openai_chat.SOURCE,
            title="conversations in OpenAI's chat form, JSON lines",
            read=openai_chat.read,
        ),
        Format(
            name=otel.SOURCE,
            title="OpenTelemetry spans of generative AI, OTLP JSON",
            read=otel.read,
        ),
        Format(
            name=openhands_v0.SOURCE,
            title="OpenHands trajectories (JSON list) and evaluation output",
            read=openhands_v0.read,
        ),
        Format(
            name=openhands_v1.SOURCE,
            title="OpenHands SDK conversations, a folder of events",
            read=openhands_v1.read,
        ),
        Format(name=lifelong.SOURCE, title="LifelongAgentBench runs.json", read=lifelong.read),
        Format(name=art.SOURCE, title="ART trajectories, JSON lines", read=art.read),
        Format(
            name=toolbox.SOURCE,
            title="ToolBoxV2 FlowAgent traces and checkpoints",
            read=toolbox.read,
        ),
        Format(
            name=practicum_export.SOURCE,
            title="Practicum's own export, JSON lines, JSON or Parquet",
            read=practicum_export.read,
        ),
    )
}

TELLING: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"practicum", "episode"}), practicum_export.SOURCE),
    (frozenset({"messages_and_choices"}), art.SOURCE),
    (frozenset({"trajectories"}), art.SOURCE),
    (frozenset({"resourceSpans"}), otel.SOURCE),
    (frozenset({"chat_history", "sample_index"}), lifelong.SOURCE),
    (frozenset({"history", "instance_id"}), openhands_v0.SOURCE),
    (frozenset({"source", "action", "args"}), openhands_v0.SOURCE),
    (frozenset({"source", "observation"}), openhands_v0.SOURCE),
    (frozenset({"session_data"}), toolbox.SOURCE),
    (frozenset({"user_query"}), toolbox.SOURCE),
    (frozenset({"messages"}), openai_chat.SOURCE),
)
"""Keys that together tell a format, the more telling ones first."""


def find_format(name: str) -> Format:
    """The format of that name."""
    if name not in FORMATS:
        raise UserError(f"--format {name!r} is not known; known are {', '.join(FORMATS)}")
    return FORMATS[name]


def recognise(path: Path) -> Format:
    """The format of a file or of a conversation's folder.

    Raises:
        UserError: when nothing in it tells.
    """
    if path.is_dir():
        return FORMATS[openhands_v1.SOURCE]
    with path.open("rb") as file:
        head = file.read(LOOKED_AT)
    if head.startswith(PARQUET_MAGIC):
        return FORMATS[practicum_export.SOURCE]
    if head.startswith(PICKLE_MAGIC):
        return FORMATS[toolbox.SOURCE]
    if head.startswith(DATABASE_MAGIC):
        raise UserError(
            f"{path} is a trace store itself; look into it with: "
            f"practicum traces list --store {path}"
        )
    keys = _keys_of_first_object(head.decode("utf-8-sig", errors="replace"))
    for needed, name in TELLING:
        if needed <= keys:
            return FORMATS[name]
    seen = f"its first object has the keys {', '.join(sorted(keys)[:8])}" if keys else "no object"
    raise UserError(
        f"the format of {path} is not recognised ({seen} is in it); "
        f"name it with --format: {', '.join(FORMATS)}"
    )


def files_in(path: Path) -> Iterator[Path]:
    """The path itself, or what a folder holds: files by suffix, and conversations."""
    if not path.exists():
        raise UserError(f"{path} does not exist; give a file or a folder to import")
    if not path.is_dir() or openhands_v1.is_conversation(path):
        yield path
        return
    conversations = {p.parent for p in path.rglob(openhands_v1.EVENTS) if p.is_dir()}
    found = {c for c in conversations if openhands_v1.is_conversation(c)}
    files = {
        file
        for file in path.rglob("*")
        if file.suffix in SUFFIXES
        and file.is_file()
        and not any(parent in found for parent in file.parents)
    }
    if not found and not files:
        raise UserError(
            f"{path} holds nothing to import; files end with {', '.join(sorted(SUFFIXES))}"
        )
    yield from sorted(found | files)


def _keys_of_first_object(text: str) -> set[str]:
    """Keys of the first object in a text, which may break off."""
    keys: set[str] = set()
    depth, at = 0, text.find("{")
    while 0 <= at < len(text):
        sign = text[at]
        if sign == '"':
            end = _end_of_string(text, at)
            if depth == 1 and text[end:].lstrip()[:1] == ":":
                keys.add(text[at + 1 : end - 1])
            at = end
            continue
        depth += (sign in "{[") - (sign in "}]")
        if depth == 0:
            break
        at += 1
    return keys


def _end_of_string(text: str, start: int) -> int:
    at = start + 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1
