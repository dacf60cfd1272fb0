"""The kind `bubblewrap`, the default on Linux, for root and other users: client of the launcher."""

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
from practicum.sandboxes.bubblewrap.bwrap_command import MESSAGE_LIMIT
from practicum.sandboxes.commands import within
from practicum.sandboxes.served_sandbox import ServedSandbox, ServedSandboxes

LAUNCHER = "practicum.sandboxes.bubblewrap.launcher"
ANSWER_S = 120.0
LEAVE_S = 10.0


class BubblewrapSandboxes(ServedSandboxes):
    """Opens sandboxes through its own launcher process, which starts with the first of them."""

    def __init__(self, *, bwrap: str, python: str, root: str, first_ids: tuple[int, int]) -> None:
        super().__init__("bubblewrap")
        first_uid, first_gid = first_ids
        self._options = {
            "bwrap": bwrap,
            "python": python,
            "root": root,
            "first_uid": first_uid,
            "first_gid": first_gid,
        }
        self._turn = asyncio.Lock()
        self._launcher: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    async def open(self, spec: SandboxSpec) -> ServedSandbox:
        """See `core.interfaces.Sandboxes`."""
        opening = asyncio.ensure_future(self._opened(spec))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # Finish the exchange: else the next request would read this one's answer.
            with suppress(EnvironmentFailure):
                await (await opening).close()
            raise

    async def _opened(self, spec: SandboxSpec) -> ServedSandbox:
        answer, fds = await self._request({"do": "open", "spec": asdict(spec)})
        if "failed" in answer or len(fds) != 1:
            raise EnvironmentFailure(f"no sandbox: {answer.get('failed', 'no connection to it')}")

        async def leave() -> None:
            request = {"do": "close", "number": answer["number"]}
            await asyncio.shield(asyncio.ensure_future(self._request(request, restarts=False)))

        return await self._serve(
            socket.socket(fileno=fds[0]),
            home="/root" if spec.profile == "machine" else "/work",
            output_bytes=spec.output_bytes,
            oom_file=answer["oom_file"],
            leave=leave,
        )

    async def close(self) -> None:
        """See `core.interfaces.Sandboxes`."""
        for box in tuple(self._open):
            with suppress(EnvironmentFailure):
                await box.close()
        self._drop_launcher()

    def _drop_launcher(self) -> None:
        """Close the socket; the launcher then ends all sandboxes and exits."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._launcher is not None:
            try:
                self._launcher.wait(LEAVE_S)
            except subprocess.TimeoutExpired:
                self._launcher.kill()
                self._launcher.wait()
            self._launcher = None

    async def _request(
        self, request: dict[str, Any], *, restarts: bool = True
    ) -> tuple[dict[str, Any], list[int]]:
        """The launcher's answer, and the file descriptors it passes.

        With `restarts`, a dead launcher is replaced; its sandboxes died with it.
        """
        async with self._turn:
            if self._channel is None:
                if not restarts:
                    return {}, []
                self._start_launcher()
            assert self._channel is not None
            try:
                return await self._exchange(self._channel, request)
            except (OSError, EOFError, TimeoutError) as error:
                self._drop_launcher()
                if not restarts:
                    return {}, []
                raise EnvironmentFailure(f"the sandbox launcher is gone: {error}") from error

    async def _exchange(
        self, channel: socket.socket, request: dict[str, Any]
    ) -> tuple[dict[str, Any], list[int]]:
        await within(ANSWER_S, _sent_and_answered(channel, json.dumps(request).encode()))
        message, fds, _, _ = socket.recv_fds(channel, MESSAGE_LIMIT, 1)
        if not message:
            raise EOFError("it ended")
        return json.loads(message), fds

    def _start_launcher(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = [sys.executable, "-P", "-m", LAUNCHER]
        command = [*program, str(theirs.fileno()), json.dumps(self._options)]
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
        self._channel = ours


async def _sent_and_answered(channel: socket.socket, message: bytes) -> None:
    """Send a message and wait until there is an answer to read."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(channel, message)
    readable = asyncio.Event()
    loop.add_reader(channel, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(channel)


def _import_path() -> dict[str, str]:
    """PYTHONPATH, so that the launcher finds this package where it is not installed."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
