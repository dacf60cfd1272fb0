"""The control socket: HTTP routes to open, reward and close rollouts, for the user's own programs.

An agent must not be able to reward itself. So this is a unix socket in a folder that only its owner
can enter, it refuses processes of other users, and it needs a key that agents do not have: a
rollout's key is not accepted here.
"""

from collections.abc import Awaitable, Callable, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from practicum.core.conversation import Endpoint, RolloutLimits
from practicum.gateway.dialects.dialect import Fields, refuse
from practicum.gateway.http_guard import Guard, GuardRules, Verdict, has_key
from practicum.gateway.requests import Refused
from practicum.gateway.rollouts import Rollout, RolloutController
from practicum.gateway.server.agent_routes import failure_sentence, read_json
from practicum.gateway.server.gateway_settings import GatewaySettings

LARGEST = 1e9
MOST_COMPONENTS = 100


class ControlRoutes:
    """The routes of the control socket."""

    def __init__(
        self, controller: RolloutController, endpoint: Callable[[Rollout], Endpoint]
    ) -> None:
        self._controller = controller
        self._endpoint = endpoint

    def routes(self) -> list[Route]:
        """Every route."""
        return [
            Route("/rollouts", _with_refusals(self._list), methods=["GET"]),
            Route("/rollouts", _with_refusals(self._open), methods=["POST"]),
            Route("/rollouts/{rollout}/reward", _with_refusals(self._reward), methods=["POST"]),
            Route("/rollouts/{rollout}", _with_refusals(self._close), methods=["DELETE"]),
        ]

    async def _list(self, request: Request) -> Response:
        listed = [
            {
                "id": rollout.id,
                "task_id": note.task_id,
                "turns": rollout.use.turns,
                "tokens": rollout.use.tokens,
                "under_way": rollout.use.under_way,
                "retokenised": rollout.conversation.graph.retokenised,
                "unrecognised": rollout.conversation.graph.unrecognised,
                "ignored": dict(rollout.use.ignored),
                "reward": note.score.value,
                "started_at": note.started_at,
            }
            for rollout, note in self._controller.open_rollouts()
        ]
        return JSONResponse({"rollouts": listed})

    async def _open(self, request: Request) -> Response:
        fields = await _fields(request)
        limits = RolloutLimits(
            max_turns=fields.integer("max_turns", 0) or 0,
            max_tokens=fields.integer("max_tokens", 0) or 0,
            deadline_s=fields.number("deadline_s", 0, LARGEST) or 0.0,
            concurrency=fields.integer("concurrency", 1, 1000) or RolloutLimits().concurrency,
        )
        rollout = self._controller.open(limits, fields.text("task_id", ""))
        endpoint = self._endpoint(rollout)
        return JSONResponse({"id": rollout.id, "url": endpoint.url, "key": endpoint.key}, 201)

    async def _reward(self, request: Request) -> Response:
        fields = await _fields(request)
        given = fields.inner("components")
        if len(given.values) > MOST_COMPONENTS:
            raise refuse(f"components can be at most {MOST_COMPONENTS}", "components")
        found = {str(name)[:100]: given.number(name, -LARGEST, LARGEST) for name in given.values}
        if fields.has("reward"):
            found["reward"] = fields.number("reward", -LARGEST, LARGEST)
        components = {name: value for name, value in found.items() if value is not None}
        if not components:
            raise refuse("reward is missing; send a number as reward, or several as components")
        score = self._controller.reward(request.path_params["rollout"], components)
        return JSONResponse({"reward": score.value})

    async def _close(self, request: Request) -> Response:
        episode = self._controller.close(request.path_params["rollout"])
        trace = episode.trace
        return JSONResponse(
            {
                "trace": trace.id,
                "turns": len(trace.turns),
                "tokens": trace.sampled_tokens,
                "branches": len(trace.leaves()),
                "reward": episode.score.value,
            }
        )


async def _fields(request: Request) -> Fields:
    body = await request.body()
    return Fields(read_json(body or b"{}", request.headers.get("content-type", "")))


def _with_refusals(
    handle: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """The handler, with `Refused` as a JSON answer."""

    async def answer(request: Request) -> Response:
        try:
            return await handle(request)
        except Refused as refused:
            again = {"retry-after": str(refused.retry_after_s)} if refused.status == 503 else None
            return JSONResponse({"error": refused.sentence}, refused.status, again)

    return answer


def control_app(
    controller: RolloutController,
    endpoint: Callable[[Rollout], Endpoint],
    settings: GatewaySettings,
) -> Starlette:
    """The ASGI application of the control socket."""

    def authorize(scope: Scope, headers: Mapping[str, str]) -> Verdict:
        shown, key = headers.get("authorization", ""), settings.control_key.value
        if key and has_key(shown, key):
            return 0, ""
        return 401, "the control key is missing or wrong; send it as `Authorization: Bearer KEY`"

    rules = GuardRules(
        host="localhost",
        authorize=authorize,
        max_body_bytes=settings.max_body_bytes,
        body_timeout_s=settings.body_timeout_s,
        checks_host=False,
    )
    return Starlette(
        routes=ControlRoutes(controller, endpoint).routes(),
        middleware=[Middleware(Guard, rules=rules)],
        exception_handlers={HTTPException: _on_no_route, Exception: _on_failure},
    )


async def _on_no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = f"{request.method} {request.url.path}: {str(error.detail).lower()}"
    return JSONResponse({"error": sentence}, error.status_code)


async def _on_failure(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": failure_sentence(error)}, 500)
