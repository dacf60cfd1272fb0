"""The gateway under way: it listens in the event loop of whoever samples."""

import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import uvicorn

from practicum.core.conversing import Endpoint
from practicum.core.errors import UserError
from practicum.gateway.desk import RolloutDesk
from practicum.gateway.rollouts import OpenRollouts, Rollout
from practicum.gateway.server.app import agent_app
from practicum.gateway.server.control import control_app
from practicum.gateway.server.settings import GatewaySettings, Grammars
from practicum.http.listening import (
    QuietServer,
    address_of,
    listen,
    listen_unix,
    running_servers,
)
from practicum.http.protocols import OwnUserProtocol, TimedProtocol

__all__ = ["Gateway"]

GRACE_S = 2
"""What open connections are given to end when the server stops."""

IDLE_S = 75
"""How long a connection may stay open between two requests: longer than clients keep theirs, so
that none sends a request into one that is being closed."""

MOST_CONNECTIONS = 2048

SWITCH_S = 0.0005
"""How long one thread may keep the interpreter while another wants it. The model computes beside
the event loop, and with Python's own 5 ms requests would wait for it at every turn."""


class Gateway:
    """Serves open rollouts over HTTP.

    Args:
        rollouts: What can be reached.
        settings: How.
        models: Names the model answers to; the first is the one answers give.
        grammars: Compiles JSON schemas; None refuses requests that need one.
        desk: Opens and closes rollouts for programs that reach the control socket.

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
        desk: RolloutDesk | None = None,
    ) -> None:
        self.rollouts = rollouts
        self.settings = settings or GatewaySettings()
        self._app = agent_app(rollouts, self.settings, models, grammars)
        self._desk = desk
        self._address = ""

    @property
    def app(self) -> Any:
        """The application that agents reach."""
        return self._app

    def endpoint(self, rollout: Rollout) -> Endpoint:
        """Where a program reaches the model for one rollout."""
        if not self._address:
            raise UserError("the gateway is not serving; ask for endpoints inside `serving()`")
        return Endpoint(url=f"{self._address}/rollouts/{rollout.id}", key=rollout.key)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Listen in this event loop as long as the block runs; gives the address."""
        agents = listen(self.settings.host, self.settings.port, "--port")
        pairs = [(_server(self._app, TimedProtocol), agents)]
        control = self.settings.control_socket
        try:
            if control is not None and self._desk is not None:
                app = control_app(self._desk, self.endpoint, self.settings)
                pairs.append((_server(app, OwnUserProtocol), listen_unix(control)))
            with _quick_interpreter:
                async with running_servers(pairs):
                    self._address = address_of(_reachable(self.settings.host), agents)
                    yield self._address
        finally:
            self._address = ""
            for _, listening in pairs:
                listening.close()
            if control is not None:
                with suppress(OSError):
                    control.unlink()


class QuickInterpreter:
    """Nobody waits long for Python while it is entered; the last of several to leave it ends that.

    Threads change often, and what is there already is not looked through for garbage: all the
    modules of a model's libraries are, and everything would stop for as long as that takes.
    """

    def __init__(self) -> None:
        self._entered = 0
        self._before = 0.0

    def __enter__(self) -> None:
        if not self._entered:
            self._before = sys.getswitchinterval()
            sys.setswitchinterval(min(self._before, SWITCH_S))
            gc.freeze()
        self._entered += 1

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if not self._entered:
            sys.setswitchinterval(self._before)
            gc.unfreeze()


_quick_interpreter = QuickInterpreter()


def _reachable(host: str) -> str:
    """An address that clients on this machine can use."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _server(app: Any, protocol: type[TimedProtocol]) -> QuietServer:
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
            timeout_graceful_shutdown=GRACE_S,
        )
    )
