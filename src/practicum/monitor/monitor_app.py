"""`serve_monitor`: the routes of the monitor, what an error looks like, and the server itself."""

import asyncio
import secrets
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from practicum.core.errors import UserError
from practicum.gateway.http_listening import address_of, listen, running_servers
from practicum.gateway.server.gateway_server import http_server
from practicum.monitor import artefact_pages, changes, label_pages, rollout_pages, run_pages
from practicum.monitor.access import KEY, Access
from practicum.monitor.label_pages import LabelDesk
from practicum.monitor.open_stores import StoreThreads
from practicum.monitor.page_parts import HERE, Asked, Monitor, link, make_templates
from practicum.monitor.run_folders import NotThere, RunFolders, folder_stamp, stamp_of

HOST = "127.0.0.1"
"""No other machine can reach it: who sits at another forwards the port, `ssh -L`."""
LOOK_S = 1.0
"""Seconds between two looks at what is live."""
QUIET_S = 15.0
"""Seconds after which a stream without news says so, lest it be taken for dead."""
MOST_LIVE = 32
"""Pages that may be live at once."""

Page = Callable[[Monitor, Asked], Response]

PAGES: dict[str, Page] = {
    "/": run_pages.list_page,
    "/run": run_pages.run_page,
    "/study": run_pages.study_page,
    "/compare": run_pages.compare_page,
    "/data/charts": run_pages.chart_points,
    "/rollouts": rollout_pages.rollouts_page,
    "/group": rollout_pages.group_page,
    "/trace": rollout_pages.trace_page,
    "/versions": rollout_pages.versions_page,
    "/labels": label_pages.labels_page,
    "/artefacts": artefact_pages.artefacts_page,
}
CHANGES: dict[str, Page] = {
    "/notes": changes.keep_notes,
    "/stop": changes.stop_run,
    "/delete": changes.delete_run,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """What the command was told."""

    runs_dir: Path
    served: Path
    port: int = 0
    may_write: bool = False
    author: str = ""


class MonitorRoutes:
    """The routes, over what they read from."""

    def __init__(self, settings: MonitorSettings) -> None:
        self.monitor = Monitor(
            runs=RunFolders(settings.runs_dir),
            stores=StoreThreads(),
            served=settings.served,
            may_write=settings.may_write,
            author=settings.author,
            templates=make_templates(),
        )
        self.desk = LabelDesk(settings.author)
        self.is_stopping = False
        self._live = 0

    def app(self) -> Starlette:
        """The application."""
        routes: list[Route | Mount] = [
            Mount("/static", StaticFiles(directory=HERE / "static")),
            Route("/events", self.events, methods=["GET"]),
        ]
        routes += [
            Route(path, self._reading(page), methods=["GET"]) for path, page in PAGES.items()
        ]
        routes += [
            Route(path, self._writing(page), methods=["POST"]) for path, page in CHANGES.items()
        ]
        if self.monitor.may_write:
            routes.append(Route("/label", self.label, methods=["GET", "POST"]))
        return Starlette(routes=routes, exception_handlers={404: self._no_page, 500: self._mistake})

    def _reading(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            asked = _asked(request)
            work = self._or_sentence(lambda: page(self.monitor, asked))
            return await self.monitor.stores.run(work)

        return answer

    def _writing(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            asked = await _sent(request)
            work = self._or_sentence(lambda: page(self.monitor, asked))
            return await self.monitor.stores.run(work)

        return answer

    async def label(self, request: Request) -> Response:
        """The labelling queue."""
        page = label_pages.queue_page
        asked = _asked(request)
        if request.method == "POST":
            page = label_pages.give_label
            asked = await _sent(request)
        work = self._or_sentence(lambda: page(self.monitor, asked, self.desk))
        return await self.desk.run(work)

    def _or_sentence(self, work: Callable[[], Response]) -> Callable[[], Response]:
        def answer() -> Response:
            try:
                return work()
            except UserError as error:
                status = 404 if isinstance(error, NotThere) else 400
                return self.monitor.page("error.html", status=status, sentence=str(error))

        return answer

    async def _no_page(self, request: Request, error: Exception) -> Response:
        return self.monitor.page("error.html", status=404, sentence="there is no such page")

    async def _mistake(self, request: Request, error: Exception) -> Response:
        """One of Practicum's own: the traceback is for whoever mends it, not for the page."""
        traceback.print_exception(error, file=sys.stderr)
        said = "a mistake of Practicum's own: the terminal that the monitor runs in shows where"
        return self.monitor.page("error.html", status=500, sentence=said)

    async def events(self, request: Request) -> Response:
        """A stream that says when what a page shows has changed."""
        name = request.query_params.get("name", "")
        if self._live >= MOST_LIVE:
            return Response("too many pages are live; close some\n", 503)
        if name:
            try:
                run = self.monitor.runs.run(name)
            except UserError as error:
                return Response(f"{error}\n", 404)

        def stamp() -> object:
            return stamp_of(run) if name else folder_stamp(self.monitor.runs.path)

        return StreamingResponse(self._changes(stamp), media_type="text/event-stream")

    async def _changes(self, stamp: Callable[[], object]) -> AsyncIterator[bytes]:
        self._live += 1
        try:
            seen, quiet_s = await self.monitor.stores.run(stamp), 0.0
            yield b"event: live\ndata: 1\n\n"
            while not self.is_stopping:
                await asyncio.sleep(LOOK_S)
                now, quiet_s = await self.monitor.stores.run(stamp), quiet_s + LOOK_S
                if now != seen:
                    seen, quiet_s = now, 0.0
                    yield b"event: changed\ndata: 1\n\n"
                elif quiet_s >= QUIET_S:
                    quiet_s = 0.0
                    yield b": quiet\n\n"
        finally:
            self._live -= 1

    def close(self) -> None:
        """Let the threads end."""
        self.desk.close()
        self.monitor.stores.close()


async def _sent(request: Request) -> Asked:
    """What a form sent; the guard has bounded its length."""
    return _asked(request, parse_qsl((await request.body()).decode("utf-8", "replace"), True))


def _asked(request: Request, form: Sequence[tuple[str, str]] = ()) -> Asked:
    query = request.query_params
    return Asked(
        path=request.url.path,
        query=dict(query),
        several={name: query.getlist(name) for name in query},
        form=dict(form),
    )


async def serve_monitor(settings: MonitorSettings, ready: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM; `ready` is given the address with its key."""
    where = listen(HOST, settings.port, "--port")
    routes, stopped = MonitorRoutes(settings), asyncio.Event()
    key = secrets.token_urlsafe(24)
    port = where.getsockname()[1]
    access = Access(routes.app(), key=key, port=port, may_write=settings.may_write)
    server = http_server(access.guarded(HOST), grace_s=1)

    def stop() -> None:
        routes.is_stopping = True
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, stop)
    try:
        async with running_servers([(server, where)]):
            ready(address_of(HOST, where) + link("/", **{KEY: key}))
            await stopped.wait()
    finally:
        where.close()
        routes.close()
