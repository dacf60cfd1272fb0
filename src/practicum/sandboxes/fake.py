"""A sandbox that runs nothing: for tests of what uses one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from practicum.core.interfaces import CommandResult

__all__ = ["FakeSandbox", "RanCommand"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RanCommand:
    """What a fake sandbox was asked to run."""

    command: tuple[str, ...]
    stdin: str
    timeout_s: float
    environment: Mapping[str, str] = field(default_factory=dict)


class FakeSandbox:
    r"""Answers each command from a function, keeps files in memory, remembers what it was asked.

    >>> import asyncio
    >>> box = FakeSandbox(lambda ran: CommandResult(status="ok", exit_code=0, stdout="hi\n"))
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

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        stdin: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Remember the command and answer it."""
        self._require_open()
        ran = RanCommand(
            command=tuple(command),
            stdin=stdin,
            timeout_s=timeout_s,
            environment=dict(environment or {}),
        )
        self.ran.append(ran)
        return self._answer(ran)

    async def read(self, path: str) -> bytes:
        """A file written before; `FileNotFoundError` otherwise, as from a real one."""
        self._require_open()
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    async def write(self, path: str, content: bytes) -> None:
        """Keep a file."""
        self._require_open()
        self.files[path] = content

    async def close(self) -> None:
        """Nothing works afterwards."""
        self.is_closed = True

    def _require_open(self) -> None:
        if self.is_closed:
            raise RuntimeError("the sandbox is closed")
