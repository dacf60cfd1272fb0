"""Writing a dataset: a file per split, statistics and a manifest; and reading the manifest.

    DIR/train.jsonl       training rows
    DIR/heldout.jsonl     held-out rows, if any
    DIR/dataset.json      the manifest: options, statistics, a hash of each file
    DIR/README.md         tells the `datasets` library which file is which split

The manifest is written last, so a folder with one is complete. All Parquet files of a kind have the
same columns; tool schemas, which have no fixed form, are JSON in a string.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from practicum.core.errors import MissingExtra, UserError
from practicum.core.private_files import make_private_file, make_private_folder
from practicum.core.sample import Example
from practicum.core.task import JSON
from practicum.traces.datasets.build import Built, Kind, Unit
from practicum.traces.datasets.dataset_reading import FORMATS
from practicum.traces.datasets.row_format import write_row
from practicum.traces.datasets.splits import answer_text, asked_text, task_key

Side = Literal["train", "heldout"]
VERSION = 1
MANIFEST = "dataset.json"
CARD = "README.md"
ROWS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The paths of a dataset's files."""

    train: Path
    heldout: Path
    manifest: Path
    card: Path | None
    """None for a dataset that is a single file in another folder."""

    def side(self, side: Side) -> Path:
        """The file of one split."""
        return self.train if side == "train" else self.heldout


def layout(out: Path, form: str) -> Layout:
    """The paths of a dataset named `out`: a folder of its own, or files beside each other."""
    if out.suffix.removeprefix(".") in FORMATS:
        return Layout(
            train=out,
            heldout=out.with_name(f"{out.stem}.heldout{out.suffix}"),
            manifest=out.with_name(f"{out.stem}.{MANIFEST}"),
            card=None,
        )
    return Layout(
        train=out / f"train.{form}",
        heldout=out / f"heldout.{form}",
        manifest=out / MANIFEST,
        card=out / CARD,
    )


def write_dataset(
    built: Built, out: Path, *, form: str, question: Mapping[str, JSON], replace: bool = False
) -> dict[str, Any]:
    """Write both splits and the manifest; returns the manifest.

    Args:
        built: The dataset.
        out: A folder, or a file whose suffix is the format.
        form: `jsonl`, `json` or `parquet`, for a folder.
        question: The options it was built with, for the manifest.
        replace: Whether an existing dataset may be replaced.
    """
    places = layout(out, form)
    _check_free(places, out, replace)
    try:
        make_private_folder(places.train.parent)
        if replace:
            for old in (places.manifest, places.heldout):
                old.unlink(missing_ok=True)
        shape = _shape(built) if built.heldout else None
        files = {places.train.name: _write_side(places.train, built.kind, built.train, shape)}
        if built.heldout:
            name = places.heldout.name
            files[name] = _write_side(places.heldout, built.kind, built.heldout, shape)
        manifest = {
            "version": VERSION,
            "question": dict(question),
            "files": files,
            "statistics": describe(built),
        }
        if places.card is not None:
            _publish(places.card, _card(built, places, shape).encode())
        _publish(places.manifest, (json.dumps(manifest, indent=2) + "\n").encode())
    except OSError as error:
        raise UserError(
            f"{out} cannot be written ({error.strerror or error}); choose another --out"
        ) from None
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a dataset folder."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{folder} has no {MANIFEST}, so it is no dataset; make one with: "
            f"practicum dataset build --out {folder}"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); build the dataset again") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise UserError(f"{path} names no files; build the dataset again")
    return manifest


def is_built(path: Path) -> bool:
    """Whether a folder or a file is a dataset with a manifest."""
    if path.is_dir():
        return (path / MANIFEST).is_file()
    return path.is_file() and layout(path, path.suffix.removeprefix(".")).manifest.is_file()


def checked_file(folder: Path, side: Side) -> Path | None:
    """The file of a split, verified by its hash; None if the dataset has no such split."""
    files: dict[str, dict[str, str]] = read_manifest(folder)["files"]
    for name, facts in files.items():
        path = folder / name
        if path.stem != side:
            continue
        if not path.is_file() or _hash(path) != facts.get("sha256"):
            raise UserError(
                f"{path} is not as it was when the dataset was built; build it again, or name the "
                "file itself to use it as it is"
            )
        return path
    return None


def _check_free(places: Layout, out: Path, replace: bool) -> None:
    if places.card is not None and out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; choose a folder, or a name that ends with .jsonl")
    there = [p for p in (places.train, places.heldout, places.manifest) if p.exists()]
    if there and not replace:
        raise UserError(f"{there[0]} exists already; choose another --out, or add --replace")


