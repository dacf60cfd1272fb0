"""`Gateway`: the HTTP server for open rollouts, which runs in the caller's event loop."""

import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import uvicorn

from practicum.core.conversation import Endpoint
from practicum.core.errors import UserError
from practicum.gateway.http_listening import (
    OwnUserProtocol,
    QuietServer,
    TimedProtocol,
    address_of,
    listen,
    listen_unix,
    running_servers,
)
from practicum.gateway.rollouts import OpenRollouts, Rollout, RolloutController
from practicum.gateway.server.agent_routes import agent_app
from practicum.gateway.server.control import control_app
from practicum.gateway.server.gateway_settings import GatewaySettings, Grammars

GRACE_S = 2
"""Seconds that open connections have to end when the server stops."""

IDLE_S = 75
"""Seconds of keep-alive between two requests: longer than clients have, so that the client closes
first and never sends a request into a connection that the server is closing."""

MOST_CONNECTIONS = 2048

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep the interpreter lock while another wants it. The model computes in a
thread beside the event loop, and with Python's 5 ms each step of a request would wait for it."""


class Gateway:
    """Serves open rollouts over HTTP.

    Args:
        rollouts: The rollouts to serve.
        settings: Address, limits and timeouts.
        models: The model's names; answers have the first.
        grammars: Compiles JSON schemas; None refuses requests that need one.
        controller: Opens and closes rollouts for clients of the control socket; None for none.

    Example:
        ```
        async with gateway.serving() as address:
            rollout = rollouts.open(conversation, limits)
            await run_agent(gateway.endpoint(rollout))
            rollouts.close(rollout.id)
        ```
    """

    def __init__(
        self,
        rollouts: OpenRollouts,
        settings: GatewaySettings | None = None,
        models: tuple[str, ...] = ("practicum",),
        *,
        grammars: Grammars | None = None,
        controller: RolloutController | None = None,
    ) -> None:
        self.rollouts = rollouts
        self.settings = settings or GatewaySettings()
        self._app = agent_app(rollouts, self.settings, models, grammars)
        self._controller = controller
        self._address = ""

    @property
    def app(self) -> Any:
        """The ASGI application for agents."""
        return self._app

    def endpoint(self, rollout: Rollout) -> Endpoint:
        """URL and key of a rollout."""
        if not self._address:
            raise UserError("the gateway is not serving; ask for endpoints inside `serving()`")
        return Endpoint(url=f"{self._address}/rollouts/{rollout.id}", key=rollout.key)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serves in this event loop while the block runs; yields the URL."""
        agents = listen(self.settings.host, self.settings.port, "--port")
        pairs = [(http_server(self._app), agents)]
        control = self.settings.control_socket
        try:
            if control is not None and self._controller is not None:
                app = control_app(self._controller, self.endpoint, self.settings)
                pairs.append((http_server(app, OwnUserProtocol), listen_unix(control)))
            with low_latency:
                async with running_servers(pairs):
                    self._address = address_of(reachable(self.settings.host), agents)
                    yield self._address
        finally:
            self._address = ""
            for _, listening in pairs:
                listening.close()
            if control is not None:
                with suppress(OSError):
                    control.unlink()


class LowLatency:
    """Short waits for the interpreter while any gateway serves; a reentrant context manager.

    It shortens the switch interval, and freezes the objects that exist already: without that, each
    full garbage collection scans all modules of the model's libraries and stops every thread.
    """

    def __init__(self) -> None:
        self._entered = 0
        self._before = 0.0

    def __enter__(self) -> None:
        if not self._entered:
            self._before = sys.getswitchinterval()
            sys.setswitchinterval(min(self._before, SWITCH_INTERVAL_S))
            gc.freeze()
        self._entered += 1

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if not self._entered:
            sys.setswitchinterval(self._before)
            gc.unfreeze()


low_latency = LowLatency()


def reachable(host: str) -> str:
    """An address for clients on this machine, if the server listens on all."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def http_server(
    app: Any, protocol: type[TimedProtocol] = TimedProtocol, grace_s: int = GRACE_S
) -> QuietServer:
    """A server for an ASGI application, which gives requests so many seconds to end."""
    return QuietServer(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            log_level="critical",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            lifespan="off",
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=grace_s,
        )
    )
