"""`checkpoints/` of a run: saving, verifying and naming checkpoints. Each is complete or absent.

checkpoints/
        step_10/              the learner's and the loop's files, and manifest.json
        step_15/
        latest                a link to the newest
        best                  a link to the best evaluated
        .step_20.tmp-4711/    being written by process 4711
        .step_15.old-4711/    replaced by a newer step_15, about to be removed

With the layout `epoch` the folders are called `epoch_10`, and the run's folder has a link to each;
readers accept both names.

A hidden folder is not a checkpoint, with one exception: when a process died between renaming
`step_N` to `.old` and renaming its replacement to `step_N`, the old one still counts.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from practicum.core.checkpoint import EXPORT_RESULTS, Checkpoint
from practicum.core.errors import CheckpointError
from practicum.core.model_names import model_name
from practicum.store.durable import (
    DurableStep,
    durable_step,
    publish_folder,
    storage_errors,
    sync_folder,
    write_file,
)
from practicum.store.run_dir import RunDir, find_run

MANIFEST = "manifest.json"
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_CONFIG_BYTES = 1 << 20
"""More than any has; what follows is not read."""
FORMAT = 1
BEST = "best"
LATEST = "latest"

Layout = Literal["step", "epoch"]
"""Names of the folders: `step_10` or `epoch_10`."""

STEP = re.compile(r"(?:step|epoch)_(\d+)")
DISPLACED = re.compile(r"\.((?:step|epoch)_(\d+))\.old-\d+")
HIDDEN = re.compile(r"\.(?:step|epoch)_")


class Damaged(NamedTuple):
    """A checkpoint that cannot be used, and why."""

    path: Path
    reason: str


class Found(NamedTuple):
    """The newest intact checkpoint, and the newer damaged ones."""

    checkpoint: Checkpoint | None
    damaged: tuple[Damaged, ...]


class CheckpointStore:
    """The checkpoints of one run. Only the process that holds the run's lock may write.

    Example:
        ```
        store = CheckpointStore(run.path)
        store.recover()
        found = store.load_latest()
        store.save(10, learner.save, fingerprint=learner.fingerprint(), keep=3)
        ```
    """

    def __init__(self, run: Path, layout: Layout = "step") -> None:
        self.run = run
        self.folder = run / "checkpoints"
        self._layout = layout

    def save(
        self,
        step: int,
        write: Callable[[Path], None],
        *,
        fingerprint: str,
        keep: int,
        protect: Set[int] = frozenset(),
    ) -> Checkpoint:
        """Save step N, replacing an existing `step_N`, and remove old checkpoints.

        Args:
            step: Steps completed.
            write: Writes the checkpoint's files into the folder it is given.
            fingerprint: Of the weights.
            keep: How many of the newest to keep.
            protect: Steps to keep besides; the one that `best` names is always kept.
        """
        final = self.folder / self._name(step)
        temporary, displaced = self._hidden(step, "tmp"), self._hidden(step, "old")
        try:
            with storage_errors(final):
                with durable_step(DurableStep.CHECKPOINT_FOLDER):
                    self._make_folder()
                    temporary.mkdir()
                with durable_step(DurableStep.CHECKPOINT_FILES):
                    write(temporary)
                with durable_step(DurableStep.CHECKPOINT_MANIFEST):
                    write_manifest(temporary, step=step, fingerprint=fingerprint)
                with durable_step(DurableStep.CHECKPOINT_PUBLISH):
                    publish_folder(temporary, final, displaced=displaced)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            if displaced.exists() and not final.exists():
                os.rename(displaced, final)
            raise
        with durable_step(DurableStep.CHECKPOINT_LATEST):
            self._point("latest", step)
        with durable_step(DurableStep.CHECKPOINT_PRUNE), storage_errors(self.folder):
            if displaced.exists():
                shutil.rmtree(displaced)
            self._prune(step, keep, protect)
            self._link_epochs()
        return Checkpoint(path=final, step=step, fingerprint=fingerprint)

    def at(self, run: Path) -> "CheckpointStore":
        """The store of a run whose folder is somewhere else now."""
        return CheckpointStore(run, self._layout)

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
        except FileNotFoundError:  # not made anew: the run's other files would not be there
            raise CheckpointError(
                f"{self.run} is not there any more, so nothing can be saved in it; put it back"
            ) from None

    def mark_best(self, step: int) -> None:
        """Make `best` name a saved step, which is kept from then on.

        If the process is killed between saving and marking, the resumed loop marks it again.
        """
        if step not in self.steps():
            raise CheckpointError(f"{self.folder / self._name(step)} is not there to be the best")
        with durable_step(DurableStep.CHECKPOINT_BEST):
            self._point("best", step)

    def steps(self) -> list[int]:
        """Saved steps, intact or not, oldest first."""
        return sorted(self._folders())

    def pointed(self, pointer: str) -> int | None:
        """The step that `latest` or `best` names; None if there is no such link.

        A file with the name in it counts too: where no links can be made there is one. A copy of
        a run whose links were followed has a folder there, and is believed.
        """
        path = self.folder / pointer
        if not path.is_symlink() and path.is_dir():
            return _read(path / MANIFEST).step
        if not path.is_symlink() and not path.is_file():
            return None
        told = (
            os.readlink(path)
            if path.is_symlink()
            else path.read_text(encoding="utf-8", errors="replace").strip()
        )
        named = STEP.fullmatch(told)
        if named is None:
            raise CheckpointError(
                f"{path} does not name a checkpoint; remove it, or let it be a link to a folder "
                "such as step_10"
            )
        return int(named[1])

    def path(self, step: int) -> Path:
        """The folder of a step, intact or not, or where it would be."""
        return self._folders().get(step, self.folder / self._name(step))

    def load(self, step: int) -> Checkpoint:
        """The checkpoint of one step, verified."""
        folders = self._folders()
        if step not in folders:
            missing = self._name(step)
            there = ", ".join(folders[s].name for s in sorted(folders)) or "none yet"
            raise CheckpointError(f"{self.run} has no checkpoint {missing}; it has: {there}")
        return verify_checkpoint(folders[step])

    def load_latest(self) -> Found:
        """The newest intact checkpoint; none only if none was ever saved.

        Raises:
            CheckpointError: If there are checkpoints and all are damaged.
        """
        damaged: list[Damaged] = []
        for _, path in sorted(self._folders().items(), reverse=True):
            try:
                return Found(_inspect(path), tuple(damaged))
            except CheckpointError as error:
                damaged.append(Damaged(path, str(error)))
        if damaged:
            raise CheckpointError(
                f"no checkpoint of {self.run} can be used ({'; '.join(d.reason for d in damaged)}):"
                " put back a copy of one, or start again under another --name"
            )
        return Found(None, ())

    def recover(self) -> list[Path]:
        """Clean up after a process that died while saving; returns the folders removed.

        For the process that holds the run's lock, before it saves anything.
        """
        removed = []
        for path in sorted(p for p in self.folder.glob(".*_*") if HIDDEN.match(p.name)):
            displaced = DISPLACED.fullmatch(path.name)
            home = self.folder / displaced[1] if displaced else None
            if home is not None and not home.exists():
                os.rename(path, home)
            else:
                shutil.rmtree(path)
                removed.append(path)
        for pointer in (LATEST, BEST):
            for unfinished in self.folder.glob(f".{pointer}.tmp-*"):
                unfinished.unlink()
        steps = self.steps()
        if steps and self.pointed("latest") != steps[-1]:
            self._point("latest", steps[-1])
        if self.folder.is_dir():
            sync_folder(self.folder)
        self._link_epochs()
        return removed

    def _folders(self) -> dict[int, Path]:
        """Checkpoint folders by step; a displaced one only where its replacement is missing."""
        found: dict[int, Path] = {}
        for pattern in (STEP, DISPLACED):
            for path in sorted(self.folder.glob("*")):
                if (name := pattern.fullmatch(path.name)) and path.is_dir():
                    found.setdefault(int(name[pattern.groups]), path)
        return found

    def _name(self, step: int) -> str:
        """The name of a step's folder: as it exists, or as it will be created."""
        there = self._folders().get(step)
        found = DISPLACED.fullmatch(there.name) if there else None
        if there is None:
            return f"{self._layout}_{step}"
        return found[1] if found else there.name

    def _hidden(self, step: int, why: str) -> Path:
        path = self.folder / f".{self._name(step)}.{why}-{os.getpid()}"
        if path.exists():  # left by a killed process that had this pid
            shutil.rmtree(path)
        return path

    def _point(self, pointer: str, step: int) -> None:
        path = self.folder / pointer
        temporary = path.with_name(f".{pointer}.tmp-{os.getpid()}")
        temporary.unlink(missing_ok=True)
        try:
            temporary.symlink_to(self._name(step))
        except (OSError, NotImplementedError):  # Windows, and some network disks
            write_file(path, f"{self._name(step)}\n".encode())
            return
        with storage_errors(path), durable_step(DurableStep.FILE_RENAME):
            if not path.is_symlink() and path.is_dir():  # in a copy that followed the link
                shutil.rmtree(path)
            os.replace(temporary, path)
            sync_folder(self.folder)

    def _link_epochs(self) -> None:
        """Let `RUN/epoch_10` be there as a path too, where a link can be made."""
        names = [path.name for path in self._folders().values() if path.name.startswith("epoch_")]
        for link in self.run.glob("epoch_*"):
            if link.is_symlink() and link.name not in names:
                link.unlink()
        with suppress(OSError, NotImplementedError):  # Windows, and some network disks
            for name in names:
                if not (link := self.run / name).is_symlink():
                    link.symlink_to(Path(self.folder.name) / name)

    def _prune(self, saved: int, keep: int, protect: Set[int]) -> None:
        folders = self._folders()
        for step in self._no_longer_kept(saved, keep, protect):
            # Rename first: a half-removed folder would look like a damaged checkpoint.
            hidden = self._hidden(step, "gone")
            os.rename(folders[step], hidden)
            shutil.rmtree(hidden)

    def _no_longer_kept(self, saved: int, keep: int, protect: Set[int]) -> set[int]:
        steps = self.steps()
        # Steps beyond the one just saved are from before the run went back to an older checkpoint.
        # A later resume must not continue from them, so they are not kept.
        newest = [step for step in steps if step <= saved][-keep:]
        return set(steps) - {*newest, *protect, self.pointed("best")}


