"""`EnvironmentServer`, the HTTP applications of one environment, and `serve`, which runs them."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import uvicorn
from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as RouteError
from starlette.types import Scope

from practicum import __version__
from practicum.core.capabilities import Closable
from practicum.core.interfaces import Environment
from practicum.core.trace import Message
from practicum.environments.serving.env_records import Refusal
from practicum.environments.serving.lifelong_chat import FACTORY_PATHS, ChatItems, factory_router
from practicum.environments.serving.lifelong_routes import PATHS as LIFELONG_PATHS
from practicum.environments.serving.lifelong_routes import LifelongRoutes
from practicum.environments.serving.openenv import OpenEnvRoutes, TaskPages
from practicum.environments.serving.served_episodes import ServedEpisodes, ServerSettings
from practicum.gateway.http_guard import Guard, GuardRules, Verdict, has_key
from practicum.gateway.http_listening import QuietServer, TimedProtocol, address_of, listen


def guard_rules(settings: ServerSettings, open_paths: frozenset[str]) -> GuardRules:
    """The access rules of an environment's server: which hosts, paths and keys are allowed."""

    def authorize(scope: Scope, headers: Mapping[str, str]) -> Verdict:
        if has_key(headers.get("authorization", ""), settings.key):
            return 0, ""
        return 401, (
            "the key is missing or wrong; send it as `Authorization: Bearer KEY`, or in the "
            "address, as in http://key:KEY@127.0.0.1:8000"
        )

    return GuardRules(
        host=settings.host,
        names=settings.names,
        open_paths=open_paths,
        authorize=authorize,
        max_body_bytes=settings.max_body_bytes,
        body_timeout_s=settings.step_timeout_s,
    )


OPEN_PATHS = frozenset({"/health"})


class EnvironmentServer:
    """The applications of one environment: `app` on the main port, `factory_app` on the other."""

    def __init__(self, environment: Environment, settings: ServerSettings) -> None:
        self.settings = settings
        self.episodes = ServedEpisodes(environment, settings)
        self._pages = TaskPages(environment)
        self._items = ChatItems()
        self._opening: list[Message] | None = None

    def app(self, factory_address: str = "") -> FastAPI:
        """The main application."""
        routers = [OpenEnvRoutes(self.episodes, self._pages, __version__).router()]
        paths = OPEN_PATHS
        if self.settings.lifelong:
            routers.append(LifelongRoutes(self.episodes, self._items, factory_address).router())
            paths |= LIFELONG_PATHS
        return self._guarded(routers, paths)

    def factory_app(self) -> FastAPI:
        """The application that holds LifelongAgentBench's chat history items."""
        return self._guarded([factory_router(self._items, self._sample_opening)], FACTORY_PATHS)

    def _guarded(self, routers: list[APIRouter], paths: frozenset[str]) -> FastAPI:
        app = FastAPI(
            title="Practicum environment", docs_url=None, redoc_url=None, openapi_url=None
        )
        for router in routers:
            app.include_router(router)
        app.add_exception_handler(Refusal, _on_refusal)
        app.add_exception_handler(RequestValidationError, _on_bad_query)
        app.add_exception_handler(RouteError, _on_no_route)
        app.add_exception_handler(Exception, _on_failure)
        app.add_middleware(Guard, rules=guard_rules(self.settings, paths))
        return app

    async def _sample_opening(self) -> list[Message]:
        """The prompt of one episode: its messages before the last are the same in all episodes."""
        if self._opening is None:
            task = await self._pages.find_off_loop(lambda: self._pages.choose({"seed": 0}))
            episode = await self.episodes.open(task)
            try:
                self._opening = list(episode.session.prompt())
            finally:
                await self.episodes.close(episode)
        return self._opening

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Close idle episodes while the block runs; at its end, all of them and the environment."""
        cleanup = asyncio.create_task(self._close_idle_episodes())
        try:
            yield
        finally:
            cleanup.cancel()
            with suppress(asyncio.CancelledError):
                await cleanup
            await self.episodes.close_all()
            if isinstance(self.episodes.environment, Closable):
                await self.episodes.environment.close()

    async def _close_idle_episodes(self) -> None:
        while True:
            await asyncio.sleep(min(self.settings.idle_s / 4, 30.0))
            await self.episodes.close_idle()


async def _on_refusal(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
    return JSONResponse({"error": error.sentence, "code": error.code}, error.status)


async def _on_bad_query(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"error": f"{where}: {first['msg'].lower()}"}, 422)


async def _on_no_route(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RouteError | HTTPException)
    sentence = f"{request.method} {request.url.path}: {str(error.detail).lower()}"
    return JSONResponse({"error": sentence}, error.status_code)


async def _on_failure(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": f"the server failed: {type(error).__name__}: {error}"}, 500)


GRACE_S = 5
"""Seconds for open connections to end when the server stops."""

PING_S = 30.0


async def serve(
    environment: Environment,
    settings: ServerSettings,
    ready: Callable[[str, str], None],
    *,
    stop_with_stdin: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM, or until the end of standard input if that is asked for.

    Args:
        environment: The environment to serve.
        settings: Address, key and limits.
        ready: Called once it listens, with its address and that of the chat items, which may be "".
        stop_with_stdin: Stop at the end of standard input, whose other end a parent process holds:
            so this process does not outlive a parent that is killed.
    """
    main = listen(settings.host, settings.port, "--port")
    sockets = [main]
    factory_address = ""
    if settings.lifelong and settings.factory_port:
        factory = listen(settings.host, settings.factory_port, "--factory-port")
        sockets.append(factory)
        factory_address = f"{address_of(settings.host, factory)}/api"
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
    async with served.running():
        tasks = [
            asyncio.create_task(server.serve(sockets=[socket]))
            for server, socket in zip(servers, sockets, strict=True)
        ]
        while not all(server.started for server in servers) and not any(t.done() for t in tasks):
            await asyncio.sleep(0.01)
        ready(address_of(settings.host, main), factory_address)
        try:
            await asyncio.gather(*tasks)
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
            http=TimedProtocol,
            log_level="error",
            access_log=False,  # a url may hold the key
            lifespan="off",
            server_header=False,
            ws="websockets-sansio",
            ws_max_size=settings.max_body_bytes,
            ws_ping_interval=PING_S,
            # A trainer may not answer pings while it learns; an idle episode is closed anyway.
            ws_ping_timeout=max(settings.idle_s, PING_S),
            timeout_graceful_shutdown=GRACE_S,
        )
    )
