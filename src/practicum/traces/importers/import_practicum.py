"""Importer of Practicum's own exports (see `store.trace_export`): JSON lines, JSON or Parquet."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from practicum.core.errors import MissingExtra, UserError
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.core.task import Task
from practicum.traces.importers.json_files import (
    Item,
    array_items,
    begins_with_array,
    parts_of_items,
    parts_of_lines,
)
from practicum.traces.importers.lenient_json import as_list, as_map, as_text
from practicum.traces.importers.records import Imported, Malformed, Part

SOURCE = "practicum"
PARQUET_MAGIC = b"PAR1"
RECORD_COLUMN = "record"
NEWEST = 1
IDENTITY = re.compile(r"hash:[0-9a-f]{32}")
BATCH_ROWS = 64


def read(path: Path, skip: int) -> Iterator[Part]:
    """One episode per line, item or row."""
    with path.open("rb") as file:
        is_parquet = file.read(4) == PARQUET_MAGIC
    if is_parquet:
        return parts_of_items(_parquet_items(path), skip, convert)
    if begins_with_array(path):
        return parts_of_items(array_items(path), skip, convert)
    return parts_of_lines(path, skip, convert)


def convert(value: Any) -> tuple[Imported, ...]:
    """One record; floats keep every bit."""
    from pydantic import ValidationError

    row = as_map(value, "the record")
    version = row.get("practicum")
    if not isinstance(version, int) or version > NEWEST:
        raise Malformed(
            f'its "practicum" is {version!r:.40}, and this version reads up to {NEWEST}'
        )
    episodes, tasks, labels = _adapters()
    try:
        episode = episodes.validate_python(row.get("episode"))
        given = row.get("task")
        task = tasks.validate_python(given) if given else _bare_task(episode)
        verdicts = tuple(
            labels.validate_python(one) for one in as_list(row.get("labels"), "labels")
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Malformed(f"{place or 'the record'}: {first['msg']}") from None
    except UserError as error:  # a label out of range
        raise Malformed(str(error)) from None
    identity = as_text(row.get("identity"))
    if identity and not IDENTITY.fullmatch(identity):
        raise Malformed(f"its identity is {identity!r:.60}, which Practicum did not write")
    _check_nodes(episode)
    return (Imported(episode=episode, task=task, labels=verdicts, identity=identity),)


def _check_nodes(episode: Episode) -> None:
    """Refuse cycles (a parent must come before its child) and tokens without log-probabilities."""
    for index, node in enumerate(episode.trace.nodes):
        if node.parent is not None and not 0 <= node.parent < index:
            raise Malformed(f"node {index} follows node {node.parent}, which is not before it")
        span = node.sampled
        if span is not None and len(span.logprobs) not in (0, len(node.token_ids)):
            raise Malformed(f"node {index} has not one log-probability for each token")


def _bare_task(episode: Episode) -> Task:
    return Task(id=episode.trace.task_id, env=episode.trace.env, split="train")


@cache
def _adapters() -> tuple[Any, Any, Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(Episode), TypeAdapter(Task), TypeAdapter(Label)


def _parquet_items(path: Path) -> Iterator[Item]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise MissingExtra.for_extra("parquet", "reading a Parquet file") from None
    size, number = path.stat().st_size, 0
    try:
        with parquet.ParquetFile(path) as file:
            if RECORD_COLUMN not in file.schema_arrow.names:
                raise Malformed(
                    f"it has no column {RECORD_COLUMN!r}, so Practicum did not write it"
                )
            rows = max(1, file.metadata.num_rows)
            for batch in file.iter_batches(BATCH_ROWS, columns=[RECORD_COLUMN]):
                for text in batch.column(0).to_pylist():
                    number += 1
                    yield Item(json.loads(text), number, size * number // rows)
    except (ArrowException, OSError, ValueError) as error:
        raise Malformed(f"the Parquet file cannot be read ({error!s:.100})", number) from None
