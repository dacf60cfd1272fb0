"""What a user means by a checkpoint."""

from pathlib import Path
from typing import NamedTuple

from practicum.core.checkpoint import Checkpoint
from practicum.core.errors import CheckpointError
from practicum.store.checkpoints import STEP, CheckpointStore, Damaged, verify_checkpoint
from practicum.store.manifest import MANIFEST
from practicum.store.run_dir import RunDir
from practicum.store.runs import find_run

__all__ = ["Resolved", "resolve_checkpoint"]

BEST = "best"
LATEST = "latest"


class Resolved(NamedTuple):
    """A verified checkpoint, the run it belongs to, and newer ones passed over as damaged."""

    checkpoint: Checkpoint
    run: RunDir | None
    """None for a checkpoint folder that was copied out of its run."""
    damaged: tuple[Damaged, ...]


def resolve_checkpoint(named: str | Path, runs_dir: Path) -> Resolved:
    """The checkpoint named by a folder, a run, or a run and a step.

    `RUN` and `RUN/latest` are the newest sound checkpoint, `RUN/best` the best evaluated one,
    `RUN/step_10` that step; `RUN` is a path, a name in `runs_dir`, or `latest`. A path to a
    checkpoint folder, in a run or copied out of one, is that checkpoint.
    """
    path = Path(named)
    if (path / MANIFEST).is_file():
        return Resolved(verify_checkpoint(path), _owner(path), ())
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
    """The part of a name that names a run, and which of its checkpoints is meant."""
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
