"""The web applications: every route of one server, behind its guard."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as RouteError

from practicum import __version__
from practicum.core.interfaces import Environment
from practicum.core.trace import Message
from practicum.env_server.chat_items import FACTORY_PATHS, ChatItems, factory_router
from practicum.env_server.episodes import Episodes
from practicum.env_server.guard import guard_rules
from practicum.env_server.lifelong import PATHS as LIFELONG_PATHS
from practicum.env_server.lifelong import LifelongRoutes
from practicum.env_server.openenv import OpenEnvRoutes
from practicum.env_server.refusals import Refusal
from practicum.env_server.settings import ServerSettings
from practicum.env_server.task_pages import TaskPages
from practicum.http.guard import Guard

__all__ = ["EnvironmentServer"]

OPEN_PATHS = frozenset({"/health"})


class EnvironmentServer:
    """One environment's applications: `app` on the main port, `factory_app` on the other."""

    def __init__(self, environment: Environment, settings: ServerSettings) -> None:
        self.settings = settings
        self.episodes = Episodes(environment, settings)
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
        """How an episode opens; the rules are the same in all of them, so one is looked at."""
        if self._opening is None:
            episode = await self.episodes.open(self._pages.choose({"seed": 0}))
            try:
                self._opening = list(episode.session.prompt())
            finally:
                await self.episodes.close(episode)
        return self._opening

    @asynccontextmanager
    async def tending(self) -> AsyncIterator[None]:
        """Close abandoned episodes as long as the server runs, and all when it stops."""
        sweeping = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await sweeping
            await self.episodes.close_all()
            close = getattr(self.episodes.environment, "close", None)
            if close is not None:
                await close()

    async def _sweep(self) -> None:
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
