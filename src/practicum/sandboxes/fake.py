"""A sandbox that runs nothing: for tests of what uses one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from practicum.core.command import CommandResult, SandboxSpec

__all__ = ["FakeSandbox", "FakeSandboxes", "RanCommand"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RanCommand:
    """What a fake sandbox was asked to run."""

    command: tuple[str, ...]
    stdin: bytes
    timeout_s: float
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    is_judge: bool = False
    """Whether it was run as a checker."""


class FakeSandbox:
    r"""Answers each command from a function, keeps files in memory, remembers what it was asked.

    >>> import asyncio
    >>> from practicum.core.command import CommandStatus
    >>> answer = CommandResult(status=CommandStatus.OK, exit_code=0, stdout="hi\n")
    >>> box = FakeSandbox(lambda ran: answer)
    >>> asyncio.run(box.run(["echo", "hi"], timeout_s=1)).stdout
    'hi\n'
    >>> box.ran[0].command
    ('echo', 'hi')
    """

    def __init__(
        self,
        answer: Callable[[RanCommand], CommandResult],
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self._answer = answer
        self.files: dict[str, bytes] = dict(files or {})
        self.ran: list[RanCommand] = []
        self.is_closed = False

    @property
    def kind(self) -> str:
        """It isolates nothing, since it runs nothing."""
        return "fake"

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        """Remember the command and answer it."""
        return self._answered(
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
        """Remember the checker and answer it."""
        return self._answered(
            RanCommand(command=tuple(command), stdin=stdin, timeout_s=timeout_s, is_judge=True)
        )

    async def read(self, path: str, limit: int = 1_048_576) -> bytes:
        """A file written before; the errors are those of a real one."""
        self._require_open()
        if path not in self.files:
            raise FileNotFoundError(path)
        if len(self.files[path]) > limit:
            raise ValueError(f"{path} is longer than {limit} bytes")
        return self.files[path]

    async def write(self, path: str, content: bytes) -> None:
        """Keep a file."""
        self._require_open()
        self.files[path] = content

    async def close(self) -> None:
        """Nothing works afterwards."""
        self.is_closed = True

    def _answered(self, ran: RanCommand) -> CommandResult:
        self._require_open()
        self.ran.append(ran)
        return self._answer(ran)

    def _require_open(self) -> None:
        if self.is_closed:
            raise RuntimeError("the sandbox is closed")


class FakeSandboxes:
    """Opens fake sandboxes that all answer from one function, and keeps them to look at."""

    def __init__(self, answer: Callable[[RanCommand], CommandResult]) -> None:
        self._answer = answer
        self.opened: list[tuple[SandboxSpec, FakeSandbox]] = []

    @property
    def kind(self) -> str:
        """See `FakeSandbox.kind`."""
        return "fake"

    async def open(self, spec: SandboxSpec) -> FakeSandbox:
        """A new one."""
        box = FakeSandbox(self._answer)
        self.opened.append((spec, box))
        return box

    async def close(self) -> None:
        """Close all of them."""
        for _, box in self.opened:
            await box.close()
