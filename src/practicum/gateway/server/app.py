"""The routes that agents use, each for one dialect, behind the guard."""

import itertools
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from practicum.gateway.dialects import anthropic, openai_chat, openai_responses
from practicum.gateway.dialects.dialect import Dialect
from practicum.gateway.requests import AnswerFacts, Asked, Refused
from practicum.gateway.rollouts import OpenRollouts, Rollout
from practicum.gateway.server.answering import Answering
from practicum.gateway.server.body import read_json
from practicum.gateway.server.events import (
    ClientGone,
    EventStream,
    HappeningBuffer,
    while_there,
)
from practicum.gateway.server.settings import GatewaySettings, Grammars
from practicum.http.guard import Guard, GuardRules, Verdict, bearer_of

__all__ = ["agent_app"]

ROLLOUT = "practicum.rollout"
"""Where the guard notes in a request's scope whose it is."""

OPEN_PATHS = frozenset({"/health"})

PREFIXES = ("/rollouts/{rollout}/v1", "/v1")
"""A rollout is named by its address and its key, or by its key alone."""

DIALECTS: Mapping[str, Dialect] = {
    "/chat/completions": cast(Dialect, openai_chat),
    "/responses": cast(Dialect, openai_responses),
    "/messages": cast(Dialect, anthropic),
}

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
}


class AgentRoutes:
    """What a rollout's key opens: sampling, and the name of the model."""

    def __init__(
        self,
        rollouts: OpenRollouts,
        settings: GatewaySettings,
        models: tuple[str, ...],
        grammars: Grammars | None,
    ) -> None:
        self._answering = Answering(rollouts, settings, grammars)
        self._settings = settings
        self._models = models
        self._since = int(time.time())
        # A system call for every answer would hand the interpreter to whoever computes.
        self._ids = map(f"{secrets.token_hex(6)}{{:012x}}".format, itertools.count())

    def routes(self) -> list[Route]:
        """Every route, under both prefixes."""
        answers = [
            Route(prefix + path, self._answer_in(dialect), methods=["POST"])
            for prefix in PREFIXES
            for path, dialect in DIALECTS.items()
        ]
        others = [Route("/health", _health, methods=["GET"])]
        for prefix in PREFIXES:
            others.append(Route(f"{prefix}/models", self._list_models, methods=["GET"]))
            others.append(Route(f"{prefix}/models/{{name:path}}", self._model, methods=["GET"]))
            others.append(
                Route(f"{prefix}/messages/count_tokens", self._count_tokens, methods=["POST"])
            )
        return [*answers, *others]  # they are tried one after the other

    def _answer_in(self, dialect: Dialect) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return await self._answer(request, dialect)
            except Refused as refused:
                return _refusal(dialect, refused)

        return answer

    async def _answer(self, request: Request, dialect: Dialect) -> Response:
        rollout: Rollout = request.scope[ROLLOUT]
        body = read_json(await request.body(), request.headers.get("content-type", ""))
        asked = dialect.read_request(body, rollout.conversation.params, rollout.use.answers.get)
        facts = AnswerFacts(
            id=next(self._ids),
            model=self._models[0],
            created=int(time.time()),
            token_text=_token_text(rollout),
        )
        if asked.stream:
            return self._stream(dialect, rollout, asked, facts)
        async with while_there(request.receive):
            turns = await self._answering.turns(rollout, asked)
        rollout.keep_answer(facts.id, (*asked.request.messages, turns[0].message))
        return JSONResponse(dialect.whole_answer(asked, turns, facts))

    def _stream(
        self, dialect: Dialect, rollout: Rollout, asked: Asked, facts: AnswerFacts
    ) -> EventStream:
        buffer = HappeningBuffer()

        async def sample() -> None:
            turns = await self._answering.turns(rollout, asked, buffer.add)
            rollout.keep_answer(facts.id, (*asked.request.messages, turns[0].message))

        return EventStream(
            sample,
            buffer,
            _with_errors(dialect.stream_events(asked, facts, aiter(buffer)), dialect),
            partial(_refusal, dialect),
            self._settings.write_timeout_s,
        )

    async def _count_tokens(self, request: Request) -> Response:
        rollout: Rollout = request.scope[ROLLOUT]
        try:
            body = read_json(await request.body(), request.headers.get("content-type", ""))
            asked = anthropic.read_count(body, rollout.conversation.params)
            prompt = rollout.conversation.prompt_of(asked.request)
        except Refused as refused:
            return _refusal(cast(Dialect, anthropic), refused)
        return JSONResponse(anthropic.count_answer(len(prompt)))

    async def _list_models(self, request: Request) -> Response:
        listed = [self._shown(name) for name in self._models]
        return JSONResponse({"object": "list", "data": listed})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._models:
            names = ", ".join(self._models)
            refused = Refused(404, f"there is no model {name!r:.80}; there is {names}")
            return _refusal(DIALECTS["/chat/completions"], refused)
        return JSONResponse(self._shown(name))

    def _shown(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._since, "owned_by": "practicum"}


