"""`CommandSandbox`: base of all sandboxes; makes a `RanCommand` of each `run` and `judge`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from practicum.core.command import CommandResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RanCommand:
    """A command that a sandbox was asked to run."""

    command: tuple[str, ...]
    stdin: bytes
    timeout_s: float
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    is_judge: bool = False
    """Whether it was run as a checker."""


class CommandSandbox(ABC):
    """Base class of sandboxes; see `core.interfaces.Sandbox`."""

    _kind: str

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandbox`."""
        return self._kind

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        """See `core.interfaces.Sandbox`."""
        return await self._carry_out(
            RanCommand(
                command=tuple(command),
                stdin=stdin,
                timeout_s=timeout_s,
                environment=dict(environment or {}),
                cwd=cwd,
            )
        )

    async def judge(
        self, command: Sequence[str], *, timeout_s: float, stdin: bytes = b""
    ) -> CommandResult:
        """See `core.interfaces.Sandbox`."""
        return await self._carry_out(
            RanCommand(command=tuple(command), stdin=stdin, timeout_s=timeout_s, is_judge=True)
        )

    @abstractmethod
    async def _carry_out(self, ran: RanCommand) -> CommandResult:
        """Run one command, or one checker."""
