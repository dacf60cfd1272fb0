"""A sandbox that runs nothing, for tests."""

from collections.abc import Callable, Mapping

from practicum.core.command import CommandResult, SandboxSpec
from practicum.sandboxes.commands import CommandSandbox, RanCommand


class FakeSandbox(CommandSandbox):
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
        self._kind = "fake"
        self._answer = answer
        self.files: dict[str, bytes] = dict(files or {})
        self.ran: list[RanCommand] = []
        self.is_closed = False

    async def _carry_out(self, ran: RanCommand) -> CommandResult:
        self._require_open()
        self.ran.append(ran)
        return self._answer(ran)

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
