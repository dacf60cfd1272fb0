"""Sandboxes by bubblewrap: the default on Linux, for root and for anyone else."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from practicum.core.command import SandboxSpec
from practicum.core.errors import EnvironmentFailure
from practicum.sandboxes.bubblewrap.starting import MESSAGE_LIMIT
from practicum.sandboxes.patience import within
from practicum.sandboxes.served import ServedSandbox

__all__ = ["BubblewrapSandboxes"]

LAUNCHER = "practicum.sandboxes.bubblewrap.launcher"
ANSWER_S = 30.0
LEAVE_S = 10.0


class BubblewrapSandboxes:
    """Talks to a launcher of its own, which is started with the first sandbox."""

    def __init__(self, *, bwrap: str, python: str, root: str, first_ids: tuple[int, int]) -> None:
        first_uid, first_gid = first_ids
        self._told = {
            "bwrap": bwrap,
            "python": python,
            "root": root,
            "first_uid": first_uid,
            "first_gid": first_gid,
        }
        self._turn = asyncio.Lock()
        self._launcher: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._open: set[ServedSandbox] = set()

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandboxes`."""
        return "bubblewrap"

    async def open(self, spec: SandboxSpec) -> ServedSandbox:
        """See `core.interfaces.Sandboxes`."""
        opening = asyncio.ensure_future(self._opened(spec))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # Half an exchange would leave the launcher's answer to the next one who asks.
            with suppress(EnvironmentFailure):
                await (await opening).close()
            raise

    async def _opened(self, spec: SandboxSpec) -> ServedSandbox:
        answer, fds = await self._asked({"do": "open", "spec": asdict(spec)})
        if "failed" in answer or len(fds) != 1:
            raise EnvironmentFailure(f"no sandbox: {answer.get('failed', 'no connection to it')}")
        connection = socket.socket(fileno=fds[0])
        connection.setblocking(False)

        async def forget() -> None:
            self._open.discard(box)
            request = {"do": "close", "number": answer["number"]}
            await asyncio.shield(asyncio.ensure_future(self._asked(request, restarts=False)))

        box = ServedSandbox(
            connection,
            kind=self.kind,
            home="/root" if spec.profile == "machine" else "/work",
            output_bytes=spec.output_bytes,
            oom_file=answer["oom_file"],
            on_close=forget,
        )
        self._open.add(box)
        try:
            await box.wait_until_ready()
        except BaseException:
            await box.close()
            raise
        return box

    async def close(self) -> None:
        """See `core.interfaces.Sandboxes`."""
        for box in tuple(self._open):
            with suppress(EnvironmentFailure):
                await box.close()
        self._drop_launcher()

    def _drop_launcher(self) -> None:
        """Hang up; the launcher then ends what is open and leaves."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._launcher is not None:
            try:
                self._launcher.wait(LEAVE_S)
            except subprocess.TimeoutExpired:
                self._launcher.kill()
                self._launcher.wait()
            self._launcher = None

    async def _asked(
        self, request: dict[str, Any], *, restarts: bool = True
    ) -> tuple[dict[str, Any], list[int]]:
        """The launcher's answer, and the files it hands over.

        A launcher that is gone is replaced for a new sandbox; its old sandboxes went with it.
        """
        async with self._turn:
            if self._line is None:
                if not restarts:
                    return {}, []
                self._start_launcher()
            assert self._line is not None
            try:
                return await self._exchanged(self._line, request)
            except (OSError, EOFError, TimeoutError) as error:
                self._drop_launcher()
                if not restarts:
                    return {}, []
                raise EnvironmentFailure(f"the sandbox launcher is gone: {error}") from error

    async def _exchanged(
        self, line: socket.socket, request: dict[str, Any]
    ) -> tuple[dict[str, Any], list[int]]:
        await within(ANSWER_S, _sent_and_answered(line, json.dumps(request).encode()))
        message, fds, _, _ = socket.recv_fds(line, MESSAGE_LIMIT, 1)
        if not message:
            raise EOFError("it ended")
        return json.loads(message), fds

    def _start_launcher(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", LAUNCHER, str(theirs.fileno()), json.dumps(self._told)]
        with theirs:
            self._launcher = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")} | _import_path(),
                start_new_session=True,
            )
        ours.setblocking(False)
        self._line = ours


async def _sent_and_answered(line: socket.socket, message: bytes) -> None:
    """Send a message and wait until there is an answer to read."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(line, message)
    readable = asyncio.Event()
    loop.add_reader(line, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(line)


def _import_path() -> dict[str, str]:
    """Where the launcher finds this package when it is not installed but on the path."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
