"""`RunDir`, a run's folder: its files, the lock of its trainer, and finding runs by name.

runs/<name>/
    config.yaml      the resolved config
    run.json         versions, hardware, attempts (starts)
    metrics.jsonl    a row per step and evaluation
    events.jsonl     other events
    traces.sqlite    every episode
    checkpoints/     see `checkpoints`
    lock             held (flock) by the process that trains
"""

import errno
import importlib.metadata
import json
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from practicum.core.config.parse_config import MOST_CHARACTERS, build_config, parse_yaml
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError, RunBusy, UserError, nearest
from practicum.core.file_locks import lock_file
from practicum.core.task import JSON
from practicum.store.durable import (
    DurableStep,
    durable_step,
    publish_folder,
    storage_errors,
    write_file,
)
from practicum.store.events import read_metrics

EVALS = "evals"
"""Folder of a run that holds its evaluations, one JSON file each."""

RUNS = Path("runs")
"""Where a run is looked for when only its name is given."""
FACTS = "run.json"
STUDY = "study.json"
"""In a study's folder; see `study_dir`."""
LATEST = "latest"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
RESERVED = frozenset({"latest", "best"})
"""Names with another meaning where a run is named."""
SHOWN = 5
"""Run names in an error message."""
TRIES = 5
"""Attempts to lock, because `lock_holder` holds the lock for a moment."""

PAUSE_S = 0.02

PACKAGES = ("practicum", "torch", "transformers", "peft", "safetensors", "numpy")
"""Packages whose version can change a run's numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of the run."""

    attempt: int
    """1 for the first."""
    from_step: int
    """Steps already completed when it started."""
    started_at: float
    """Seconds since the epoch."""
    threads: int
    """CPU threads; another number changes the last bits of the results."""
    device: str
    pid: int
    host: str
    sandbox: str = ""
    """The `Sandbox.kind` of its episodes; empty where they ran no commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Everything in `run.json`."""

    name: str
    created_at: float
    """Seconds since the epoch."""
    versions: Mapping[str, str]
    hardware: Mapping[str, JSON] = field(default_factory=dict)
    """The machine, as detected."""
    attempts: tuple[Attempt, ...] = ()
    format: int = 1

    @property
    def last_started_at(self) -> float:
        """When it was last started, or else created."""
        return self.attempts[-1].started_at if self.attempts else self.created_at

    def with_attempt(
        self, *, from_step: int, threads: int, device: str, sandbox: str = ""
    ) -> "RunFacts":
        """The facts with one more attempt, by this process."""
        attempt = Attempt(
            attempt=len(self.attempts) + 1,
            from_step=from_step,
            started_at=time.time(),
            threads=threads,
            device=device,
            pid=os.getpid(),
            host=platform.node(),
            sandbox=sandbox,
        )
        return replace(self, attempts=(*self.attempts, attempt))