def verify_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a folder, every file verified.

    Raises:
        CheckpointError: Names the folder, the file and what is wrong with it.
    """
    if not path.is_dir():
        raise CheckpointError(f"{path} is not a checkpoint folder; name a run or one of its steps")
    try:
        return _inspect(path)
    except CheckpointError as error:
        raise CheckpointError(
            f"{error}; name another step, or the run itself for its newest sound checkpoint"
        ) from None


def _inspect(path: Path) -> Checkpoint:
    try:
        manifest = check_manifest(path)
        named = STEP.fullmatch(path.name)
        if named and int(named[1]) != manifest.step:
            raise CheckpointError(f"its manifest is that of step {manifest.step}")
    except CheckpointError as error:
        raise CheckpointError(f"checkpoint {path} is damaged: {error}") from None
    return Checkpoint(path=path, step=manifest.step, fingerprint=manifest.fingerprint)


class Resolved(NamedTuple):
    """A verified checkpoint, its run, and newer checkpoints that are damaged."""

    checkpoint: Checkpoint
    run: RunDir | None
    """None for a checkpoint folder that was copied out of its run."""
    damaged: tuple[Damaged, ...]


def resolve_checkpoint(named: str | Path, runs_dir: Path) -> Resolved:
    """The checkpoint named by a folder, a run, or a run and a step.

    `RUN` and `RUN/latest` are the newest intact checkpoint, `RUN/best` the best evaluated one,
    `RUN/step_10` that step; `RUN` is a path, a name in `runs_dir`, or `latest`. The path of a
    checkpoint folder, also of a copy outside its run, is that checkpoint, and so is an adapter that
    was exported or that PEFT wrote.
    """
    path = Path(named)
    if path.is_symlink():  # `checkpoints/best` is named after what it points to
        path = path.parent / os.readlink(path)
    if (path / MANIFEST).is_file():
        return Resolved(verify_checkpoint(path), _owner(path), ())
    if is_adapter_folder(path):
        return Resolved(Checkpoint(path=path, step=0, fingerprint=told_fingerprint(path)), None, ())
    run_part, which = _split(path, runs_dir)
    run = find_run(run_part, runs_dir)
    store = CheckpointStore(run.path)
    if which == LATEST:
        found = store.load_latest()
        if found.checkpoint is None:
            raise CheckpointError(f"{run.path} has no checkpoint yet; go on with it by --resume")
        return Resolved(found.checkpoint, run, found.damaged)
    return Resolved(store.load(_step(store, which)), run, ())


def _split(path: Path, runs_dir: Path) -> tuple[Path, str]:
    """The part of a name that names the run, and the part that names its checkpoint."""
    parent = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    if len(path.parts) > 1 and (path.name == BEST or STEP.fullmatch(path.name)):
        return parent, path.name
    if path.name == LATEST and (RunDir.is_run(parent) or RunDir.is_run(runs_dir / parent)):
        return parent, LATEST
    return path, LATEST


def _step(store: CheckpointStore, which: str) -> int:
    if named := STEP.fullmatch(which):
        return int(named[1])
    best = store.pointed(BEST)
    if best is None:
        raise CheckpointError(
            f"no checkpoint of {store.run} has been marked as the best yet; "
            f"use {store.run / LATEST}"
        )
    return best


def _owner(checkpoint: Path) -> RunDir | None:
    run = checkpoint.absolute().parent.parent
    return RunDir(run) if RunDir.is_run(run) else None


def is_adapter_folder(path: Path) -> bool:
    """Whether a folder holds an adapter and is not a run's checkpoint."""
    return (path / ADAPTER_CONFIG).is_file() and STEP.fullmatch(path.name) is None


