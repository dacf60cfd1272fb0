"""What environments with a machine for each episode share: their options, and the machines."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from practicum.core.capabilities import SessionKind
from practicum.core.command import SandboxSpec
from practicum.core.interfaces import Sandbox, Sandboxes
from practicum.environments.selection import LevelOptions
from practicum_envs.shell.protocol import turn_from_line

SANDBOX = re.compile(r"auto|bubblewrap|landlock|process|(docker|podman)(:\S+)?")


class MachineOptions(LevelOptions):
    """Options of an environment whose episodes each have a machine."""

    protocol: Literal["text", "tools"] = "text"
    """`text`: `Act: bash` and a fenced block; `tools`: calls of the tools bash, finish, answer."""
    example: bool = False
    """Whether a small task and its solution are shown first: small models need to see the form."""
    rounds: int = Field(default=5, ge=1)
    """Turns of an episode."""
    command_timeout_s: float = Field(default=20.0, gt=0.0)
    """Seconds a command, the set-up or the checker may take."""
    output_chars: int = Field(default=2000, ge=100)
    """Characters of a command's output that are shown."""
    sandbox: str = "auto"
    """What isolates the commands: auto, bubblewrap, landlock, docker:IMAGE, podman:IMAGE or
    process; `auto` takes the strongest that works here."""
    memory_mb: int = Field(default=512, ge=32)
    """Memory of each machine, its files included."""
    disk_mb: int = Field(default=256, ge=8)
    """Files of each machine."""
    processes: int = Field(default=128, ge=8)
    """Processes of each machine."""
    machines: int = Field(default=128, ge=1)
    """Machines that are open together; an episode beyond that waits for one to close."""

    @field_validator("sandbox")
    @classmethod
    def _known_sandbox(cls, value: str) -> str:
        if not SANDBOX.fullmatch(value):
            raise PydanticCustomError(
                "sandbox",
                "kinds are auto, bubblewrap, landlock, docker:IMAGE, podman:IMAGE and process; "
                "write auto to take the strongest that works here",
            )
        return value


class MachineEnvironment:
    """Base of environments whose episodes each have a machine.

    Call `use_sandboxes` before the first session: it says where sandboxes come from.
    """

    def __init__(self, options: MachineOptions, env: str) -> None:
        self._protocol = options.protocol
        self._machines = Machines(options, env)

    @property
    def session_kind(self) -> SessionKind:
        """Whether sessions take text turns or tool calls."""
        return "tools" if self._protocol == "tools" else "discrete"

    def use_sandboxes(self, opener: Callable[[str], Sandboxes]) -> None:
        """Set the function that opens sandboxes of a kind; called when the first is needed."""
        self._machines.use_sandboxes(opener)

    @property
    def sandbox_kind(self) -> str:
        """What isolates the commands."""
        return self._machines.kind

    async def close(self) -> None:
        """Close every machine; a later session opens new ones."""
        await self._machines.close()

    def turn_from_line(self, line: str) -> str:
        """What a person types, as a turn: a command, `finish`, or `answer TEXT`."""
        return turn_from_line(line, self._protocol)


FRESH_MACHINES = 4
"""Machines beside those of episodes, in which a checker that failed is tried out."""


class Machines:
    """Opens a machine for each episode, no more than may be open together."""

    def __init__(self, options: MachineOptions, env: str) -> None:
        self._options = options
        self._env = env
        self._opener: Callable[[str], Sandboxes] | None = None
        self._sandboxes: Sandboxes | None = None
        self.shown: tuple[tuple[str, str], ...] = ()
        """Folders of the host that machines see: see `SandboxSpec.shown`."""
        self._make_slots()

    def _make_slots(self) -> None:
        self._slots = asyncio.Semaphore(self._options.machines)
        # Apart: while an episode waits for one of these, it holds one of the others.
        self._fresh_slots = asyncio.Semaphore(FRESH_MACHINES)

    def use_sandboxes(self, opener: Callable[[str], Sandboxes]) -> None:
        """Set the function that opens sandboxes of a kind; called when the first is needed."""
        self._opener = opener

    @property
    def kind(self) -> str:
        """What isolates the commands."""
        return self.sandboxes().kind

    @asynccontextmanager
    async def open(self, *, beside_another: bool = False, **others: Any) -> AsyncIterator[Sandbox]:
        """A new machine, closed afterwards; `beside_another` of an episode that has one.

        `others` are fields of its `SandboxSpec` that are not as the options say.
        """
        options = self._options
        spec = SandboxSpec(
            profile="machine",
            memory_mb=options.memory_mb,
            disk_mb=options.disk_mb,
            processes=options.processes,
            shown=self.shown,
        )
        async with self._fresh_slots if beside_another else self._slots:
            box = await self.sandboxes().open(replace(spec, **others))
            try:
                yield box
            finally:
                await box.close()

    async def close(self) -> None:
        """Close every machine; a later episode opens new ones."""
        if self._sandboxes is not None:
            opened, self._sandboxes = self._sandboxes, None
            self._make_slots()
            await opened.close()

    def sandboxes(self) -> Sandboxes:
        """Where machines come from."""
        if self._sandboxes is None:
            if self._opener is None:
                raise RuntimeError(f"the {self._env} environment was given no sandboxes to work in")
            self._sandboxes = self._opener(self._options.sandbox)
        return self._sandboxes
