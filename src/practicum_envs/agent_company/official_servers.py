"""The benchmark's own servers in place of the office: a machine's ports lead to their host."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.interfaces import Sandbox
from practicum_envs.office.office_environment import listeners_of
from practicum_envs.office.services.all_services import PORTS
from practicum_envs.shell.machines import Machines

CONNECT_S = 10.0
CHUNK = 65_536


class OfficialServers:
    """The servers of one host. They have one state: one episode at a time has them."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._turn = asyncio.Lock()
        self._was_there = False

    @asynccontextmanager
    async def open(self, machines: Machines) -> AsyncIterator[Sandbox]:
        """A machine in which the servers are at their ports."""
        async with (
            self.held(),
            machines.open() as box,
            relayed(await listeners_of(box), self._host),
        ):
            yield box

    @asynccontextmanager
    async def held(self) -> AsyncIterator[str]:
        """The address of the servers, which nobody else has meanwhile."""
        async with self._turn:
            yield await self.require_answers()

    async def require_answers(self) -> str:
        """Their address; absence is the user's mistake at first, later the environment's failure.

        Graders take a server that is gone for a task that was not done, so ask before they run.
        """
        kind = EnvironmentFailure if self._was_there else UserError
        address = ""
        for port in PORTS:
            try:
                _, writer = await connected(self._host, port)
            except (OSError, TimeoutError) as error:
                raise kind(
                    f"env.server_hostname: nothing answers at {self._host}:{port}; start the "
                    "benchmark's servers there as its docs say, or leave the option out to play "
                    "in the office"
                ) from error
            address = str(writer.get_extra_info("peername")[0])
            writer.close()
        self._was_there = True
        return address


async def connected(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection, in time."""
    return await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_S)


@asynccontextmanager
async def relayed(listeners: Sequence[socket.socket], host: str) -> AsyncIterator[None]:
    """Pass what comes to listening sockets on to the same ports of a host."""
    open_now: set[asyncio.Task[Any] | None] = set()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.add(asyncio.current_task())
        port = writer.get_extra_info("sockname")[1]
        try:
            with suppress(OSError, TimeoutError):  # either side may go; the other sees the end
                await _join(reader, writer, host, port)
        finally:
            writer.close()
            open_now.discard(asyncio.current_task())

    servers = [await asyncio.start_server(relay, sock=one) for one in listeners]
    try:
        yield
    finally:
        for server in servers:
            server.close()
        for task in [one for one in open_now if one is not None]:
            task.cancel()


async def _join(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
) -> None:
    """Pass bytes both ways until both sides have ended."""
    there, back = await connected(host, port)
    try:
        await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
    finally:
        back.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
