"""The importable formats, how a file's format is recognised, and the files of a folder."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from practicum.core.errors import UserError
from practicum.traces.importers import (
    import_art,
    import_lifelong,
    import_openai_chat,
    import_openhands_v0,
    import_openhands_v1,
    import_otel,
    import_practicum,
    import_toolbox,
)
from practicum.traces.importers.import_practicum import PARQUET_MAGIC
from practicum.traces.importers.import_toolbox import PICKLE_MAGIC
from practicum.traces.importers.records import Read

LOOKED_AT = 1 << 18
"""Bytes of a file that are read to recognise it."""
DATABASE_MAGIC = b"SQLite format 3"
SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".parquet", ".pkl"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format that can be imported."""

    name: str
    title: str
    read: Read


FORMATS: dict[str, Format] = {
    module.SOURCE: Format(name=module.SOURCE, title=title, read=module.read)
    for module, title in (
        (import_openai_chat, "conversations in OpenAI's chat form, JSON lines"),
        (import_otel, "OpenTelemetry spans of generative AI, OTLP JSON"),
        (import_openhands_v0, "OpenHands trajectories (JSON list) and evaluation output"),
        (import_openhands_v1, "OpenHands SDK conversations, a folder of events"),
        (import_lifelong, "LifelongAgentBench runs.json"),
        (import_art, "ART trajectories, JSON lines"),
        (import_toolbox, "ToolBoxV2 FlowAgent traces and checkpoints"),
        (import_practicum, "Practicum's own export, JSON lines, JSON or Parquet"),
    )
}

KEYS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"practicum", "episode"}), import_practicum.SOURCE),
    (frozenset({"messages_and_choices"}), import_art.SOURCE),
    (frozenset({"trajectories"}), import_art.SOURCE),
    (frozenset({"resourceSpans"}), import_otel.SOURCE),
    (frozenset({"chat_history", "sample_index"}), import_lifelong.SOURCE),
    (frozenset({"history", "instance_id"}), import_openhands_v0.SOURCE),
    (frozenset({"source", "action", "args"}), import_openhands_v0.SOURCE),
    (frozenset({"source", "observation"}), import_openhands_v0.SOURCE),
    (frozenset({"session_data"}), import_toolbox.SOURCE),
    (frozenset({"user_query"}), import_toolbox.SOURCE),
    (frozenset({"messages"}), import_openai_chat.SOURCE),
)
"""Keys of a first object that identify a format, the more specific first."""


def find_format(name: str) -> Format:
    """The format of that name."""
    if name not in FORMATS:
        raise UserError(f"--format {name!r} is not known; known are {', '.join(FORMATS)}")
    return FORMATS[name]


def recognise(path: Path) -> Format:
    """The format of a file or of an OpenHands conversation folder.

    Raises:
        UserError: If it is not recognised.
    """
    if path.is_dir():
        return FORMATS[import_openhands_v1.SOURCE]
    with path.open("rb") as file:
        head = file.read(LOOKED_AT)
    if head.startswith(PARQUET_MAGIC):
        return FORMATS[import_practicum.SOURCE]
    if head.startswith(PICKLE_MAGIC):
        return FORMATS[import_toolbox.SOURCE]
    if head.startswith(DATABASE_MAGIC):
        raise UserError(
            f"{path} is a trace store itself; look into it with: "
            f"practicum traces list --store {path}"
        )
    keys = _keys_of_first_object(head.decode("utf-8-sig", errors="replace"))
    for needed, name in KEYS:
        if needed <= keys:
            return FORMATS[name]
    there = f"its first object has the keys {', '.join(sorted(keys)[:8])}"
    raise UserError(
        f"the format of {path} is not recognised ("
        f"{there if keys else 'no JSON object is in it'}); make it JSON lines such as "
        '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": '
        f'"Hello"}}], "label": true}}, or name its format with --format: {", ".join(FORMATS)}'
    )


def files_in(path: Path) -> Iterator[Path]:
    """The path itself, or the files of a folder by suffix and its conversation folders."""
    if not path.exists():
        raise UserError(f"{path} does not exist; give a file or a folder to import")
    if not path.is_dir() or import_openhands_v1.is_conversation(path):
        yield path
        return
    conversations = {p.parent for p in path.rglob(import_openhands_v1.EVENTS) if p.is_dir()}
    found = {c for c in conversations if import_openhands_v1.is_conversation(c)}
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
    """Keys of the first object in a text that may be cut off anywhere."""
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
