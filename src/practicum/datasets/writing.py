"""A training set on disk: a file for each side, and a manifest that says what it is.

    DIR/train.jsonl       what is learned from
    DIR/heldout.jsonl     what is not, where a share was held out
    DIR/dataset.json      the question asked, the figures, a hash of each file
    DIR/README.md         tells the `datasets` library which file is which split

The manifest is written last, so a folder with one is complete.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from practicum.core.errors import UserError
from practicum.core.task import JSON
from practicum.datasets.build import Built, Kind, Unit
from practicum.datasets.parquet import write_parquet
from practicum.datasets.reading import FORMATS
from practicum.datasets.rows import write_row
from practicum.datasets.statistics import describe

__all__ = ["Layout", "Side", "checked_file", "is_built", "layout", "read_manifest", "write_dataset"]

Side = Literal["train", "heldout"]
VERSION = 1
MANIFEST = "dataset.json"
CARD = "README.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the parts of a dataset lie."""

    train: Path
    heldout: Path
    manifest: Path
    card: Path | None
    """None for a dataset that is a file in somebody's folder."""

    def side(self, side: Side) -> Path:
        """The file of one side."""
        return self.train if side == "train" else self.heldout


def layout(out: Path, form: str) -> Layout:
    """Where a dataset named `out` lies: in a folder of its own, or in files beside each other."""
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
    """Write both sides and the manifest; gives the manifest.

    Args:
        built: What to write.
        out: A folder, or a file whose ending says the form.
        form: `jsonl`, `json` or `parquet`, for a folder.
        question: What was asked, to be able to ask it again.
        replace: Whether a dataset that is there may be replaced.
    """
    places = layout(out, form)
    _check_free(places, out, replace)
    try:
        places.train.parent.mkdir(parents=True, exist_ok=True)
        if replace:
            for old in (places.manifest, places.heldout):
                old.unlink(missing_ok=True)
        files = {places.train.name: _write_side(places.train, built.kind, built.train)}
        if built.heldout:
            name = places.heldout.name
            files[name] = _write_side(places.heldout, built.kind, built.heldout)
        manifest = {
            "version": VERSION,
            "question": dict(question),
            "files": files,
            "statistics": describe(built),
        }
        if places.card is not None:
            _publish(places.card, _card(built, places).encode())
        _publish(places.manifest, (json.dumps(manifest, indent=2) + "\n").encode())
    except OSError as error:
        raise UserError(
            f"{out} cannot be written ({error.strerror or error}); choose another --out"
        ) from None
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest in a dataset's folder."""
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
    """Whether a folder or a file is a dataset that was built, with a manifest to it."""
    if path.is_dir():
        return (path / MANIFEST).is_file()
    return path.is_file() and layout(path, path.suffix.removeprefix(".")).manifest.is_file()


def checked_file(folder: Path, side: Side) -> Path | None:
    """The file of one side of a dataset's folder, as it was written; None where there is none."""
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


def _write_side(path: Path, kind: Kind, units: Sequence[Unit]) -> dict[str, Any]:
    staged = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        if path.suffix == ".parquet":
            write_parquet(staged, kind, _rows(kind, units))
        else:
            with staged.open("w", encoding="utf-8") as file:
                file.writelines(_lines(path.suffix, _rows(kind, units)))
        os.replace(staged, path)
    finally:
        staged.unlink(missing_ok=True)
    return {"rows": len(units), "sha256": _hash(path)}


def _rows(kind: Kind, units: Sequence[Unit]) -> Iterator[dict[str, Any]]:
    return (write_row(kind, unit) for unit in units)


def _lines(suffix: str, rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    """One row a line; in a `.json` file they make one list."""
    if suffix == ".jsonl":
        yield from (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return
    yield "["
    for number, row in enumerate(rows):
        yield ("," if number else "") + "\n" + json.dumps(row, ensure_ascii=False)
    yield "\n]\n"


def _publish(path: Path, content: bytes) -> None:
    staged = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        staged.write_bytes(content)
        os.replace(staged, path)
    finally:
        staged.unlink(missing_ok=True)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _card(built: Built, places: Layout) -> str:
    sides = [("train", places.train)] + ([("heldout", places.heldout)] if built.heldout else [])
    files = "\n".join(f"  - split: {name}\n    path: {path.name}" for name, path in sides)
    return (
        f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}\n---\n\n"
        f"Made by `practicum dataset build --kind {built.kind}`. What was asked, and what came of "
        f"it, is in `{MANIFEST}`.\n"
    )
