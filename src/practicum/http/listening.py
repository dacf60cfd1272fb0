"""Listening: sockets first, so that a port in use is one sentence, then the servers."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import uvicorn

from practicum.core.errors import UserError

__all__ = [
    "QuietServer",
    "address_of",
    "listen",
    "listen_unix",
    "running_servers",
]


class QuietServer(uvicorn.Server):
    """A server whose stopping is decided outside, since several of them share a process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to whoever runs it."""
        yield


def listen(host: str, port: int, option: str) -> socket.socket:
    """A bound socket; `option` is what the user types to choose another port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once only on sockets that say they are TCP; others wait 40 ms for company.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise UserError(
            f"{host} port {port} cannot be listened on ({error}); choose another with {option}, "
            "or 0 for any free one"
        ) from None
    return listening


def listen_unix(path: Path) -> socket.socket:
    """A bound unix socket that only its owner can open, in a folder only its owner can enter."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.stat().st_mode & 0o077:
            raise PermissionError(f"other users can enter {path.parent}; chmod 700 it")
        with suppress(FileNotFoundError):
            path.unlink()
        before = os.umask(0o177)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        path.chmod(0o600)
    except OSError as error:
        listening.close()
        raise UserError(
            f"the control socket {path} cannot be made ({error}); choose a shorter or another path"
        ) from None
    return listening


def address_of(host: str, listening: socket.socket) -> str:
    """The address a client types."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


@asynccontextmanager
async def running_servers(
    pairs: Sequence[tuple[QuietServer, socket.socket]],
) -> AsyncIterator[list["asyncio.Task[None]"]]:
    """Servers under way in this event loop, each on its socket; stopped when the block ends."""
    running = [asyncio.create_task(server.serve(sockets=[where])) for server, where in pairs]
    servers = [server for server, _ in pairs]
    try:
        while not all(server.started for server in servers) and not any(r.done() for r in running):
            await asyncio.sleep(0.01)
        yield running
    finally:
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*running, return_exceptions=True)
