"""The HTTP routes for agents: one per dialect to sample, and the list of models."""

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from practicum.core.capabilities import DecodesTokens
from practicum.core.errors import ContextFull
from practicum.core.model_names import model_name
from practicum.gateway.dialects import anthropic
from practicum.gateway.dialects.dialect import Dialect
from practicum.gateway.dialects.known_dialects import DIALECTS
from practicum.gateway.http_guard import Guard, GuardRules, Verdict, bearer_of
from practicum.gateway.json_body import NoObject, parse_object
from practicum.gateway.large_requests import INLINE_BYTES, READ_AT_ONCE, work_on
from practicum.gateway.requests import (
    AnswerFacts,
    ChatTurn,
    ParsedRequest,
    Refused,
    StreamEvent,
)
from practicum.gateway.rollouts import OpenRollouts, Rollout
from practicum.gateway.server.answering import RequestSampler, overflow
from practicum.gateway.server.event_stream import (
    ClientGone,
    EventStream,
    StreamEventBuffer,
    while_connected,
)
from practicum.gateway.server.gateway_settings import GatewaySettings, Grammars


def read_json(body: bytes, content_type: str) -> dict[str, Any]:
    """The JSON object in a body; raises `Refused` if there is none."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "send the body as application/json, with that content type")
    try:
        return parse_object(body)
    except NoObject as error:
        raise Refused(400, str(error)) from None


ROLLOUT = "practicum.rollout"
"""Key of the ASGI scope under which the guard stores the request's rollout."""

OPEN_PATHS = frozenset({"/health"})

PREFIXES = ("/rollouts/{rollout}/v1", "/v1")
"""A rollout is identified by URL and key, or by its key alone."""
SHORT_PREFIXES = ("/rollouts/{rollout}", "")
"""Where some clients that take `ANTHROPIC_BASE_URL` send messages: they add no version to it."""

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
}


