"""`checkpoints/`: saved points of a run, each one whole or not there.

    checkpoints/
        step_10/              the learner's and the loop's files, and manifest.json
        step_15/
        latest                the name of the newest, as text
        best                  the name of the best evaluated, as text
        .step_20.tmp-4711/    being written
        .step_15.old-4711/    replaced by a newer step_15, about to be removed

Where a step is what others call an epoch the folders may be called `epoch_10` instead; whatever
reads checkpoints takes both names.

A hidden folder is no checkpoint, with one exception: when a process died between moving `step_N`
out of the way and putting its replacement there, the old one still counts.
"""

import os
import re
import shutil
from collections.abc import Callable, Set
from pathlib import Path
from typing import Literal, NamedTuple

from practicum.core.checkpoint import Checkpoint
from practicum.core.errors import CheckpointError
from practicum.store.durable import publish_folder, storage_errors, sync_folder, write_file
from practicum.store.failpoints import DurableStep, durable_step
from practicum.store.manifest import check_manifest, write_manifest

__all__ = ["CheckpointStore", "Damaged", "Found", "Layout", "verify_checkpoint"]

Layout = Literal["step", "epoch"]
"""What the folders are called: `step_10` or `epoch_10`."""

STEP = re.compile(r"(?:step|epoch)_(\d+)")
DISPLACED = re.compile(r"\.((?:step|epoch)_(\d+))\.old-\d+")
HIDDEN = re.compile(r"\.(?:step|epoch)_")


class Damaged(NamedTuple):
    """A checkpoint that cannot be used, and why."""

    path: Path
    reason: str


class Found(NamedTuple):
    """The newest sound checkpoint, and the newer ones passed over."""

    checkpoint: Checkpoint | None
    damaged: tuple[Damaged, ...]


class CheckpointStore:
    """The checkpoints of one run folder. Only the process that holds the run may write.

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
        """Save step N, replacing a `step_N` that is there, and remove what is no longer kept.

        Args:
            step: Steps completed.
            write: Writes the files of the checkpoint into the folder it is given.
            fingerprint: Of the weights saved.
            keep: How many of the newest stay.
            protect: Steps that stay besides those; the one `best` names always stays.
        """
        final = self.folder / self._name(step)
        staged, displaced = self._hidden(step, "tmp"), self._hidden(step, "old")
        try:
            with storage_errors(final):
                with durable_step(DurableStep.CHECKPOINT_FOLDER):
                    staged.mkdir(parents=True)
                with durable_step(DurableStep.CHECKPOINT_FILES):
                    write(staged)
                with durable_step(DurableStep.CHECKPOINT_MANIFEST):
                    write_manifest(staged, step=step, fingerprint=fingerprint)
                with durable_step(DurableStep.CHECKPOINT_PUBLISH):
                    publish_folder(staged, final, displaced=displaced)
        except BaseException:
            self._undo(staged, displaced, final)
            raise
        with durable_step(DurableStep.CHECKPOINT_LATEST):
            self._point("latest", step)
        with durable_step(DurableStep.CHECKPOINT_PRUNE), storage_errors(self.folder):
            if displaced.exists():
                shutil.rmtree(displaced)
            self._prune(step, keep, protect)
        return Checkpoint(path=final, step=step, fingerprint=fingerprint)

    def mark_best(self, step: int) -> None:
        """Make `best` name a saved step, which is kept from then on.

        A process killed between saving a step and marking it leaves the mark to its successor: the
        loop, which saves what it knows to be the best, marks it again when it resumes.
        """
        if step not in self.steps():
            raise CheckpointError(f"{self.folder / self._name(step)} is not there to be the best")
        with durable_step(DurableStep.CHECKPOINT_BEST):
            self._point("best", step)

    def steps(self) -> list[int]:
        """Steps that are saved, sound or not, oldest first."""
        return sorted(self._folders())

    def pointed(self, pointer: str) -> int | None:
        """The step `latest` or `best` names, None when nothing was marked."""
        path = self.folder / pointer
        if not path.is_file():
            return None
        named = STEP.fullmatch(path.read_text(encoding="utf-8", errors="replace").strip())
        if named is None:
            raise CheckpointError(
                f"{path} does not name a checkpoint; write a name such as step_10 into it, or "
                "remove it"
            )
        return int(named[1])

    def load(self, step: int) -> Checkpoint:
        """The checkpoint of one step, verified."""
        folders = self._folders()
        if step not in folders:
            missing = self._name(step)
            there = ", ".join(folders[s].name for s in sorted(folders)) or "none yet"
            raise CheckpointError(f"{self.run} has no checkpoint {missing}; it has: {there}")
        return verify_checkpoint(folders[step])

    def load_latest(self) -> Found:
        """The newest sound checkpoint; nothing at all only if none was ever saved.

        Raises:
            CheckpointError: when checkpoints are there and every one of them is damaged.
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
        """Clear up after a process that died while saving; gives the folders it removed.

        To be called by the process that holds the run, before it saves anything.
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
        steps = self.steps()
        if steps and self.pointed("latest") != steps[-1]:
            self._point("latest", steps[-1])
        if self.folder.is_dir():
            sync_folder(self.folder)
        return removed

    def _folders(self) -> dict[int, Path]:
        """Every checkpoint folder by step, and those displaced whose replacement never came."""
        found: dict[int, Path] = {}
        for pattern in (STEP, DISPLACED):
            for path in sorted(self.folder.glob("*")):
                if (name := pattern.fullmatch(path.name)) and path.is_dir():
                    found.setdefault(int(name[pattern.groups]), path)
        return found

    def _name(self, step: int) -> str:
        """What the folder of a step is called: as it is there, or as it will be."""
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

    def _undo(self, staged: Path, displaced: Path, final: Path) -> None:
        shutil.rmtree(staged, ignore_errors=True)
        if displaced.exists() and not final.exists():
            os.rename(displaced, final)

    def _point(self, pointer: str, step: int) -> None:
        write_file(self.folder / pointer, f"{self._name(step)}\n".encode())

    def _prune(self, saved: int, keep: int, protect: Set[int]) -> None:
        folders = self._folders()
        for step in self._no_longer_kept(saved, keep, protect):
            # Out of sight first: half of a folder would look like a damaged checkpoint.
            hidden = self._hidden(step, "gone")
            os.rename(folders[step], hidden)
            shutil.rmtree(hidden)

    def _no_longer_kept(self, saved: int, keep: int, protect: Set[int]) -> set[int]:
        steps = self.steps()
        # Steps past the one saved were made before the run went back to an older checkpoint: a
        # later resume must not take them for its own, so they are not among the newest.
        newest = [step for step in steps if step <= saved][-keep:]
        return set(steps) - {*newest, *protect, self.pointed("best")}


def verify_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a folder, with every file in it as it was written.

    Raises:
        CheckpointError: naming the folder, the file and what is wrong with it.
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