class _Shape(NamedTuple):
    """The columns of a dataset's rows, and the keys of their messages."""

    columns: tuple[str, ...]
    keys: tuple[str, ...]

    def filled(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with null for what only others have."""
        whole = {column: row.get(column) for column in self.columns}
        return {name: v if name == "tools" else self._messages(v) for name, v in whole.items()}

    def _messages(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._messages(one) for one in value]
        return {key: value.get(key) for key in self.keys} if isinstance(value, dict) else value


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    """The messages of a conversation, or of several."""
    if isinstance(value, dict):
        yield value
    elif isinstance(value, list):
        yield from (one for inner in value for one in _dicts(inner))


def _shape(built: Built) -> _Shape:
    """What any row of either split has: `datasets` reads no splits of different columns."""
    columns: dict[str, None] = {}
    keys: dict[str, None] = {}
    for unit in (*built.train, *built.heldout):
        row = write_row(built.kind, unit)
        columns |= dict.fromkeys(row)
        for name, value in row.items():
            if name != "tools":
                keys |= {key: None for message in _dicts(value) for key in message}
    return _Shape(tuple(columns), tuple(keys))


def _write_side(
    path: Path, kind: Kind, units: Sequence[Unit], shape: _Shape | None
) -> dict[str, Any]:
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    rows: Iterator[dict[str, Any]] = (write_row(kind, unit) for unit in units)
    if shape is not None:
        rows = map(shape.filled, rows)
    try:
        make_private_file(temporary)
        if path.suffix == ".parquet":
            write_parquet(temporary, kind, rows)
        else:
            with temporary.open("w", encoding="utf-8") as file:
                file.writelines(_lines(path.suffix, rows))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return {"rows": len(units), "sha256": _hash(path)}


def _lines(suffix: str, rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    """JSON lines, or one JSON list for `.json`."""
    if suffix == ".jsonl":
        yield from (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return
    yield "["
    for number, row in enumerate(rows):
        yield ("," if number else "") + "\n" + json.dumps(row, ensure_ascii=False)
    yield "\n]\n"


def _publish(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _card(built: Built, places: Layout, shape: _Shape | None) -> str:
    sides = {"train": places.train} | ({"heldout": places.heldout} if built.heldout else {})
    files = [{"split": name, "path": path.name} for name, path in sides.items()]
    head: dict[str, Any] = {"configs": [{"config_name": "default", "data_files": files}]}
    if places.train.suffix != ".parquet":
        # `datasets` would take the types of all columns from one split, which may not have all.
        rows = [write_row(built.kind, unit) for unit in (*built.train, *built.heldout)]
        filled = rows if shape is None else [shape.filled(row) for row in rows]
        head["dataset_info"] = {"features": _fields(filled)}
    return (
        f"---\n{json.dumps(head, indent=1)}\n---\n\n"
        f"Made by `practicum dataset build --kind {built.kind}`. What was asked, and what came of "
        f"it, is in `{MANIFEST}`.\n"
    )


DTYPES = {str: "string", bool: "bool", int: "int64", float: "float64"}
"""What the `datasets` library calls the types of JSON."""


def _fields(values: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The keys of some objects, each with what all its values can be, as `datasets` has it."""
    names = dict.fromkeys(key for value in values for key in value)
    return [{"name": name, **_feature([value.get(name) for value in values])} for name in names]


def _feature(values: Sequence[Any]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, dict) for value in known):
        return {"struct": _fields(known)}
    if known and all(isinstance(value, list) for value in known):
        inner = _feature([one for value in known for one in value])
        return {"list": inner.get("dtype", inner.get("struct", inner))}
    kinds = {type(value) for value in known}
    wide = float if kinds == {int, float} else next(iter(kinds), None)
    return {"dtype": DTYPES.get(wide, "null") if wide is not None else "null"}


def describe(built: Built) -> dict[str, Any]:
    """Statistics of a dataset as JSON."""
    return {
        "kind": built.kind,
        "train": describe_side(built.train),
        "heldout": describe_side(built.heldout),
        "split": {
            "clusters_of_tasks": built.split.clusters,
            "largest_cluster": built.split.largest,
        },
        "left_out": {
            "total": built.left_out.total,
            "reasons": built.left_out.counts,
            "for_example": built.left_out.named,
        },
        "notes": _notes(built),
    }