class AgentRoutes:
    """The routes that a rollout's key gives access to."""

    def __init__(
        self,
        rollouts: OpenRollouts,
        settings: GatewaySettings,
        models: tuple[str, ...],
        grammars: Grammars | None,
    ) -> None:
        self._sampler = RequestSampler(rollouts, settings, grammars)
        self._settings = settings
        self._models = models
        self._started = int(time.time())
        self._reading = asyncio.Semaphore(READ_AT_ONCE)
        # Random once and then counted: a system call per answer would release the interpreter lock,
        # and the threads that compute the model would take it.
        self._ids = map(f"{secrets.token_hex(6)}{{:012x}}".format, itertools.count())

    def routes(self) -> list[Route]:
        """Every route, under both prefixes; Starlette tries them in order, most used first."""
        answers = [
            Route(prefix + path, self._answer_in(dialect), methods=["POST"])
            for prefix in PREFIXES
            for path, dialect in DIALECTS.items()
        ]
        others = [Route("/health", _health, methods=["GET"])]
        for prefix in PREFIXES:
            listed, one = self._about_models(self._list_models), self._about_models(self._model)
            others.append(Route(f"{prefix}/models", listed, methods=["GET"]))
            others.append(Route(f"{prefix}/models/{{name:path}}", one, methods=["GET"]))
        for prefix in (*PREFIXES, *SHORT_PREFIXES):
            others.append(
                Route(f"{prefix}/messages/count_tokens", self._count_tokens, methods=["POST"])
            )
        to_messages = self._answer_in(DIALECTS["/messages"])
        for prefix in SHORT_PREFIXES:
            others.append(Route(f"{prefix}/messages", to_messages, methods=["POST"]))
        return [*answers, *others]

    def _answer_in(self, dialect: Dialect) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return await self._answer(request, dialect)
            except Refused as refused:
                return refusal(dialect, refused)

        return answer

    async def _answer(self, request: Request, dialect: Dialect) -> Response:
        rollout = self._rollout(request)
        params, answers = rollout.conversation.params, rollout.use.answers.get
        parsed = await self._read(
            request, rollout, dialect, lambda body: dialect.read_request(body, params, answers)
        )
        rollout, model, fingerprint = self._chosen(request, rollout, parsed)
        facts = AnswerFacts(
            id=next(self._ids),
            model=model,
            fingerprint=fingerprint,
            created=int(time.time()),
            token_text=_token_text(rollout),
        )
        if parsed.stream:
            return self._stream(request, dialect, rollout, parsed, facts)
        async with while_connected(request.receive):
            turns = await self._turns(request, rollout, parsed, facts)
        rollout.keep_answer(facts.id, (*parsed.request.messages, turns[0].message))
        return JSONResponse(dialect.whole_answer(parsed, turns, facts))

    async def _read(
        self,
        request: Request,
        rollout: Rollout,
        dialect: Dialect,
        read: Callable[[dict[str, Any]], ParsedRequest],
    ) -> ParsedRequest:
        """A request's body, parsed; a large one when there is room for it, and in a thread."""
        kind, length = (
            request.headers.get("content-type", ""),
            request.headers.get("content-length", ""),
        )
        is_small = length.isdigit() and int(length) <= INLINE_BYTES
        async with nullcontext() if is_small else self._reading:
            raw = await request.body()

            def parse() -> ParsedRequest:
                return read(self._known(rollout, dialect, read_json(raw, kind)))

            parsed = await work_on(len(raw), parse)
        return replace(parsed, request=replace(parsed.request, body_bytes=len(raw)))

    def _known(self, rollout: Rollout, dialect: Dialect, body: dict[str, Any]) -> dict[str, Any]:
        """The body; without the parameters that nobody knows, where these are to be ignored."""
        if not self._settings.ignore_unknown:
            return body
        for name in body.keys() - dialect.KNOWN:
            rollout.use.ignored[f"{name:.80}"] += 1
        return {name: value for name, value in body.items() if name in dialect.KNOWN}

    def _rollout(self, request: Request) -> Rollout:
        """The rollout that a request belongs to."""
        rollout: Rollout = request.scope[ROLLOUT]
        return rollout

    def _chosen(
        self, request: Request, rollout: Rollout, parsed: ParsedRequest
    ) -> tuple[Rollout, str, str]:
        """The rollout with the conversation that answers, and the model's name in the answer.

        And its fingerprint, where its weights stay the same while it answers.
        """
        return rollout, self._models[0], ""

    async def _turns(
        self,
        request: Request,
        rollout: Rollout,
        parsed: ParsedRequest,
        facts: AnswerFacts,
        emit: Callable[[StreamEvent], None] | None = None,
    ) -> list[ChatTurn]:
        """Samples the answer; see `RequestSampler.turns`."""
        return await self._sampler.turns(rollout, parsed, emit)

    def _stream(
        self,
        request: Request,
        dialect: Dialect,
        rollout: Rollout,
        parsed: ParsedRequest,
        facts: AnswerFacts,
    ) -> EventStream:
        buffer = StreamEventBuffer()

        async def sample() -> None:
            turns = await self._turns(request, rollout, parsed, facts, buffer.add)
            rollout.keep_answer(facts.id, (*parsed.request.messages, turns[0].message))

        return EventStream(
            sample,
            buffer,
            _with_errors(dialect.stream_events(parsed, facts, aiter(buffer)), dialect),
            partial(refusal, dialect),
            self._settings.write_timeout_s,
        )

    async def _count_tokens(self, request: Request) -> Response:
        try:
            rollout = self._rollout(request)
            params = rollout.conversation.params
            parsed = await self._read(
                request,
                rollout,
                DIALECTS["/messages"],
                lambda body: anthropic.read_count(body, params),
            )
            rollout, _, _ = self._chosen(request, rollout, parsed)
            self._sampler.check(rollout, parsed)
            prompt = await rollout.conversation.prompt_of(parsed.request)
        except Refused as refused:
            return refusal(cast(Dialect, anthropic), refused)
        except ContextFull as full:
            return refusal(cast(Dialect, anthropic), overflow(full))
        return JSONResponse(anthropic.count_answer(len(prompt)))

    def _about_models(
        self, tell: Callable[[Request], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return tell(request)
            except Refused as refused:
                path = "/messages" if _is_anthropic(request) else "/chat/completions"
                return refusal(DIALECTS[path], refused)

        return answer

    def _list_models(self, request: Request) -> Response:
        names = self._names(request)
        if _is_anthropic(request):
            return JSONResponse(anthropic.model_list(names, self._started))
        listed = [self._model_entry(name) for name in names]
        return JSONResponse({"object": "list", "data": listed})

    def _model(self, request: Request) -> Response:
        name, names = request.path_params["name"], self._names(request)
        name = name if name in names else model_name(name)
        if name not in names:
            raise unknown_model(name, names)
        if _is_anthropic(request):
            return JSONResponse(anthropic.model_entry(name, self._started))
        return JSONResponse(self._model_entry(name))

    def _names(self, request: Request) -> Sequence[str]:
        """The models that a request's key may use."""
        return self._models

    def _model_entry(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._started, "owned_by": "practicum"}


def _is_anthropic(request: Request) -> bool:
    """Whether the client is one of Anthropic's: these name the version of the API."""
    return "anthropic-version" in request.headers


def agent_app(
    rollouts: OpenRollouts,
    settings: GatewaySettings,
    models: tuple[str, ...],
    grammars: Grammars | None,
) -> Starlette:
    """The ASGI application for agents."""
    rules = guard_rules(settings, _key_check(rollouts), OPEN_PATHS)
    routes = AgentRoutes(rollouts, settings, models, grammars).routes()
    return dialect_app(routes, [Middleware(Guard, rules=rules)])


def guard_rules(
    settings: GatewaySettings,
    authorize: Callable[[Scope, Mapping[str, str]], Verdict],
    open_paths: frozenset[str],
) -> GuardRules:
    """What a guard accepts, with refusals in the shape of each path's dialect."""
    return GuardRules(
        host=settings.host,
        names=settings.names,
        open_paths=open_paths,
        authorize=authorize,
        max_body_bytes=settings.max_body_bytes,
        body_timeout_s=settings.body_timeout_s,
        error_json=_error_json,
    )


def dialect_app(routes: Sequence[BaseRoute], middleware: Sequence[Middleware]) -> Starlette:
    """An ASGI application whose errors have the shape of each path's dialect."""
    return Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={
            HTTPException: _on_no_route,
            ClientGone: _on_gone,
            Exception: _on_failure,
        },
    )


def _key_check(rollouts: OpenRollouts) -> Callable[[Scope, Mapping[str, str]], Verdict]:
    def authorize(scope: Scope, headers: Mapping[str, str]) -> Verdict:
        shown = headers.get("x-api-key") or bearer_of(headers.get("authorization", "")) or ""
        parts = scope["path"].split("/")
        named = parts[2] if len(parts) > 2 and parts[1] == "rollouts" else None
        try:
            scope[ROLLOUT] = rollouts.find(named, shown)
        except Refused as refused:
            return refused.status, refused.sentence
        return 0, ""

    return authorize


async def _with_errors(events: AsyncIterator[str], dialect: Dialect) -> AsyncIterator[str]:
    """The stream, with an error event of its dialect if it fails."""
    try:
        async for event in events:
            yield event
    except Refused as refused:
        yield dialect.stream_error(refused.status, refused.sentence, refused.kind)
    except Exception as error:  # noqa: BLE001 - the client is told, and the server goes on
        yield dialect.stream_error(500, failure_sentence(error), "api_error")


def _token_text(rollout: Rollout) -> Callable[[int], str]:
    """Gives a token's text, or `token_id:N` for a special token without text."""
    codec = rollout.conversation.codec
    decode = codec.decode if isinstance(codec, DecodesTokens) else None

    def text(token: int) -> str:
        shown = decode((token,)) if decode is not None else ""
        return shown or f"token_id:{token}"

    return text


def _dialect_of(path: str) -> Dialect:
    found = (dialect for end, dialect in DIALECTS.items() if path.endswith(end))
    if "/messages" in path:
        return DIALECTS["/messages"]
    return next(found, DIALECTS["/chat/completions"])


def _error_json(path: str, status: int, sentence: str) -> object:
    kind = KINDS.get(status, "invalid_request_error")
    return _dialect_of(path).error_body(status, sentence, kind)


def unknown_model(name: str, names: Sequence[str]) -> Refused:
    """The refusal of a model that is not there."""
    sentence = f"there is no model {name!r:.80}; there is {', '.join(names)}"
    return Refused(404, sentence, "model_not_found", "model")


def refusal(dialect: Dialect, refused: Refused) -> JSONResponse:
    """A refusal in a dialect's shape."""
    headers = {"x-should-retry": "false"}
    if refused.kind in ("rate_limit_error", "overloaded_error"):
        headers = {"retry-after": str(refused.retry_after_s)}
    body = dialect.error_body(refused.status, refused.sentence, refused.kind, refused.param)
    return JSONResponse(body, refused.status, headers)


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _on_no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = f"{request.method} {request.url.path}: {str(error.detail).lower()}"
    return JSONResponse(
        _error_json(request.url.path, error.status_code, sentence), error.status_code
    )


async def _on_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # for the log only: the client has disconnected


async def _on_failure(request: Request, error: Exception) -> Response:
    body = _dialect_of(request.url.path).error_body(500, failure_sentence(error), "api_error")
    return JSONResponse(body, 500)


def failure_sentence(error: Exception) -> str:
    """What a client is told of an error that is the server's own."""
    return f"the server failed: {type(error).__name__}: {error!s:.200}"
