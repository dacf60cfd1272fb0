"""Records of sandboxed commands: `SandboxSpec` (limits) and `CommandResult`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

SandboxProfile = Literal["code", "machine"]
"""`code`: an unprivileged user; every process ends with its command. `machine`: root of a private
system with its own users and groups; background jobs live on between commands."""


class CommandStatus(StrEnum):
    """How a command ended, as the sandbox observed it; never parsed from the command's output."""

    OK = "ok"
    """It exited, with any exit code."""
    TIMEOUT = "timeout"
    """It ran past its time limit; it and its children were killed."""
    OOM = "oom"
    """Killed by the memory limit."""
    KILLED = "killed"
    """Killed by a signal that the sandbox did not send."""
    TRUNCATED = "truncated"
    """It exited, and printed more than is kept: the middle of the output is missing."""
    DIED = "died"
    """The whole sandbox is gone."""
    DENIED = "denied"
    """It did not start: no such program, or not permitted."""
    BROKEN = "broken"
    """Earlier commands broke the sandbox (deleted bash, say): nothing can run in it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of one sandboxed command."""

    status: CommandStatus
    exit_code: int | None
    """None unless the command exited."""
    stdout: str = ""
    """What was kept of it; bytes that are not UTF-8 are replaced."""
    stderr: str = ""
    output_bytes: int = 0
    """Bytes written to stdout and stderr, kept or not."""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """Kind and limits of one sandbox; each limit is for all of its processes together."""

    profile: SandboxProfile = "code"
    memory_mb: int = 256
    """Includes its files, which are in memory (tmpfs)."""
    disk_mb: int = 128
    processes: int = 64
    cpus: float = 1.0
    """CPU seconds per second."""
    output_bytes: int = 65_536
    """Bytes kept of each command's stdout, and of its stderr."""
    shown: tuple[tuple[str, str], ...] = ()
    """Folders of the host that a `machine` sees but cannot change: each with its place inside."""
    system: str = ""
    """A system made by `core.capabilities.BuildsSystems`, in place of that of all machines."""
    image: str = ""
    """A container image that is played as it is: with the host's network and its own
    variables and programs, for checkers too. Nothing that other sandboxes promise holds for it."""

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> "SandboxSpec":
        """A spec from the JSON of its fields."""
        return cls(**{**given, "shown": tuple((host, place) for host, place in given["shown"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRecipe:
    """How a system of its own is made from that of all machines."""

    digest: str
    """Of all that it is made of: it is made once, and `SandboxSpec.system` names it so."""
    packages: tuple[str, ...]
    """Debian packages beside those of every machine."""
    prepare: Callable[[Any], Awaitable[None]]
    """Does the rest in a machine, a `Sandbox` without a network; all that it changes is kept."""
    spec: SandboxSpec
    """Limits of that machine."""
