"""Listening: sockets first, so that a port in use is one sentence, then the servers."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn
from fastapi import FastAPI

from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.env_server.app import EnvironmentServer
from practicum.env_server.settings import ServerSettings

__all__ = ["serve"]

GRACE_S = 5
"""What open connections are given to end when the server stops."""

PING_S = 30.0


class _Server(uvicorn.Server):
    """A server whose stopping is decided outside, since two of them share a process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `serve`."""
        yield


async def serve(
    environment: Environment,
    settings: ServerSettings,
    ready: Callable[[str, str], None],
    *,
    stop_with_stdin: bool = False,
) -> None:
    """Serve until a signal comes, or until standard input ends where that is asked for.

    Args:
        environment: What is served.
        settings: How.
        ready: Told the server's address, and the address of the chat items or an empty text.
        stop_with_stdin: A parent holds the other end of standard input; when it dies, however it
            dies, this process stops too.
    """
    main = _listen(settings.host, settings.port, "--port")
    sockets = [main]
    factory_address = ""
    if settings.lifelong and settings.factory_port:
        beside = _listen(settings.host, settings.factory_port, "--factory-port")
        sockets.append(beside)
        factory_address = f"{_address(settings.host, beside)}/api"
    served = EnvironmentServer(environment, settings)
    apps = [served.app(factory_address), *([served.factory_app()] if factory_address else [])]
    servers = [_server(app, settings) for app in apps]

    def stop() -> None:
        for server in servers:
            server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, stop)
    if stop_with_stdin:
        loop.add_reader(sys.stdin.fileno(), _at_end_of_input, stop)
    async with served.tending():
        running = [
            asyncio.create_task(server.serve(sockets=[where]))
            for server, where in zip(servers, sockets, strict=True)
        ]
        while not all(server.started for server in servers) and not any(r.done() for r in running):
            await asyncio.sleep(0.01)
        ready(_address(settings.host, main), factory_address)
        try:
            await asyncio.gather(*running)
        finally:
            stop()
            if stop_with_stdin:
                loop.remove_reader(sys.stdin.fileno())


def _at_end_of_input(stop: Callable[[], None]) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop()


def _server(app: FastAPI, settings: ServerSettings) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            log_level="error",
            access_log=False,  # addresses may hold the key
            lifespan="off",
            server_header=False,
            ws="websockets-sansio",
            ws_max_size=settings.max_body_bytes,
            ws_ping_interval=PING_S,
            # A trainer may be busy for long between two turns; it is dead when its episode is.
            ws_ping_timeout=max(settings.idle_s, PING_S),
            timeout_graceful_shutdown=GRACE_S,
        )
    )


def _listen(host: str, port: int, option: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
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


def _address(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"