def agent_app(
    rollouts: OpenRollouts,
    settings: GatewaySettings,
    models: tuple[str, ...],
    grammars: Grammars | None,
) -> Starlette:
    """The application that agents reach."""
    rules = GuardRules(
        host=settings.host,
        names=settings.names,
        open_paths=OPEN_PATHS,
        may=_key_check(rollouts),
        max_body_bytes=settings.max_body_bytes,
        body_timeout_s=settings.body_timeout_s,
        word=_word,
    )
    return Starlette(
        routes=AgentRoutes(rollouts, settings, models, grammars).routes(),
        middleware=[Middleware(Guard, rules=rules)],
        exception_handlers={
            HTTPException: _on_no_route,
            ClientGone: _on_gone,
            Exception: _on_failure,
        },
    )


def _key_check(rollouts: OpenRollouts) -> Callable[[Scope, Mapping[str, str]], Verdict]:
    def may(scope: Scope, headers: Mapping[str, str]) -> Verdict:
        shown = headers.get("x-api-key") or bearer_of(headers.get("authorization", "")) or ""
        parts = scope["path"].split("/")
        named = parts[2] if len(parts) > 2 and parts[1] == "rollouts" else None
        try:
            scope[ROLLOUT] = rollouts.find(named, shown)
        except Refused as refused:
            return refused.status, refused.sentence
        return 0, ""

    return may


async def _with_errors(events: AsyncIterator[str], dialect: Dialect) -> AsyncIterator[str]:
    """A stream that says in its own shape why it ends early."""
    try:
        async for event in events:
            yield event
    except Refused as refused:
        yield dialect.stream_error(refused.status, refused.sentence, refused.kind)
    except Exception as error:  # noqa: BLE001 - the client is told, and the server goes on
        yield dialect.stream_error(500, _failure(error), "api_error")


def _token_text(rollout: Rollout) -> Callable[[int], str]:
    """One token as text; a special token, which has none, by its number."""
    decode = getattr(rollout.conversation.codec, "decode", None)

    def text(token: int) -> str:
        shown = str(decode((token,))) if decode is not None else ""
        return shown or f"token_id:{token}"

    return text


def _dialect_of(path: str) -> Dialect:
    found = (dialect for end, dialect in DIALECTS.items() if path.endswith(end))
    if "/messages" in path:
        return DIALECTS["/messages"]
    return next(found, DIALECTS["/chat/completions"])


def _word(path: str, status: int, sentence: str) -> object:
    kind = KINDS.get(status, "invalid_request_error")
    return _dialect_of(path).error_body(status, sentence, kind)


def _refusal(dialect: Dialect, refused: Refused) -> JSONResponse:
    headers = {"x-should-retry": "false"}
    if refused.kind == "rate_limit_error":
        headers = {"retry-after": "1"}
    body = dialect.error_body(refused.status, refused.sentence, refused.kind, refused.param)
    return JSONResponse(body, refused.status, headers)


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _on_no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = f"{request.method} {request.url.path}: {str(error.detail).lower()}"
    return JSONResponse(_word(request.url.path, error.status_code, sentence), error.status_code)


async def _on_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


async def _on_failure(request: Request, error: Exception) -> Response:
    body = _dialect_of(request.url.path).error_body(500, _failure(error), "api_error")
    return JSONResponse(body, 500)


def _failure(error: Exception) -> str:
    return f"the server failed: {type(error).__name__}: {error!s:.200}"
