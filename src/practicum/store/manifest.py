"""What a checkpoint folder should hold: the size and sha256 sum of every file, and of itself."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from practicum.core.errors import CheckpointError
from practicum.store.durable import write_file

__all__ = ["MANIFEST", "Manifest", "check_manifest", "write_manifest"]

MANIFEST = "manifest.json"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSum:
    """One file as it was written."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A checkpoint folder as it was written."""

    step: int
    fingerprint: str
    """Of the weights in it."""
    files: Mapping[str, FileSum]
    """By path inside the folder, with forward slashes."""
    format: int = FORMAT


@cache
def _manifests() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)


def write_manifest(folder: Path, *, step: int, fingerprint: str) -> None:
    """Describe every file now in `folder` in its `manifest.json`."""
    files = {name: _sum(folder / name) for name in _names(folder)}
    body = asdict(Manifest(step=step, fingerprint=fingerprint, files=files))
    text = json.dumps({**body, "sha256": _digest(body)}, indent=2, sort_keys=True)
    write_file(folder / MANIFEST, text.encode() + b"\n")


def check_manifest(folder: Path) -> Manifest:
    """The manifest of a folder whose every file is as it was written.

    Raises:
        CheckpointError: with the name of the file that is missing or damaged.
    """
    manifest = _read(folder / MANIFEST)
    for name, expected in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{name} is missing")
        size = path.stat().st_size
        if size != expected.size:
            raise CheckpointError(f"{name} has {size} bytes where {expected.size} were written")
        if _sum(path).sha256 != expected.sha256:
            raise CheckpointError(f"{name} does not have the sha256 sum it was written with")
    return manifest


def _read(path: Path) -> Manifest:
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"{path.name} is missing") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise CheckpointError(f"{path.name} is not readable JSON") from None
    if not isinstance(body, dict) or body.pop("sha256", None) != _digest(body):
        raise CheckpointError(f"{path.name} does not have the sha256 sum it was written with")
    if body.get("format") != FORMAT:
        raise CheckpointError(f"{path.name} has format {body.get('format')!r}, not {FORMAT}")
    try:
        return _manifests().validate_python(body)
    except ValidationError as error:
        raise CheckpointError(f"{path.name} does not describe a checkpoint: {error}") from None


def _digest(body: Mapping[str, object]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _names(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / MANIFEST:
            yield path.relative_to(folder).as_posix()


def _sum(path: Path) -> FileSum:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return FileSum(size=path.stat().st_size, sha256=sha256)
