"""`CommandSandbox`, base of all sandboxes, and `within`, their timeout."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from practicum.core.command import CommandResult

Result = TypeVar("Result")
SECOND_LOOK_S = 0.5
PYTHON = ("python3", "-I", "-S", "-")
"""Runs a program from standard input: isolated (`-I`) and without site packages (`-S`), so that
nothing the policy wrote into a home folder or a library path is imported."""


async def within(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work; `TimeoutError` after `seconds` and one more short wait.

    Sampling and learning block the event loop for many seconds. When it runs again, an answer may
    wait in the socket although the time has passed; `asyncio.timeout` would raise without reading.
    """
    task = asyncio.ensure_future(work)
    try:
        for timeout_s in (seconds, SECOND_LOOK_S):
            done, _ = await asyncio.wait({task}, timeout=timeout_s)
            if done:
                return task.result()
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    raise TimeoutError


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
    is_inspection: bool = False
    """Whether it is a Python program on `stdin`, for `CommandSandbox.inspect`."""


class CommandSandbox(ABC):
    """Makes a `RanCommand` of each `run` and `judge`; see `core.interfaces.Sandbox`."""

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

    async def inspect(self, program: bytes, *, timeout_s: float) -> CommandResult:
        """See `core.interfaces.Sandbox`."""
        return await self._carry_out(
            RanCommand(
                command=PYTHON,
                stdin=program,
                timeout_s=timeout_s,
                is_judge=True,
                is_inspection=True,
            )
        )

    @abstractmethod
    async def _carry_out(self, ran: RanCommand) -> CommandResult:
        """Run one command, or one checker."""