def exported_from(folder: Path) -> dict[str, str]:
    """What an exported adapter came from; empty where it was made elsewhere."""
    path = folder / EXPORT_RESULTS
    try:
        return dict(json.loads(path.read_text())["lineage"]) if path.is_file() else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}; export the run again") from None


def told_fingerprint(folder: Path) -> str:
    """What a folder with an adapter says of its weights; empty where it was made elsewhere."""
    if (folder / MANIFEST).is_file():
        return verify_checkpoint(folder).fingerprint
    return exported_from(folder).get("fingerprint", "")


def base_of_adapter(folder: Path) -> str:
    """The name of the base model of a checkpoint's adapter, as it is loaded here."""
    path = folder / ADAPTER_CONFIG
    try:
        with path.open("rb") as file:
            content = file.read(ADAPTER_CONFIG_BYTES)  # one that is longer is no JSON then
        return model_name(str(json.loads(content)["base_model_name_or_path"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        told = f"{error!s:.200}"
        raise CheckpointError(f"{path} cannot be read: {told}; name another checkpoint") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSum:
    """Size and digest of a file."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`manifest.json`: the files of a checkpoint and their digests."""

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
    """Write `manifest.json` for the files now in `folder`."""
    files = {name: _sum(folder / name) for name in _names(folder)}
    body = asdict(Manifest(step=step, fingerprint=fingerprint, files=files))
    text = json.dumps({**body, "sha256": _digest(body)}, indent=2, sort_keys=True)
    write_file(folder / MANIFEST, text.encode() + b"\n")


def check_manifest(folder: Path) -> Manifest:
    """Verify every file of a folder against its manifest.

    Raises:
        CheckpointError: Names the file that is missing or damaged.
    """
    manifest = read_manifest(folder)
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


def read_manifest(folder: Path) -> Manifest:
    """What a folder says of its files; the manifest alone is verified, which takes no time."""
    return _read(folder / MANIFEST)


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
