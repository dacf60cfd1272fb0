"""`practicum serve MODEL --sampler`: a replica that a run elsewhere samples on.

It takes token ids and constraints and answers with token ids, their log-probabilities and the
fingerprint of the weights that drew them, which it has computed from the tensors it read. Adapters
are loaded by name; a name stands for one version for good. Every route but `/health` needs the key.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Scope

from practicum.core.capabilities import context_length
from practicum.core.errors import ContextFull, PracticumError, UserError
from practicum.core.interfaces import Sampler
from practicum.core.sampling import TokenGrammar
from practicum.core.sampling_json import completion_to_json, request_from_json
from practicum.gateway.http_guard import Guard, Verdict, has_key
from practicum.gateway.json_body import NoObject, parse_object
from practicum.gateway.requests import Refused
from practicum.gateway.server.agent_routes import guard_rules
from practicum.gateway.server.event_stream import ClientGone, while_connected
from practicum.gateway.serving.serve_plan import ServePlan
from practicum.gateway.serving.serving_server import listening

PROTOCOL = 1
"""Of the routes under /sampler; `samplers.practicum_replica` has the same."""

MOST_ADAPTERS = 64
"""Adapters in memory; a run gives up its old ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledBase:
    """A base model in memory, as the routes use it."""

    fingerprint: str
    """The part of a version's fingerprint that stands for the base."""
    load: Callable[[Path], Sampler]
    """Reads an adapter, in any thread."""
    grammar: Callable[[str], TokenGrammar]
    """Compiles what a request was held to."""
    base: Sampler
    """Without an adapter."""


class SampledVersions:
    """A base model and the adapters over it that have come and not gone."""

    def __init__(self, base: SampledBase) -> None:
        self._base = base
        self._samplers: dict[str, Sampler] = {}
        self._known: dict[str, str] = {}
        """The version that each name stands for, also of those that were given up."""

    def about(self) -> dict[str, Any]:
        """Which base it is, and which adapters there are, by what their tensors are."""
        return {
            "protocol": PROTOCOL,
            "base": self._base.fingerprint,
            "context_tokens": context_length(self._base.base),
            "adapters": {name: one.fingerprint() for name, one in self._samplers.items()},
        }

    async def load(self, name: str, folder: Path) -> dict[str, Any]:
        """Read an adapter; `UserError` where its name stands for other weights."""
        if len(self._samplers) >= MOST_ADAPTERS:
            raise UserError(f"{MOST_ADAPTERS} adapters are loaded; give some up with DELETE")
        sampler = await asyncio.to_thread(self._base.load, folder)
        found = sampler.fingerprint()
        if self._known.setdefault(name, found) != found:
            raise UserError(
                f"the name {name!r:.100} stands for the weights {self._known[name]}, and {folder} "
                f"has {found}; take another name"
            )
        self._samplers.setdefault(name, sampler)
        return {"name": name, "fingerprint": found}

    def unload(self, name: str) -> dict[str, Any]:
        """Give an adapter up."""
        if self._samplers.pop(name, None) is None:
            raise _no_adapter(name)
        return {"name": name}

    async def sample(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """What `completion_to_json` makes of what `order_to_json` has ordered."""
        name = told.get("adapter")
        sampler = self._samplers.get(name) if isinstance(name, str) else None
        if sampler is None:
            raise _no_adapter(name)
        order = request_from_json(told, self._base.grammar)
        return completion_to_json(await sampler.sample(order))


def _no_adapter(name: object) -> UserError:
    return UserError(f"there is no adapter {name!r:.100}; GET /sampler lists them")


class SamplerRoutes:
    """The routes of one replica."""

    def __init__(self, base: SampledBase, at_once: int) -> None:
        self._versions, self._at_once = SampledVersions(base), at_once
        self._in_flight = 0

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/health", self._health, methods=["GET"]),
            Route("/sampler", _told(self._about), methods=["GET"]),
            Route("/sampler/adapters", _told(self._load), methods=["POST"]),
            Route("/sampler/adapters/{name:path}", _told(self._unload), methods=["DELETE"]),
            Route("/sampler/sample", _told(self._sample), methods=["POST"]),
        ]

    async def _health(self, request: Request) -> JSONResponse:
        return JSONResponse({"status": "ready"})

    async def _about(self, request: Request) -> dict[str, Any]:
        return self._versions.about()

    async def _load(self, request: Request) -> dict[str, Any]:
        told = await _body(request)
        name, folder = told.get("name"), told.get("folder")
        if not isinstance(name, str) or not name or not isinstance(folder, str):
            raise UserError("an adapter has a name and a folder; send both")
        return await self._versions.load(name, Path(folder))

    async def _unload(self, request: Request) -> dict[str, Any]:
        return self._versions.unload(request.path_params["name"])

    async def _sample(self, request: Request) -> dict[str, Any]:
        if self._in_flight >= self._at_once:
            raise Refused(503, "as many requests as may be are under way", "overloaded_error")
        self._in_flight += 1
        try:
            told = await _body(request)
            async with while_connected(request.receive):
                return await self._versions.sample(told)
        finally:
            self._in_flight -= 1


async def _body(request: Request) -> dict[str, Any]:
    try:
        return parse_object(await request.body())
    except NoObject as error:
        raise UserError(f"{error}; send what order_to_json writes") from None


def _told(
    answer: Callable[[Request], Awaitable[dict[str, Any]]],
) -> Callable[[Request], Awaitable[JSONResponse]]:
    """A route whose errors say what they are."""

    async def route(request: Request) -> JSONResponse:
        try:
            return JSONResponse(await answer(request))
        except ClientGone:
            return JSONResponse({}, 499)  # nobody reads it
        except Refused as refused:
            headers = {"retry-after": str(refused.retry_after_s)}
            return _error(refused.status, "Refused", refused.sentence, headers)
        except ContextFull as error:
            return _error(400, "ContextFull", str(error))
        except PracticumError as error:
            return _error(400, "UserError", str(error))

    return route


def _error(
    status: int, kind: str, sentence: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse({"error": {"kind": kind, "message": sentence}}, status, headers)


async def serve_sampler(
    load: Callable[[], SampledBase], plan: ServePlan, key: str, ready: Callable[[str], None]
) -> None:
    """Serves until SIGINT or SIGTERM.

    Args:
        load: Loads the base model.
        plan: Address and limits.
        key: What every request must show.
        ready: Called with the address once it can be sampled from.
    """

    def authorize(scope: Scope, headers: Any) -> Verdict:
        if has_key(headers.get("authorization", ""), key):
            return 0, ""
        return 401, "the key is missing or wrong"

    loaded = await asyncio.to_thread(load)
    routes = SamplerRoutes(loaded, plan.at_once)
    rules = guard_rules(plan.settings, authorize, frozenset({"/health"}))
    app = Starlette(routes=routes.routes(), middleware=[Middleware(Guard, rules=rules)])
    async with listening(app, plan) as (address, stopped):
        ready(address)
        await stopped.wait()
