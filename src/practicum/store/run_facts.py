"""`run.json`: where and with what a run was made, and each time it was started."""

import importlib.metadata
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from practicum.core.errors import UserError
from practicum.core.task import JSON
from practicum.store.durable import write_file

__all__ = ["Attempt", "RunFacts", "installed_versions", "read_facts", "write_facts"]

PACKAGES = ("practicum", "torch", "transformers", "peft", "safetensors", "numpy")
"""Packages whose version can change what a run computes."""


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
    """CPU threads it computed with: another number gives other bits."""
    device: str
    pid: int
    host: str
    sandbox: str = ""
    """What isolated the commands of its episodes; empty where they ran none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Everything in `run.json`."""

    name: str
    created_at: float
    """Seconds since the epoch."""
    versions: Mapping[str, str]
    hardware: Mapping[str, JSON] = field(default_factory=dict)
    """What the machine was found to have."""
    attempts: tuple[Attempt, ...] = ()
    format: int = 1

    @property
    def last_started_at(self) -> float:
        """When it was last started, or made if it never was."""
        return self.attempts[-1].started_at if self.attempts else self.created_at

    def with_attempt(
        self, *, from_step: int, threads: int, device: str, sandbox: str = ""
    ) -> "RunFacts":
        """The facts with one more start, by this process."""
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


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter, as far as they are installed."""
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
    """What `run.json` says."""
    try:
        return _facts().validate_json(path.read_bytes())
    except ValidationError as error:
        raise UserError(
            f"{path} is damaged: {error.errors()[0]['msg']}; put back a copy of it, or start "
            "another run with --name"
        ) from None
