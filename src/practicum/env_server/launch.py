"""Serving an environment until someone says stop."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from practicum.core.interfaces import Environment
from practicum.env_server.app import EnvironmentServer
from practicum.env_server.settings import ServerSettings
from practicum.http.listening import QuietServer, address_of, listen

__all__ = ["serve"]

GRACE_S = 5
"""What open connections are given to end when the server stops."""

PING_S = 30.0


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
    main = listen(settings.host, settings.port, "--port")
    sockets = [main]
    factory_address = ""
    if settings.lifelong and settings.factory_port:
        beside = listen(settings.host, settings.factory_port, "--factory-port")
        sockets.append(beside)
        factory_address = f"{address_of(settings.host, beside)}/api"
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
        ready(address_of(settings.host, main), factory_address)
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


def _server(app: FastAPI, settings: ServerSettings) -> QuietServer:
    return QuietServer(
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
