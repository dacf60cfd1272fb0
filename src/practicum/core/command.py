"""Commands in a sandbox: what one may use, and what a command came to."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = ["CommandResult", "CommandStatus", "SandboxProfile", "SandboxSpec"]

SandboxProfile = Literal["code", "machine"]
"""`code`: an ordinary user, no rights, nothing outlives its command. `machine`: root of a private
system with users and groups of its own, where background jobs live on between commands."""


class CommandStatus(StrEnum):
    """How a command ended; said by the sandbox, never read from what the command printed."""

    OK = "ok"
    """By itself, whatever its exit code."""
    TIMEOUT = "timeout"
    """It ran past its limit; it and all it started were killed."""
    OOM = "oom"
    """The memory limit ended it."""
    KILLED = "killed"
    """A signal ended it that was not ours."""
    TRUNCATED = "truncated"
    """By itself, and it printed more than is kept: the middle is missing."""
    DIED = "died"
    """The whole sandbox is gone."""
    DENIED = "denied"
    """The sandbox did not run it: no such program, or not allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command in a sandbox came to."""

    status: CommandStatus
    exit_code: int | None
    """None unless the command ended by itself."""
    stdout: str = ""
    """What was kept of it, bytes that are no UTF-8 replaced."""
    stderr: str = ""
    output_bytes: int = 0
    """All it printed to both, kept or not."""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """What one sandbox is and may use; each limit holds for everything inside it together."""

    profile: SandboxProfile = "code"
    memory_mb: int = 256
    """Memory, files included: they lie in memory."""
    disk_mb: int = 128
    """Files."""
    processes: int = 64
    cpus: float = 1.0
    """Processor time each second."""
    output_bytes: int = 65_536
    """Kept of each command's standard output, and as much of its standard error."""
