"""`serve_models`: a server that listens at once, loads, answers, and ends in good order."""

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from practicum.gateway.http_listening import address_of, listen, running_servers
from practicum.gateway.key_watch import KeyWatch
from practicum.gateway.server.gateway_server import http_server, low_latency, reachable
from practicum.gateway.serving.key_limits import KeyRing, RequestQueue
from practicum.gateway.serving.serve_plan import LoadedModels, ServePlan
from practicum.gateway.serving.served_models import ModelWatch, ServedModels
from practicum.gateway.serving.serving_metrics import ServingMetrics
from practicum.gateway.serving.serving_routes import ServingParts, ServingRoutes, serving_app
from practicum.gateway.serving.traffic_recorder import TrafficKeeper, TrafficRecorder

WATCH_S = 1.0
"""Seconds between two looks at the models' sources."""

TENDED_S = 5


async def serve_models(
    plan: ServePlan,
    load: Callable[[], Awaitable[LoadedModels]],
    *,
    ready: Callable[[str, ServedModels], None],
    say: Callable[[str], None],
    log: Callable[[str], None] | None = None,
    keeper: Callable[[], TrafficKeeper] | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM; then accepts no more, and ends what is under way.

    A second signal ends at once. SIGHUP reads the key file again, as does a change of it.

    Args:
        plan: Address, keys and limits.
        load: Loads the models; `/health` is answered meanwhile, and `/ready` says not yet.
        ready: Called with address and models once all is loaded.
        say: Told what happens to the models, to the keys and to what is recorded.
        log: Takes a line for each request.
        keeper: Opens the store of recorded traffic; None records nothing.
    """
    metrics = ServingMetrics()
    recorder = keeper and TrafficRecorder(keeper, plan.recording, metrics, say)
    parts = ServingParts(
        keys=KeyRing(plan.keys),
        queue=RequestQueue(plan.at_once, plan.wait_s),
        metrics=metrics,
        recorder=recorder,
    )
    routes = ServingRoutes(plan.settings, parts)
    app = serving_app(routes, plan.settings, parts, log)
    try:
        keys = KeyWatch(plan.key_file, parts.keys.replace, say)
        async with keys.under_way(), listening(app, plan) as (address, stopped):
            loaded = await _unless(load(), stopped)
            if loaded is not None:
                routes.load(loaded.models, loaded.grammars, loaded.solver)
                watch = ModelWatch(loaded.models, loaded.sources, loaded.load, metrics, say)
                for name, stamp in loaded.stamps.items():
                    watch.loaded(name, stamp)
                ready(address, loaded.models)
                await _unless(_watching(watch, loaded.tend), stopped)
            parts.is_stopping = True
    finally:
        if recorder is not None:
            await recorder.close()


@asynccontextmanager
async def listening(app: object, plan: ServePlan) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """The server under way, its address, and an event that a signal sets."""
    settings = plan.settings
    where = listen(settings.host, settings.port, "--port")
    server, stopped = http_server(app, grace_s=plan.grace_s), asyncio.Event()

    def stop() -> None:
        server.force_exit = stopped.is_set()
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, stop)
    try:
        with low_latency:
            async with running_servers([(server, where)]):
                yield address_of(reachable(settings.host), where), stopped
    finally:
        where.close()


async def _watching(watch: ModelWatch, tend: Callable[[], object]) -> None:
    """Look at the sources every second, and tend to the process every few, without end."""
    for seconds in itertools.count(1):
        await asyncio.sleep(WATCH_S)
        await watch.look_at_all()
        if not seconds % TENDED_S:
            await asyncio.to_thread(tend)


T = TypeVar("T")


async def _unless(work: Awaitable[T], stopped: asyncio.Event) -> T | None:
    """What work comes to; None where the server is stopped before."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
