"""Calls of a container engine's command line client, with what they print kept within bounds."""

import asyncio
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from practicum.core.errors import UserError
from practicum.sandboxes.inside.kept import Kept
from practicum.sandboxes.patience import within

__all__ = ["ContainerClient", "Said"]

DRAIN_S = 0.2
"""How long output is still taken after the client's end, from what holds its pipes open."""
SHORT = 65_536
PIECE = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one call of the client came to."""

    exit_code: int | None
    """None when it ran past its limit and was ended; minus its signal when one ended it."""
    stdout: bytes
    stderr: bytes
    output_bytes: int
    is_cut: bool
    duration_s: float

    @property
    def trouble(self) -> str:
        """Its last words, for a message."""
        return (self.stderr or self.stdout).decode(errors="replace").strip()[-300:]


class ContainerClient:
    """`docker` or `podman`; `options` come before the name of every command."""

    def __init__(self, program: str, options: Sequence[str] = ()) -> None:
        self._words = (program, *options)

    async def call(
        self, *words: str, timeout_s: float, stdin: bytes = b"", keep: int = SHORT
    ) -> Said:
        """Run one command to its end or its limit."""
        began = time.monotonic()
        process = await self.start(*words, stdin=PIPE if stdin else DEVNULL)
        out, err = Kept(keep), Kept(keep)
        assert process.stdout is not None
        assert process.stderr is not None
        tasks = [
            asyncio.create_task(_take(process.stdout, out)),
            asyncio.create_task(_take(process.stderr, err)),
            asyncio.create_task(_give(process, stdin)),
        ]
        code: int | None = None
        try:
            with suppress(TimeoutError):
                code = await within(timeout_s, process.wait())
            await asyncio.wait(tasks, timeout=DRAIN_S)
        finally:
            await _end(process)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # The pipes too: whoever still holds them would keep the transport open.
            process._transport.close()  # type: ignore[attr-defined]
        return Said(
            exit_code=code,
            stdout=out.content(),
            stderr=err.content(),
            output_bytes=out.total + err.total,
            is_cut=out.is_cut or err.is_cut,
            duration_s=time.monotonic() - began,
        )

    async def start(self, *words: str, stdin: int = PIPE) -> Process:
        """Start one command and leave it running."""
        try:
            return await asyncio.create_subprocess_exec(
                *self._words, *words, stdin=stdin, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except FileNotFoundError as error:
            raise UserError(
                f"sandboxes of kind {self._words[0]!r} need the program {self._words[0]}, which is "
                "not on the path; other kinds are 'bubblewrap' and 'landlock'; "
                "type `practicum doctor --sandbox` to see which work here"
            ) from error


async def _take(stream: asyncio.StreamReader, kept: Kept) -> None:
    while piece := await stream.read(PIECE):
        kept.add(piece)


async def _give(process: Process, content: bytes) -> None:
    if process.stdin is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(content)
        await process.stdin.drain()
    process.stdin.close()


async def _end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
