"""Served versions of a model: copies of adapters, the one that is served, and what changed when.

served/<name>/
    versions/0001/    adapter_config.json, adapter_model.safetensors, manifest.json, and config.yaml
                      of the run it came from; never changed once it is there. One that was made to
                      wait for a person has proposal.json: what speaks for it
    current           a link to the version that is served
    history.jsonl     a row per change
    change.json       the row of a change that is under way
    lock              held (flock) by the process that changes something

The link is replaced in one rename, so a process killed at any moment leaves the old version served
or the new one. The row of a change is written before the link moves; where a kill came between the
link and the history, the next one to look adds it.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from practicum.core.errors import CheckpointError, RunBusy, UserError
from practicum.core.task import JSON
from practicum.store.checkpoints import (
    MANIFEST,
    base_of_adapter,
    check_manifest,
    resolve_checkpoint,
    told_fingerprint,
    write_manifest,
)
from practicum.store.durable import (
    DurableStep,
    durable_step,
    publish_folder,
    storage_errors,
    sync_folder,
    write_file,
)
from practicum.store.run_dir import NAME, hold_lock

SERVED = Path("served")
"""Where a served model is looked for when only its name is given."""
WEIGHTS = "adapter_model.safetensors"
NEEDED = ("adapter_config.json", WEIGHTS)
ALSO_KEPT = ("tokenizer*", "special_tokens_map.json", "chat_template*", "README.md")
"""What an exported adapter has besides. A checkpoint's optimizer is left: it is not served."""
CONFIG = "config.yaml"
PROPOSAL = "proposal.json"
VERSION = re.compile(r"\d{4,}")

Action = Literal["publish", "promote", "rollback", "wait", "refuse"]
NOT_SERVED = frozenset({"refuse"})
"""Actions in the history that served nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedVersion:
    """A version of a served model, its files verified."""

    version: str
    """Such as `0002`."""
    path: Path
    base: str
    """The name of the model that its adapter is for."""
    fingerprint: str
    """Of base and adapter."""
    sha256: str
    """Of the adapter's weights."""

    @property
    def config_path(self) -> Path | None:
        """The config of the run it came from; None where it came from a bare adapter."""
        path = self.path / CONFIG
        return path if path.is_file() else None


class Change(NamedTuple):
    """What a change of the served version is to be recorded with."""

    action: Action
    why: str = ""
    evidence: Mapping[str, JSON] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingVersion:
    """A version that waits for a person, and what speaks for it."""

    version: str
    at: str
    instead_of: str | None
    """The version it was compared with."""
    why: str
    evidence: Mapping[str, JSON]


class AdapterSource(NamedTuple):
    """An adapter that can become a version."""

    folder: Path
    step: int
    fingerprint: str
    config: Path | None


Identify = Callable[[Path, str], str]
"""The fingerprint of the adapter in a folder, given what it says itself, which may be nothing.

Raises where that is not so, or where it cannot be served.
"""


def as_told(folder: Path, told: str) -> str:
    """Believes what an adapter says of itself."""
    return told


