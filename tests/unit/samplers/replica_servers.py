"""Replicas on real sockets, each in a thread of this process, which can be stopped at once."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware

from practicum.assemble.sampled_base import sampled_base
from practicum.core.config.config_sections import ModelConfig
from practicum.core.network_thread import NetworkThread
from practicum.gateway.http_guard import Guard
from practicum.gateway.server.agent_routes import guard_rules
from practicum.gateway.server.gateway_server import http_server
from practicum.gateway.server.gateway_settings import GatewaySettings
from practicum.gateway.serving.sampler_server import SampledBase, SamplerRoutes

KEY = "key-of-the-test"


class ServedApp:
    """An ASGI application at an address that stays the same when it is stopped and started."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._network = NetworkThread("served")
        self._listening: socket.socket | None = None
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            self._port = trial.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        """Serve, with nothing in memory of what was served before."""
        self._listening = socket.socket()
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind(("127.0.0.1", self._port))
        self._server = http_server(self._make())
        self._network.run(self._begin())

    async def _begin(self) -> None:
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._listening]))
        while not self._server.started:
            await asyncio.sleep(0.005)

    def kill(self) -> None:
        """Break off all connections and listen no more."""
        self._network.run(self._end())

    async def _end(self) -> None:
        for server in self._server.servers:
            server.close()
        self._server.force_exit = self._server.should_exit = True
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        await asyncio.gather(self._serving, return_exceptions=True)
        assert self._listening is not None
        self._listening.close()

    def close(self) -> None:
        if not self._serving.done():
            self.kill()
        self._network.stop()


@contextmanager
def served(*makes: Callable[[], Any]) -> Iterator[list[ServedApp]]:
    """Applications at addresses of their own, until the block ends."""
    apps = [ServedApp(make) for make in makes]
    try:
        yield apps
    finally:
        for app in apps:
            app.close()


def tiny_base() -> SampledBase:
    """The tiny model, as `practicum serve tiny --sampler` has it."""
    return sampled_base(ModelConfig(name="tiny", device="cpu"))


def replica_app(base: SampledBase, at_once: int = 64) -> Starlette:
    """What `practicum serve tiny --sampler` answers."""

    def authorize(scope: Any, headers: Any) -> tuple[int, str]:
        shown = headers.get("authorization", "")
        return (0, "") if shown == f"Bearer {KEY}" else (401, "the key is missing or wrong")

    routes = SamplerRoutes(base, at_once).routes()
    rules = guard_rules(GatewaySettings(), authorize, frozenset({"/health"}))
    return Starlette(routes=routes, middleware=[Middleware(Guard, rules=rules)])