class RunDir:
    """An existing run folder. `RunDir.create` makes one; `find_run` finds one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.absolute().name
        self.config_path = path / "config.yaml"
        self.facts_path = path / FACTS
        self.metrics_path = path / "metrics.jsonl"
        self.events_path = path / "events.jsonl"
        self.traces_path = path / "traces.sqlite"
        self.checkpoints_path = path / "checkpoints"
        self.lock_path = path / "lock"

    def __repr__(self) -> str:
        return f"RunDir({str(self.path)!r})"

    @classmethod
    def create(
        cls,
        runs_dir: Path,
        config: RunConfig,
        *,
        name: str | None = None,
        hardware: Mapping[str, JSON] | None = None,
    ) -> "RunDir":
        """Create a run folder with its config and facts, atomically.

        Without a name it is named by environment and time, such as `math-20261115-142233`.
        """
        if name is not None:
            run = cls(runs_dir / check_name(name))
            if run.path.exists():
                raise taken(run.path)
        else:
            run = cls(free_path(runs_dir, config.env.name if config.env else "traces"))
        run._publish(config, hardware or {})
        return run

    def discard(self) -> None:
        """Remove the folder of a run that never began."""
        shutil.rmtree(self.path, ignore_errors=True)

    @classmethod
    def is_run(cls, path: Path) -> bool:
        """Whether a folder is a run folder."""
        return (path / FACTS).is_file()

    def config(self) -> RunConfig:
        """The resolved config of the run."""
        try:
            with self.config_path.open(encoding="utf-8") as file:
                text = file.read(MOST_CHARACTERS + 1)
        except FileNotFoundError:
            raise ConfigError(
                f"{self.config_path} is missing; put back a copy of it, or start another run "
                "with --name"
            ) from None
        return build_config(parse_yaml(text, str(self.config_path)), str(self.config_path))

    def replace_config(self, config: RunConfig) -> None:
        """Write the config of a resumed run, which may have more steps, say."""
        write_file(self.config_path, config_yaml(config))

    def facts(self) -> RunFacts:
        """Versions, hardware and attempts."""
        return read_facts(self.facts_path)

    def begin_attempt(
        self, *, from_step: int, threads: int, device: str, sandbox: str = ""
    ) -> Attempt:
        """Record that this process starts the run after `from_step` completed steps."""
        facts = self.facts().with_attempt(
            from_step=from_step, threads=threads, device=device, sandbox=sandbox
        )
        with durable_step(DurableStep.RUN_ATTEMPT):
            write_facts(self.facts_path, facts)
        return facts.attempts[-1]

    def save_evaluation(self, step: int, report: Mapping[str, JSON]) -> None:
        """Keep a whole report, made after `step` steps."""
        folder = self.path / EVALS
        folder.mkdir(exist_ok=True)
        write_file(folder / f"step_{step}.json", json.dumps(report).encode())

    def evaluations(self) -> dict[int, dict[str, Any]]:
        """Every report that is kept, by step."""
        files = (self.path / EVALS).glob("step_*.json")
        found = {int(file.stem.removeprefix("step_")): file for file in files}
        return {step: json.loads(file.read_text()) for step, file in sorted(found.items())}

    def hold(self) -> AbstractContextManager[None]:
        """Hold the run's lock for a block; raises `RunBusy` when another trainer has it."""
        return hold_lock(self.lock_path)

    def trainer_pid(self) -> int | None:
        """Pid of the process that trains now (0 if unknown); None when there is none."""
        return lock_holder(self.lock_path)

    def _publish(self, config: RunConfig, hardware: Mapping[str, JSON]) -> None:
        temporary = self.path.with_name(f".{self.name}.tmp-{os.getpid()}")
        facts = RunFacts(
            name=self.name,
            created_at=time.time(),
            versions=installed_versions(),
            hardware=hardware,
        )
        try:
            with durable_step(DurableStep.RUN_CREATE), storage_errors(self.path):
                _make_folder(temporary)
                (temporary / self.checkpoints_path.name).mkdir()
                write_file(temporary / self.config_path.name, config_yaml(config))
                write_facts(temporary / self.facts_path.name, facts)
                publish_folder(temporary, self.path)
        except BaseException as error:
            shutil.rmtree(temporary, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise taken(self.path) from None  # created by another process meanwhile
            raise


def check_name(name: str) -> str:
    """The name, if it is a valid run name."""
    if name in RESERVED or not NAME.fullmatch(name):
        raise UserError(
            f"{name!r} cannot be a run's name; names have up to 100 letters, digits, '.', '_' and "
            "'-', begin with a letter or digit, and are not "
            f"{' or '.join(sorted(RESERVED))}; try --name my-run"
        )
    return name


def check_place(runs_dir: Path, name: str | None) -> None:
    """Raise `UserError` unless a run of this name can be made there; leaves nothing behind."""
    if name is not None and (runs_dir / check_name(name)).exists():
        raise taken(runs_dir / name)
    made = [one for one in (runs_dir, *runs_dir.parents) if not one.exists()]
    probe = runs_dir / f".practicum.tmp-{os.getpid()}"
    try:
        with storage_errors(runs_dir):
            _make_folder(probe)
    finally:
        with suppress(OSError):
            for folder in (probe, *made):
                folder.rmdir()


def _make_folder(path: Path) -> None:
    try:
        shutil.rmtree(path, ignore_errors=True)  # left by a killed process with the same pid
        path.mkdir(parents=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(
            f"{path.parent} is a file, so it cannot hold runs; choose a folder with runs_dir=DIR"
        ) from None
    except FileNotFoundError:  # though parents are made: a place such as /proc
        raise UserError(
            f"no folder can be made at {path.parent}; choose another one with runs_dir=DIR"
        ) from None


def taken(path: Path) -> UserError:
    """The sentence for a name that is in use."""
    said = f"{path} exists already; go on with it by --resume {path}, or choose another --name"
    rows, damaged = read_metrics(RunDir(path).metrics_path)
    if RunDir.is_run(path) and not damaged and not any(row.step for row in rows):
        said += f"; no step of it is done: unless it is training now, rm -r {path} frees its name"
    return UserError(said)


def free_path(runs_dir: Path, env: str) -> Path:
    """A path for a run without a name, by environment and time."""
    own = env.rpartition(":")[2]  # `FILE.py:Name` and `module:Name` are named by their class
    word = re.sub(r"[^A-Za-z0-9]+", "_", own).strip("_") or "run"
    stem = f"{word[:60]}-{datetime.now(UTC).astimezone():%Y%m%d-%H%M%S}"
    path, number = runs_dir / stem, 2
    while path.exists():
        path, number = runs_dir / f"{stem}-{number}", number + 1
    return path


def config_yaml(config: RunConfig) -> bytes:
    """The whole config as a file that is read again."""
    text: str = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return text.encode()


def list_runs(runs_dir: Path) -> list[RunDir]:
    """All runs in the folder, the last started first."""
    if not runs_dir.is_dir():
        return []
    runs = [RunDir(path) for path in sorted(runs_dir.iterdir()) if _is_listed(path)]
    return sorted(runs, key=_last_started, reverse=True)


def latest_run(runs_dir: Path) -> RunDir:
    """The run started last."""
    runs = list_runs(runs_dir)
    if not runs:
        raise UserError(f"there are no runs in {runs_dir}; start one with: practicum train math")
    return runs[0]


def find_run(named: str | Path, runs_dir: Path) -> RunDir:
    """The run a user means by a path, a name in `runs_dir`, or `latest`.

    Example:
        `find_run("latest", Path("runs"))`, `find_run("runs/math-20261115-142233", Path("runs"))`
    """
    path = Path(named)
    if path.name == LATEST:
        return latest_run(path.parent if len(path.parts) > 1 else runs_dir)
    for candidate in (path, runs_dir / path):
        if RunDir.is_run(candidate):
            return RunDir(candidate)
    raise _missing(path, runs_dir)


def _missing(path: Path, runs_dir: Path) -> UserError:
    for study in (path, runs_dir / path):
        if (study / STUDY).is_file():
            return UserError(
                f"{study} is a study of several seeds; name one of its runs, such as "
                f"{study}/seed_0, or see all of them with: practicum compare {study}"
            )
    folder = path.parent if len(path.parts) > 1 and path.parent.is_dir() else runs_dir
    names = [run.name for run in list_runs(folder)]
    if not names:
        return UserError(
            f"there is no run {str(path)!r}, and no runs in {folder}; "
            "start one with: practicum train math"
        )
    hint = nearest(path.name, names, 0.6)
    return UserError(
        f"there is no run {str(path)!r}; {hint}the newest in {folder}: {', '.join(names[:SHOWN])}"
    )


def _is_listed(path: Path) -> bool:
    return not path.name.startswith(".") and RunDir.is_run(path)


def _last_started(run: RunDir) -> float:
    try:
        return run.facts().last_started_at
    except UserError:
        return 0.0  # damaged: listed last


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the `PACKAGES` that are installed."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


@cache
def _facts() -> TypeAdapter[RunFacts]:
    return TypeAdapter(RunFacts)


def write_facts(path: Path, facts: RunFacts) -> None:
    """Replace `run.json`."""
    write_file(path, _facts().dump_json(facts, indent=2) + b"\n")


def read_facts(path: Path) -> RunFacts:
    """Read `run.json`."""
    try:
        return _facts().validate_json(path.read_bytes())
    except ValidationError as error:
        raise UserError(
            f"{path} is damaged: {error.errors()[0]['msg']}; put back a copy of it, or start "
            "another run with --name"
        ) from None


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock file for the block.

    It is a `flock`, which the kernel releases when the process dies, however it dies. The pid in
    the file is only for messages.

    Raises:
        RunBusy: If another process holds it.
    """
    with storage_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _take(handle):
            pid = _read_pid(handle)
            who = f"process {pid}" if pid else "another process"
            raise RunBusy(
                f"{path.parent} is being trained by {who}; only one may train in a run folder: "
                f"wait for it, stop it{f' (kill -INT {pid})' if pid else ''}, or start another "
                "run with --name"
            )
        with storage_errors(path):
            _write_pid(handle, str(os.getpid()))
        yield
        _write_pid(handle, "")
    finally:
        os.close(handle)


def lock_holder(path: Path) -> int | None:
    """The pid of the process that holds the lock (0 if unknown), None if nobody does."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return None if lock_file(handle, shared=True) else _read_pid(handle) or 0
    finally:
        os.close(handle)


def _take(handle: int) -> bool:
    for attempt in range(TRIES):
        if lock_file(handle):
            return True
        if attempt + 1 < TRIES:
            time.sleep(PAUSE_S)
    return False


def _read_pid(handle: int) -> int | None:
    os.lseek(handle, 0, os.SEEK_SET)
    text = os.read(handle, 32).strip()
    return int(text) if text.isdigit() else None


def _write_pid(handle: int, pid: str) -> None:
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, pid.encode())