class ServedVersions:
    """The folder of a served model.

    Args:
        path: The folder; it need not be there yet.
        identify: Looks at an adapter before it becomes a version.

    Example:
        ```
        served = ServedVersions(Path("served/math"))
        served.publish("runs/demo")
        served.rollback()
        ```
    """

    def __init__(self, path: Path, identify: Identify = as_told) -> None:
        self.path = path
        self.name = path.name
        self._identify = identify
        self._versions = path / "versions"
        self._link = path / "current"
        self._history = path / "history.jsonl"
        self._pending = path / "change.json"

    def __repr__(self) -> str:
        return f"ServedVersions({str(self.path)!r})"

    @property
    def current(self) -> ServedVersion:
        """The version that is served."""
        named = self._served()
        if named is None:
            raise UserError(
                f"{self.path} serves no version yet; type: practicum served publish {self.name} RUN"
            )
        if not (self._versions / named).is_dir():
            raise UserError(
                f"{self._link} points to version {named}, which is not there; the versions are "
                f"{self._listed()}; type: practicum served promote {self.name} VERSION"
            )
        return self.version(named)

    def versions(self) -> list[str]:
        """The versions that are there, oldest first."""
        found = self._versions.iterdir() if self._versions.is_dir() else ()
        return sorted((p.name for p in found if VERSION.fullmatch(p.name)), key=int)

    def version(self, named: str) -> ServedVersion:
        """One version, every file of it verified."""
        folder = self._versions / (named.zfill(4) if named.isdigit() else named)
        if folder.name not in self.versions():
            raise UserError(
                f"{self.path} has no version {named!r}; the versions are {self._listed()}"
            )
        try:
            manifest = check_manifest(folder)
        except CheckpointError as error:
            raise CheckpointError(
                f"version {folder} is damaged: {error}; serve another one with: practicum served "
                f"rollback {self.name}"
            ) from None
        return ServedVersion(
            version=folder.name,
            path=folder,
            base=base_of_adapter(folder),
            fingerprint=manifest.fingerprint,
            sha256=manifest.files[WEIGHTS].sha256,
        )

    def history(self) -> list[dict[str, Any]]:
        """Every change, oldest first."""
        rows = self._rows()
        pending = self._unrecorded(rows)
        return rows if pending is None else [*rows, pending]

    def publish(
        self,
        source: str | Path,
        *,
        runs_dir: Path = Path("runs"),
        change: Change = Change("publish"),  # noqa: B008 - a NamedTuple is not changed
        instead_of: ServedVersion | None = None,
    ) -> ServedVersion:
        """Copy an adapter to a new version, and serve it, or let it wait for a person.

        Args:
            source: A run, a checkpoint, or the folder of an adapter.
            runs_dir: Where a run is looked for that is given by its name.
            change: How it is recorded; the action `wait` serves nothing.
            instead_of: The version that must still be served: the one it was compared with.
        """
        found = find_adapter(source, runs_dir)
        found = found._replace(fingerprint=self._identify(found.folder, found.fingerprint))
        with self._changing():
            now = self._served()
            if instead_of is not None and now != instead_of.version:
                raise UserError(
                    f"{self.path} serves version {now} now, and {source} was compared with "
                    f"{instead_of.version}; nothing was changed; learn again from what is served"
                )
            named = self._copy(found, change if change.action == "wait" else None)
            if change.action != "wait":
                self._point(named, change)
        return self.version(named)

    def waiting(self) -> list[WaitingVersion]:
        """The versions that wait for a person, oldest first."""
        decided = {row["version"] for row in self.history()}
        found = []
        for version in self.versions():
            path = self._versions / version / PROPOSAL
            if version in decided or not path.is_file():
                continue
            try:
                told = json.loads(path.read_text(encoding="utf-8"))
                found.append(WaitingVersion(version=version, **told))
            except (ValueError, TypeError) as error:
                raise UserError(
                    f"{path} cannot be read ({error}); put back a copy of it, or move its folder "
                    "away"
                ) from None
        return found

    def promote(self, version: str, why: str = "") -> ServedVersion:
        """Serve a version that is there."""
        wanted = self.version(version)
        with self._changing():
            if self._served() == wanted.version:
                raise UserError(f"{self.path} serves version {wanted.version} already")
            waiting = next((one for one in self.waiting() if one.version == wanted.version), None)
            told = "; ".join(filter(None, (why, waiting.why if waiting else "")))
            evidence = waiting.evidence if waiting else {}
            self._point(wanted.version, Change("promote", told, evidence))
        return wanted

    def refuse(self, version: str, why: str = "") -> ServedVersion:
        """Let a version wait no longer; it stays where it is, and is not served."""
        wanted = self.version(version)
        with self._changing():
            listed = [one.version for one in self.waiting()]
            if wanted.version not in listed:
                raise UserError(
                    f"version {wanted.version} of {self.path} does not wait for anybody's word; "
                    f"those that do: {', '.join(listed) or 'none'}"
                )
            row = self._row(wanted.version, Change("refuse", why), before=None)
            self._write_history([*self._rows(), row])
        return wanted

    def rollback(self, why: str = "") -> ServedVersion:
        """Serve the version that was served before the current one."""
        with self._changing():
            before = _served_before(self._rows())
            if before is None:
                raise UserError(
                    f"{self.path} has served no version before the current one; the versions are "
                    f"{self._listed()}; type: practicum served promote {self.name} VERSION"
                )
            wanted = self.version(before)
            self._point(before, Change("rollback", why))
        return wanted

    def _served(self) -> str | None:
        """The version that the link names, whether or not it is there."""
        try:
            return Path(os.readlink(self._link)).name
        except FileNotFoundError:
            return None
        except OSError:
            raise UserError(
                f"{self._link} is not a link; move it away, then type: practicum served promote "
                f"{self.name} VERSION, with one of {self._listed()}"
            ) from None

    def _listed(self) -> str:
        return ", ".join(self.versions()) or "none"

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Alone in the folder, with what a killed process left put in order."""
        try:
            with storage_errors(self.path):
                self._versions.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UserError(
                f"{str(self.path)!r} is a file or lies in one; give a name or a folder for served "
                "versions, such as served/shop"
            ) from None
        try:
            with hold_lock(self.path / "lock"):
                self._settle()
                yield
        except RunBusy:
            raise RunBusy(
                f"{self.path} is being changed by another process; wait for it, then try again"
            ) from None

    def _settle(self) -> None:
        for left in self._versions.glob(".*.tmp-*"):
            shutil.rmtree(left)
        rows = self._rows()
        pending = self._unrecorded(rows)
        if pending is not None:
            self._write_history([*rows, pending])
        self._pending.unlink(missing_ok=True)

    def _unrecorded(self, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
        """The row of a change that took place and is not in the history yet."""
        if not self._pending.is_file():
            return None
        row: dict[str, Any] = json.loads(self._pending.read_text(encoding="utf-8"))
        took_place = row["version"] == self._served() and row not in rows
        return row if took_place else None

    def _copy(self, found: AdapterSource, proposed: Change | None) -> str:
        numbers = [int(name) for name in self.versions()]
        named = f"{max(numbers, default=0) + 1:04d}"
        temporary = self._versions / f".{named}.tmp-{os.getpid()}"
        files = [found.folder / name for name in NEEDED]
        files += [p for pattern in ALSO_KEPT for p in sorted(found.folder.glob(pattern))]
        self._require_space(sum(file.stat().st_size for file in files))
        try:
            with storage_errors(self._versions / named):
                temporary.mkdir()
                for file in files:
                    shutil.copyfile(file, temporary / file.name)
                if found.config is not None:
                    shutil.copyfile(found.config, temporary / CONFIG)
                if proposed is not None:
                    told = {
                        "at": _now(),
                        "instead_of": self._served(),
                        "why": proposed.why,
                        "evidence": dict(proposed.evidence),
                    }
                    write_file(temporary / PROPOSAL, json.dumps(told).encode())
                write_manifest(temporary, step=found.step, fingerprint=found.fingerprint)
                publish_folder(temporary, self._versions / named)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return named

    def _require_space(self, size: int) -> None:
        free = shutil.disk_usage(self._versions).free
        if free < size:
            raise UserError(
                f"a version of {self.path} takes {size / 1e6:.1f} MB and {free / 1e6:.1f} MB are "
                "free there; what is served stays as it is; free some space, or serve from a "
                "folder on another disk"
            )

    def _point(self, named: str, change: Change) -> None:
        """Serve a version: the row first, then the link, then the history."""
        row = self._row(named, change, before=self._served())
        write_file(self._pending, json.dumps(row).encode())
        new = self.path / ".current.tmp"
        new.unlink(missing_ok=True)
        with storage_errors(self._link):
            new.symlink_to(Path("versions") / named)
            with durable_step(DurableStep.FILE_RENAME):
                os.replace(new, self._link)
                sync_folder(self.path)
        self._write_history([*self._rows(), row])
        self._pending.unlink()

    def _row(self, named: str, change: Change, before: str | None) -> dict[str, Any]:
        """A row of the history; `before` is the version that was served."""
        return {
            "at": _now(),
            "action": change.action,
            "version": named,
            "from": before,
            "fingerprint": check_manifest(self._versions / named).fingerprint,
            "sha256": self.version(named).sha256,
            "why": change.why,
            "evidence": dict(change.evidence),
        }

    def _rows(self) -> list[dict[str, Any]]:
        if not self._history.is_file():
            return []
        try:
            lines = self._history.read_text(encoding="utf-8").splitlines()
            rows = [json.loads(line) for line in lines if line.strip()]
            return [{**row, "version": str(row["version"])} for row in rows]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{self._history} cannot be read ({error}); put back a copy of it, or move it away "
                "to begin another"
            ) from None

    def _write_history(self, rows: list[dict[str, Any]]) -> None:
        write_file(self._history, "".join(json.dumps(row) + "\n" for row in rows).encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _served_before(rows: list[dict[str, Any]]) -> str | None:
    """The version that going back leads to; a second time leads further back."""
    served: list[str] = []
    for row in (one for one in rows if one["action"] not in NOT_SERVED):
        if row["action"] == "rollback":
            del served[-1:]
        else:
            served.append(row["version"])
    return served[-2] if len(served) > 1 else None


def find_adapter(source: str | Path, runs_dir: Path) -> AdapterSource:
    """The adapter that a run, a checkpoint or a folder has."""
    folder = Path(source)
    if folder.is_dir() and not (folder / MANIFEST).is_file() and (folder / WEIGHTS).is_file():
        base_of_adapter(folder)  # refuse what is no adapter now
        return AdapterSource(folder, 0, told_fingerprint(folder), None)
    found = resolve_checkpoint(source, runs_dir)
    folder = found.checkpoint.path
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(f"{folder} has no {missing[0]}; name a run, or one of its steps")
    config = found.run.config_path if found.run else folder / CONFIG
    kept = config if config.is_file() else None
    return AdapterSource(folder, found.checkpoint.step, found.checkpoint.fingerprint, kept)


def find_served(
    named: str | Path | None, identify: Identify = as_told, *, must_exist: bool = True
) -> ServedVersions:
    """The served model that a path or a name in `served/` means; the only one if none is named."""
    if named is None:
        there = list_served(SERVED)
        if len(there) != 1:
            listed = ", ".join(str(one.path) for one in there) or "none"
            raise UserError(
                f"say which served model: --model served/NAME; in {SERVED} there are: {listed}; "
                "practicum served publish NAME RUN makes one"
            )
        return ServedVersions(there[0].path, identify)
    path = Path(named)
    if len(path.parts) == 1 and not path.is_dir():
        path = SERVED / path
    if not NAME.fullmatch(path.name):
        raise UserError(
            f"{path.name!r} cannot be the name of a served model; use letters, digits, '.', '_' "
            "and '-'"
        )
    served = ServedVersions(path, identify)
    if must_exist and not (path / "versions").is_dir():
        listed = ", ".join(one.name for one in list_served(path.parent)) or "none"
        raise UserError(
            f"there is no served model {str(path)!r}; in {path.parent} there are: {listed}; make "
            f"it with: practicum served publish {path.name} RUN"
        )
    return served


def list_served(folder: Path) -> list[ServedVersions]:
    """The served models in a folder, by name."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [ServedVersions(path) for path in found if (path / "versions").is_dir()]
