"""One run's folder: what is in it, and who may write to it.

runs/<name>/
    config.yaml      the resolved config
    run.json         versions, hardware, each start
    metrics.jsonl    a row for each step and evaluation
    events.jsonl     what else happened
    traces.sqlite    every episode
    checkpoints/     see `checkpoints`
    lock             held by the process that trains
"""

import errno
import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import yaml

from practicum.core.config import RunConfig, build_config, parse_yaml
from practicum.core.errors import ConfigError, UserError
from practicum.core.task import JSON
from practicum.store.durable import publish_folder, storage_errors, write_file
from practicum.store.failpoints import DurableStep, durable_step
from practicum.store.lock import hold_lock, lock_holder
from practicum.store.run_facts import (
    Attempt,
    RunFacts,
    installed_versions,
    read_facts,
    write_facts,
)

__all__ = ["RunDir", "check_name"]

FACTS = "run.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
RESERVED = frozenset({"latest", "best"})
"""Names that stand for something else where a run is named."""


class RunDir:
    """A run folder that exists. `RunDir.create` makes one; `runs.find_run` finds one."""

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
        """Make a run folder with its config and facts in it, at once.

        Without a name it is called after the environment and the time, such as
        `math-20261115-142233`.
        """
        if name is not None:
            run = cls(runs_dir / check_name(name))
            if run.path.exists():
                raise _taken(run.path)
        else:
            run = cls(_free_path(runs_dir, config.env.name if config.acts else "traces"))
        run._publish(config, hardware or {})
        return run

    @classmethod
    def is_run(cls, path: Path) -> bool:
        """Whether a folder is a run's."""
        return (path / FACTS).is_file()

    def config(self) -> RunConfig:
        """The resolved config the run was made with."""
        try:
            text = self.config_path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ConfigError(
                f"{self.config_path} is missing; put back a copy of it, or start another run "
                "with --name"
            ) from None
        return build_config(parse_yaml(text, str(self.config_path)), str(self.config_path))

    def replace_config(self, config: RunConfig) -> None:
        """Keep a config whose differences a resumed run may have, such as more steps."""
        write_file(self.config_path, _to_yaml(config))

    def facts(self) -> RunFacts:
        """Versions, hardware and attempts."""
        return read_facts(self.facts_path)

    def begin_attempt(
        self, *, from_step: int, threads: int, device: str, sandbox: str = ""
    ) -> Attempt:
        """Record that this process starts the run, at `from_step` completed steps."""
        facts = self.facts().with_attempt(
            from_step=from_step, threads=threads, device=device, sandbox=sandbox
        )
        with durable_step(DurableStep.RUN_ATTEMPT):
            write_facts(self.facts_path, facts)
        return facts.attempts[-1]

    def hold(self) -> AbstractContextManager[None]:
        """Keep every other trainer out for a block; `RunBusy` when one is in already."""
        return hold_lock(self.lock_path)

    def trainer_pid(self) -> int | None:
        """Pid of the process training now (0 if it cannot be told), None when there is none."""
        return lock_holder(self.lock_path)

    def _publish(self, config: RunConfig, hardware: Mapping[str, JSON]) -> None:
        staged = self.path.with_name(f".{self.name}.tmp-{os.getpid()}")
        facts = RunFacts(
            name=self.name,
            created_at=time.time(),
            versions=installed_versions(),
            hardware=hardware,
        )
        try:
            with durable_step(DurableStep.RUN_CREATE), storage_errors(self.path):
                _make_folder(staged)
                (staged / self.checkpoints_path.name).mkdir()
                write_file(staged / self.config_path.name, _to_yaml(config))
                write_facts(staged / self.facts_path.name, facts)
                publish_folder(staged, self.path)
        except BaseException as error:
            shutil.rmtree(staged, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise _taken(self.path) from None  # made by another process in the meantime
            raise


def check_name(name: str) -> str:
    """The name, if a run may be called that."""
    if name in RESERVED or not NAME.fullmatch(name):
        raise UserError(
            f"{name!r} cannot be a run's name; names have up to 100 letters, digits, '.', '_' and "
            "'-', begin with a letter or digit, and are not "
            f"{' or '.join(sorted(RESERVED))}; try --name my-run"
        )
    return name


def _make_folder(path: Path) -> None:
    try:
        shutil.rmtree(path, ignore_errors=True)  # left by a killed process with the same pid
        path.mkdir(parents=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(
            f"{path.parent} is a file, so it cannot hold runs; choose a folder with runs_dir=DIR"
        ) from None


def _taken(path: Path) -> UserError:
    return UserError(
        f"{path} exists already; go on with it by --resume {path}, or choose another --name"
    )


def _free_path(runs_dir: Path, env: str) -> Path:
    word = re.sub(r"[^A-Za-z0-9]+", "_", env).strip("_") or "run"
    stem = f"{word[:60]}-{datetime.now(UTC).astimezone():%Y%m%d-%H%M%S}"
    path, number = runs_dir / stem, 2
    while path.exists():
        path, number = runs_dir / f"{stem}-{number}", number + 1
    return path


def _to_yaml(config: RunConfig) -> bytes:
    text: str = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return text.encode()
