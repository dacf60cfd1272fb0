"""Runs programs that a policy wrote, each run in a sandbox of its own that nothing else ever sees.

A run gets inputs and gives values; what is expected of them stays here. Since no sandbox is used
twice, nothing that a program saw in one run can be told in another.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.core.command import CommandStatus, SandboxSpec
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Sandboxes
from practicum_envs.code import inside_program
from practicum_envs.code.countable import NotCountable, counted
from practicum_envs.code.inside_program import decoded

HARNESS = Path(inside_program.__file__).read_text(encoding="utf-8")
COMMAND = ("python3", "-I", "-S", "-c", f"{HARNESS}\n\nmain()\n")
OUTPUT_BYTES = 1 << 20
NO_VALUE = "it gave no value"
GONE = (CommandStatus.DIED, CommandStatus.DENIED, CommandStatus.BROKEN)
"""Nothing a program does: the sandbox is new, and its first command is the harness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What one call came to."""

    value: Any = None
    error: str = ""
    """Empty where there is a value."""
    operations: int | None = None
    """None where they cannot be counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of one run."""

    timeout_s: float = 20.0
    cpu_s: int = 6
    memory_mb: int = 192
    disk_mb: int = 16
    processes: int = 16


class ProgramRunner:
    """Runs programs in sandboxes."""

    def __init__(self, kind: str, limits: RunLimits) -> None:
        self._kind = kind
        self._limits = limits
        self._opener: Callable[[str], Sandboxes] | None = None
        self._sandboxes: Sandboxes | None = None

    def use_sandboxes(self, opener: Callable[[str], Sandboxes]) -> None:
        """Set the function that opens sandboxes of a kind; called when the first is needed."""
        self._opener = opener

    @property
    def sandboxes(self) -> Sandboxes:
        """Where programs run."""
        if self._sandboxes is None:
            if self._opener is None:
                raise RuntimeError("the code environment was given no sandboxes to work in")
            self._sandboxes = self._opener(self._kind)
        return self._sandboxes

    async def close(self) -> None:
        """Close them; a later run opens new ones."""
        if self._sandboxes is not None:
            opened, self._sandboxes = self._sandboxes, None
            await opened.close()

    async def run(
        self, source: str, calls: Sequence[dict[str, Any]], most: int
    ) -> list[CallResult]:
        """A result for each call; a program that ends or breaks its process has none for the rest.

        Args:
            source: The program.
            calls: See `inside_program.run_call`.
            most: The operations of each call, where they can be counted; 0 not to count them.
        """
        is_counted = most > 0
        try:
            source = counted(source) if is_counted else source
        except NotCountable:
            is_counted = False
        given = {
            "source": source,
            "calls": list(calls),
            "most": most if is_counted else 0,
            "cpu_s": self._limits.cpu_s,
        }
        said = await self.run_command(COMMAND, json.dumps(given).encode())
        found = list(map(_read, said.splitlines()[: len(calls)]))
        if not is_counted:
            found = [CallResult(value=one.value, error=one.error) for one in found]
        return found + [CallResult(error=NO_VALUE)] * (len(calls) - len(found))

    async def run_command(self, command: Sequence[str], stdin: bytes) -> str:
        """What a command prints in a new sandbox; nothing where it printed too much."""
        limits = self._limits
        spec = SandboxSpec(
            profile="code",
            memory_mb=limits.memory_mb,
            disk_mb=limits.disk_mb,
            processes=limits.processes,
            output_bytes=OUTPUT_BYTES,
        )
        box = await self.sandboxes.open(spec)
        try:
            result = await box.run(command, timeout_s=limits.timeout_s, stdin=stdin)
        finally:
            await box.close()
        if result.status in GONE:
            raise EnvironmentFailure(f"a program could not be run ({result.status.value})")
        return "" if result.status is CommandStatus.TRUNCATED else result.stdout


def _read(line: str) -> CallResult:
    """The result in a line; one without a value where it holds none."""
    try:
        given = json.loads(line)
        operations = given.get("operations")
        if type(operations) is not int or operations < 0:
            return CallResult(error=NO_VALUE)
        if "value" in given:
            return CallResult(value=decoded(given["value"]), operations=operations)
        return CallResult(error=str(given["error"])[:160] or NO_VALUE, operations=operations)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return CallResult(error=NO_VALUE)