def _notes(built: Built) -> list[str]:
    """Warnings about the statistics."""
    labels = {example.label for unit in built.train for example in unit}
    notes = []
    if built.kind == "kto" and len(labels) == 1:
        which, other = ("good", "bad") if True in labels else ("bad", "good")
        notes.append(f"all answers are {which}; KTO learns more where some are {other}")
    return notes


def describe_side(units: Sequence[Unit]) -> dict[str, Any]:
    """Statistics of one split: rows, tasks, classes, lengths, turns."""
    examples = [example for unit in units for example in unit]
    if not examples:
        return {"rows": 0, "examples": 0, "tasks": 0}
    return {
        "rows": len(units),
        "examples": len(examples),
        "tasks": len({task_key(example) for example in examples}),
        "classes": _classes(examples),
        "turns": _spread([_turns(example) for example in examples]),
        "prompt_characters": _spread([len(asked_text(example)) for example in examples]),
        "answer_characters": _spread([len(answer_text(example)) for example in examples]),
        "weight": _spread([example.weight for example in examples]),
        "reward": _spread([e.reward for e in examples if e.reward is not None]),
        "with_own_tokens": sum(bool(example.token_ids) for example in examples),
    }


def _classes(examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """Number and total weight of the examples of each class."""
    counts: Counter[str] = Counter()
    weights: Counter[str] = Counter()
    for example in examples:
        name = _class_of(example)
        counts[name] += 1
        weights[name] += example.weight  # type: ignore[assignment]  # a Counter adds floats too
    return {n: {"examples": counts[n], "weight": round(weights[n], 6)} for n in sorted(counts)}


def _class_of(example: Example) -> str:
    if example.chosen is not None:
        return "chosen" if example.chosen else "rejected"
    return {True: "good", False: "bad", None: "unlabelled"}[example.label]


def _turns(example: Example) -> int:
    return sum(message.role == "assistant" for message in example.completion)


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    """Min, median, 95th percentile, max and mean; None for no values."""
    if not values:
        return None
    low, middle, high, top = np.quantile(np.asarray(values, np.float64), [0, 0.5, 0.95, 1])
    figures = {"min": low, "median": middle, "p95": high, "max": top, "mean": np.mean(values)}
    return {name: round(float(value), 6) for name, value in figures.items()}


def write_parquet(path: Path, kind: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows of one kind as Parquet."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra.for_extra("parquet", "writing a Parquet file") from None
    schema = _schema(pyarrow, kind)
    with parquet.ParquetWriter(path, schema) as file:
        left = iter(rows)
        while chunk := list(islice(_flat(left), ROWS_AT_ONCE)):
            file.write_table(pyarrow.Table.from_pylist(chunk, schema=schema))


def _flat(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield {**row, "tools": json.dumps(row["tools"])} if "tools" in row else row


def _schema(pyarrow: Any, kind: str) -> Any:
    """The columns of a kind; see `row_format`."""
    text, real, integer = pyarrow.string(), pyarrow.float64(), pyarrow.int64()
    function = pyarrow.struct({"name": text, "arguments": text})
    call = pyarrow.struct({"id": text, "type": text, "function": function})
    message = pyarrow.struct(
        {
            "role": text,
            "content": text,
            "tool_calls": pyarrow.list_(call),
            "tool_call_id": text,
            "reasoning_content": text,
            "is_error": pyarrow.bool_(),
            "weight": integer,
        }
    )
    messages, ids = pyarrow.list_(message), pyarrow.list_(integer)
    tokens = {"token_ids": ids, "loss_mask": pyarrow.list_(pyarrow.bool_()), "tokens_of": text}
    side = {"id": text, "reward": real, **tokens}
    weighed = {"weight": real, "reward": real, **tokens}
    columns: dict[str, dict[str, Any]] = {
        "sft": {"messages": messages, "given": integer, **weighed},
        "kto": {
            "prompt": messages,
            "completion": messages,
            "label": pyarrow.bool_(),
            **weighed,
        },
        "dpo": {
            "prompt": messages,
            "chosen": messages,
            "rejected": messages,
            "weight": real,
            **{f"chosen_{name}": column for name, column in side.items()},
            **{f"rejected_{name}": column for name, column in side.items()},
        },
        "grpo": {
            "prompt": messages,
            "completions": pyarrow.list_(messages),
            **{name: pyarrow.list_(real) for name in ("rewards", "weights")},
            "ids": pyarrow.list_(text),
            **{name: pyarrow.list_(column) for name, column in tokens.items()},
        },
    }
    about = {"id": text, "task_id": text, "env": text, "tools": text}
    return pyarrow.schema({**about, **columns[kind]})
