"""Export of episodes: JSON lines, JSON, Parquet, or a folder for Hugging Face `datasets`.

Each record is complete: the episode, its task, its labels, and the identity by which a later import
recognises it. A file gets its name only when it is complete.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from practicum.core.errors import MissingExtra, UserError
from practicum.core.private_files import make_private_file, make_private_folder
from practicum.core.sample import Episode
from practicum.core.task import JSON
from practicum.store.durable import storage_errors, write_file
from practicum.store.episode_codec import HASHED, episode_to_json
from practicum.store.trace_store import SqliteTraceStore

ExportKind = Literal["jsonl", "json", "parquet", "hf"]
SUFFIXES: dict[str, ExportKind] = {".jsonl": "jsonl", ".json": "json", ".parquet": "parquet"}
VERSION = 1
ROW_GROUP = 500
"""Rows of a Parquet row group, which are in memory at once."""

HF_DATA = Path("data") / "train.parquet"


def export_kind(out: Path, named: str = "") -> ExportKind:
    """The kind of export: as named, else by the path's suffix."""
    kinds: tuple[ExportKind, ...] = ("jsonl", "json", "parquet", "hf")
    for kind in kinds:
        if named == kind:
            return kind
    if named:
        raise UserError(f"--to {named!r} is not known; known are {', '.join(kinds)}")
    if out.suffix in SUFFIXES:
        return SUFFIXES[out.suffix]
    if not out.suffix:
        return "hf"
    raise UserError(
        f"{out} does not say what to write; end it with {', '.join(SUFFIXES)}, or add --to "
        f"{'|'.join(kinds)}"
    )


def export_traces(
    store: SqliteTraceStore,
    out: Path,
    kind: ExportKind,
    *,
    where: str = "",
    on_episode: Callable[[], None] = lambda: None,
) -> int:
    """Write the episodes that match; returns how many."""
    count = 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal count
        for record in _records(store, where):
            yield record
            count += 1
            on_episode()

    if not out.parent.exists():
        make_private_folder(out.parent)
    if kind == "jsonl":
        _write_lines(out, counted())
    elif kind == "json":
        _write_array(out, counted())
    elif kind == "parquet":
        _write_parquet(out, counted())
    else:
        make_private_folder(out)
        make_private_folder((out / HF_DATA).parent)
        _write_parquet(out / HF_DATA, counted())
        write_file(out / "README.md", _card(count, where).encode())
    return count


def _records(store: SqliteTraceStore, where: str) -> Iterator[dict[str, Any]]:
    for row, episode in store.query_rows(where):
        trace = episode.trace
        task = store.task(trace.env, trace.task_id)
        content = store.content_hash(row)
        yield {
            "practicum": VERSION,
            "episode": episode_to_json(episode),
            "task": None if task is None else asdict(task),
            "labels": [asdict(label) for label in store.labels(trace.id)],
            "identity": "" if content is None else HASHED + content.hex(),
            "_columns": _columns(episode),
        }


def _columns(episode: Episode) -> dict[str, JSON]:
    """The columns of a Parquet export besides the whole record."""
    trace, outcome = episode.trace, episode.outcome
    return {
        "id": trace.id,
        "task_id": trace.task_id,
        "env": trace.env,
        "source": trace.source,
        "model": trace.model,
        "success": outcome.success if outcome else None,
        "score": episode.score.value,
        "turns": len(trace.turns),
        "messages": [
            {
                "role": message.role,
                "content": message.content,
                "reasoning": message.reasoning,
                "tool_calls": json.dumps([asdict(call) for call in message.tool_calls]),
                "tool_call_id": message.tool_call_id,
            }
            for message in trace.messages()
        ],
    }


def record_text(record: dict[str, Any]) -> str:
    """A record as a line of JSON."""
    kept = {name: value for name, value in record.items() if name != "_columns"}
    return json.dumps(kept, ensure_ascii=False)


@contextmanager
def _temporary_file(out: Path) -> Iterator[Path]:
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        with storage_errors(out):
            make_private_file(temporary)
            yield temporary
            os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def _write_lines(out: Path, records: Iterator[dict[str, Any]]) -> None:
    with _temporary_file(out) as path, path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(record_text(record) + "\n")


def _write_array(out: Path, records: Iterator[dict[str, Any]]) -> None:
    with _temporary_file(out) as path, path.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, record in enumerate(records):
            file.write(("," if number else "") + "\n" + record_text(record))
        file.write("\n]\n")


def _write_parquet(out: Path, records: Iterator[dict[str, Any]]) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra.for_extra("parquet", "writing a Parquet file") from None
    text = pyarrow.string()
    message = pyarrow.struct(
        [(name, text) for name in ("role", "content", "reasoning", "tool_calls", "tool_call_id")]
    )
    schema = pyarrow.schema(
        [
            *((name, text) for name in ("id", "task_id", "env", "source", "model")),
            ("success", pyarrow.bool_()),
            ("score", pyarrow.float64()),
            ("turns", pyarrow.int64()),
            ("messages", pyarrow.list_(message)),
            ("record", text),
        ]
    )
    with (
        _temporary_file(out) as path,
        parquet.ParquetWriter(path, schema, compression="zstd") as file,
    ):
        rows: list[dict[str, Any]] = []
        for record in records:
            rows.append({**record["_columns"], "record": record_text(record)})
            if len(rows) == ROW_GROUP:
                file.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
                rows = []
        if rows:
            file.write_table(pyarrow.Table.from_pylist(rows, schema=schema))


def _card(count: int, where: str) -> str:
    """The dataset card, whose front matter tells `datasets` where the rows are."""
    chosen = f" that match `{where}`" if where else ""
    return f"""---
configs:
  - config_name: default
    data_files:
      - split: train
        path: {HF_DATA.as_posix()}
---

# Recorded traces

{count} episodes{chosen}, exported by Practicum.

| column | what it is |
|---|---|
| `id`, `task_id`, `env`, `source`, `model` | which episode it is, and of what |
| `success`, `score`, `turns` | how it went; empty where that is not known |
| `messages` | the conversation; `tool_calls` is JSON text |
| `record` | the whole episode as JSON, which `practicum traces import` reads |
"""
