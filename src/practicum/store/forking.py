"""The run a user wants to go on with: itself, or a new one from a checkpoint of it."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from practicum.core.errors import UserError
from practicum.store.checkpoints import (
    BEST,
    LATEST,
    STEP,
    CheckpointStore,
    Resolved,
    resolve_checkpoint,
)
from practicum.store.durable import publish_folder, storage_errors
from practicum.store.run_dir import (
    EVALS,
    RunDir,
    check_name,
    find_run,
    read_facts,
    taken,
    write_facts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A run that is to go on."""

    run: RunDir
    done: int
    """Steps that are done and stay."""
    fork: Resolved | None = None
    """The checkpoint that a new run begins from."""
    name: str | None = None

    def open(self) -> RunDir:
        """The folder to train in, made if it is a new run."""
        return self.run if self.fork is None else fork_run(self.fork, self.name)


def find_resumed(named: str | Path, runs_dir: Path, name: str | None) -> Resumed:
    """What `--resume` means: a run, or a checkpoint such as `runs/a/step_10`, which may be named.

    Nothing is made yet.
    """
    fork = resolve_checkpoint(named, runs_dir) if names_checkpoint(named) else None
    if fork is None and name is not None and not _is_path(name):
        raise _named_twice()
    run = _owner(fork) if fork is not None else find_run(named, runs_dir)
    newest = max(CheckpointStore(run.path).steps(), default=0)
    in_place = _is_place_of(run, name)
    if fork is not None and not (in_place and fork.checkpoint.step == newest):
        if in_place:
            raise UserError(
                f"{run.path} has gone on to step {newest} since {named}; go on with it by --resume "
                f"{run.path}, or from there under another name"
            )
        short = name and Path(name).name
        return Resumed(run=run, done=fork.checkpoint.step, fork=fork, name=short)
    if name is not None and not in_place:
        raise _named_twice()
    return Resumed(run=run, done=newest)


def _named_twice() -> UserError:
    return UserError(
        "--name and --resume cannot be given together; a run keeps its name, unless it goes on "
        "from a checkpoint, such as --resume RUN/step_10"
    )


def _is_path(name: str) -> bool:
    return len(Path(name).parts) > 1 or name.startswith(".")


def _is_place_of(run: RunDir, name: str | None) -> bool:
    """Whether a name that is a path is that of the run itself.

    Raises:
        UserError: it is in another folder than the run, beside which a new one would be made.
    """
    if name is None or not _is_path(name):
        return False
    folder = Path(name).resolve()
    if folder.parent != run.path.resolve().parent:
        raise UserError(
            f"a run that goes on from a checkpoint lies beside the old one, in {run.path.parent}, "
            f"and --name {name} does not; give a name alone"
        )
    return folder == run.path.resolve()


def names_checkpoint(named: str | Path) -> bool:
    """Whether a word names one checkpoint of a run, and not the run: `RUN/step_10`, `RUN/best`."""
    path = Path(named)
    return len(path.parts) > 1 and (path.name == BEST or STEP.fullmatch(path.name) is not None)


def fork_run(found: Resolved, name: str | None = None) -> RunDir:
    """Copy a run beside itself as it was when a checkpoint was saved.

    Args:
        found: The checkpoint.
        name: What to call the new run; that of the old one and the step unless given.
    """
    run, step = _owner(found), found.checkpoint.step
    final = _free(run, step) if name is None else run.path.parent / check_name(name)
    if final.exists():
        raise taken(final)
    temporary = final.with_name(f".{final.name}.tmp-{os.getpid()}")
    try:
        with storage_errors(final):
            shutil.copytree(run.path, temporary, ignore=_later_than(run.path, step), symlinks=True)
            forked = RunDir(temporary)
            write_facts(forked.facts_path, replace(read_facts(forked.facts_path), name=final.name))
            CheckpointStore(temporary).recover()  # points `latest` at the newest that is left
            publish_folder(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return RunDir(final)


def _owner(found: Resolved) -> RunDir:
    if found.run is None:
        path = found.checkpoint.path
        raise UserError(
            f"{path} lies outside its run, so there is nothing to go on with; start a run from its "
            f"weights: practicum train CONFIG lora.start={path}"
        )
    return found.run


def _free(run: RunDir, step: int) -> Path:
    path, number = run.path.with_name(f"{run.name}-from-{step}"), 2
    while path.exists():
        path, number = run.path.with_name(f"{run.name}-from-{step}-{number}"), number + 1
    return path


def _later_than(run: Path, step: int) -> Callable[[str, list[str]], set[str]]:
    """What `copytree` is to leave out: checkpoints and evaluations after a step."""
    best = CheckpointStore(run).pointed(BEST)

    def ignored(folder: str, names: list[str]) -> set[str]:
        place = Path(folder).relative_to(run)
        if place == Path():
            return {"lock"} & set(names)
        if place not in (Path("checkpoints"), Path(EVALS)):
            return set()
        found = {n for n in names if (m := STEP.match(n)) and int(m[1]) > step}
        found |= {n for n in names if n.startswith(".")}
        if place == Path("checkpoints"):
            found |= {LATEST} | ({BEST} if best is not None and best > step else set())
        return found & set(names)

    return ignored
