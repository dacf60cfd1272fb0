"""The HTTP routes of `practicum serve`: the gateway's dialects by model name, and what goes beside.

`/health`, `/ready` and `/metrics` for whoever runs it; `/solve` plays a task of an environment;
`/feedback` says how good an answer was; `/` is a page to do both by hand.
"""

import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from practicum.core.conversation import RolloutLimits
from practicum.core.errors import UserError
from practicum.core.trace import Trace
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.dialects.dialect import Fields
from practicum.gateway.dialects.known_dialects import DIALECTS
from practicum.gateway.http_guard import Guard, Verdict, bearer_of
from practicum.gateway.requests import (
    AnswerFacts,
    ChatTurn,
    ParsedRequest,
    Refused,
    StreamEvent,
)
from practicum.gateway.rollouts import OpenRollouts, Rollout, RolloutUse
from practicum.gateway.server.agent_routes import (
    AgentRoutes,
    dialect_app,
    guard_rules,
    read_json,
    refusal,
    unknown_model,
)
from practicum.gateway.server.answering import RequestSampler
from practicum.gateway.server.event_stream import while_connected
from practicum.gateway.server.gateway_settings import GatewaySettings, Grammars
from practicum.gateway.serving.access_log import EXCHANGE, AccessLog, Exchange
from practicum.gateway.serving.console_page import console_pages
from practicum.gateway.serving.key_limits import (
    KEY_REFUSED,
    Client,
    KeyRing,
    RequestQueue,
    Spending,
)
from practicum.gateway.serving.serve_plan import Solved, Solver, SolveRequest
from practicum.gateway.serving.served_models import ServedModel, ServedModels
from practicum.gateway.serving.serving_metrics import CONTENT_TYPE, ServingMetrics
from practicum.gateway.serving.traffic_recorder import (
    RECORD_HEADER,
    TrafficRecorder,
    conversation_episode,
)

CLIENT = "practicum.client"
"""Key of the ASGI scope under which the guard stores whose request it is."""

OPEN_PATHS = frozenset({"/health", "/ready"})

UNLIMITED = RolloutLimits(concurrency=0)
"""Keys and the queue limit requests here, and not rollouts."""

LONGEST_PROBLEM = 20_000
"""Characters of a problem that is to be solved."""


@dataclass(slots=True, kw_only=True)
class ServingParts:
    """What the routes share. Models, grammars and solver are there once weights are loaded."""

    keys: KeyRing
    queue: RequestQueue
    metrics: ServingMetrics
    recorder: TrafficRecorder | None = None
    models: ServedModels | None = None
    grammars: Grammars | None = None
    solver: Solver | None = None
    is_stopping: bool = False

    @property
    def state(self) -> Literal["loading", "ready", "stopping"]:
        """How far the server is; requests for answers are answered when it is ready."""
        if self.is_stopping:
            return "stopping"
        return "loading" if self.models is None else "ready"


def random_ids() -> Iterator[str]:
    """Ids that nobody can guess: who knows one may continue its answer and give feedback on it.

    Random bytes are drawn for many at once, since a system call releases the interpreter lock.
    """
    while True:
        pool = os.urandom(12 * 256)
        yield from (pool[at : at + 12].hex() for at in range(0, len(pool), 12))


class ServingRoutes(AgentRoutes):
    """The gateway's routes, answered by the model that each request names."""

    def __init__(self, settings: GatewaySettings, parts: ServingParts) -> None:
        self._rollouts = OpenRollouts()
        super().__init__(self._rollouts, settings, (), None)
        self._ids = random_ids()  # type: ignore[assignment]  # both are iterators of texts
        self._seeds = random.Random()
        self._parts = parts

    def load(self, models: ServedModels, grammars: Grammars | None, solver: Solver) -> None:
        """Answer requests from now on."""
        self._sampler = RequestSampler(self._rollouts, self._settings, grammars)
        self._parts.grammars, self._parts.solver = grammars, solver
        self._parts.models = models

    def routes(self) -> list[Route]:
        """Those of the gateway, without rollouts in their paths, and the server's own."""
        inherited = [r for r in super().routes() if r.path.startswith(("/v1/", "/messages"))]
        return [
            *inherited,
            Route("/health", self._health, methods=["GET"]),
            Route("/ready", self._ready, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/solve", self._guarded(self._solve, _problem_asked), methods=["POST"]),
            Route("/feedback", self._guarded(self._feedback), methods=["POST"]),
        ]

    def _models_now(self) -> ServedModels:
        if self._parts.models is None:
            sentence = "the model's weights are still being loaded; try again in a moment"
            raise Refused(503, sentence, "overloaded_error", retry_after_s=2)
        return self._parts.models

    def _names(self, request: Request) -> Sequence[str]:
        names: tuple[str, ...] = request.scope[CLIENT].allowed(self._models_now().names)
        return names

    def _model_entry(self, name: str) -> dict[str, Any]:
        served = self._models_now().get(name)
        assert served is not None
        entry = super()._model_entry(name)
        return {**entry, "created": int(served.loaded_at), "fingerprint": served.fingerprint}

    def _rollout(self, request: Request) -> Rollout:
        """The client's, with the default model, whose parameters fill in what requests lack."""
        client: Client = request.scope[CLIENT]
        exchange: Exchange = request.scope[EXCHANGE]
        exchange.key, exchange.route = client.name, request.scope["route"].path
        conversation = self._converse(self._models_now().default)
        # Answers stay in memory only where later requests may go on from them.
        use = client.use if request.url.path.endswith("/responses") else RolloutUse()
        return Rollout(id=client.name, key="", conversation=conversation, limits=UNLIMITED, use=use)

    def _converse(self, model: ServedModel) -> CapturedConversation:
        seed = self._seeds.getrandbits(63)
        return CapturedConversation(model.sampler, model.codec, model.params, seed)

    def _model_for(self, request: Request, name: str) -> ServedModel:
        """The model of a name as it is now; the default where none is named."""
        models, client = self._models_now(), request.scope[CLIENT]
        names = client.allowed(models.names)
        found = models.get(name or (names[0] if names else ""))
        if found is None:
            raise unknown_model(name, names)
        if found.name not in names:
            sentence = f"this key may not use {name!r:.80}; it may use {', '.join(names)}"
            raise Refused(403, sentence, "permission_error", "model")
        return found

    def _chosen(
        self, request: Request, rollout: Rollout, parsed: ParsedRequest
    ) -> tuple[Rollout, str, str]:
        model = self._model_for(request, parsed.model)
        exchange: Exchange = request.scope[EXCHANGE]
        exchange.model, exchange.fingerprint = model.name, model.fingerprint
        exchange.is_streamed = parsed.stream
        chosen = replace(rollout, conversation=self._converse(model))
        return chosen, model.name, model.fingerprint

    async def _turns(
        self,
        request: Request,
        rollout: Rollout,
        parsed: ParsedRequest,
        facts: AnswerFacts,
        emit: Callable[[StreamEvent], None] | None = None,
    ) -> list[ChatTurn]:
        parts, exchange = self._parts, request.scope[EXCHANGE]
        exchange.id, started = facts.id, time.time()
        self._tell_recorded(request)
        most = parsed.n * parsed.request.params.max_tokens
        turns: list[ChatTurn] = []
        with request.scope[CLIENT].admit(most) as spending:
            async with parts.queue.turn() as waited_s:
                exchange.queue_s = waited_s
                parts.metrics.queue_seconds.add(waited_s)
                try:
                    counted = _counted(parsed, exchange, spending)
                    turns = await super()._turns(request, rollout, counted, facts, emit)
                finally:
                    parts.metrics.sampled(
                        facts.model,
                        prompt=exchange.prompt_tokens,
                        cached=turns[0].completion.cached_tokens if turns else 0,
                        completion=exchange.completion_tokens,
                    )
        if parts.recorder is not None:
            kept = conversation_episode(
                facts.id,
                facts.model,
                rollout.conversation,
                started,
                request.scope[CLIENT].known_as,
            )
            header = request.headers.get(RECORD_HEADER)
            exchange.is_recorded = parts.recorder.offer(header, *kept)
        return turns

    def _tell_recorded(self, request: Request) -> None:
        """Note for the answer's head whether it may be recorded."""
        if self._parts.recorder is not None:
            header = request.headers.get(RECORD_HEADER)
            request.scope[EXCHANGE].recorded_told = self._parts.recorder.rules.told(header)

    def _guarded(
        self,
        work: Callable[[Request, dict[str, Any]], Awaitable[Response]],
        read: Callable[[Request, bytes], dict[str, Any]] | None = None,
    ) -> Callable[[Request], Awaitable[Response]]:
        """A route of our own, whose refusals have OpenAI's shape."""
        read_fields = read or _json_of

        async def answer(request: Request) -> Response:
            exchange: Exchange = request.scope[EXCHANGE]
            exchange.key = request.scope[CLIENT].name
            exchange.route = request.scope["route"].path
            try:
                body = read_fields(request, await request.body())
                async with while_connected(request.receive):
                    return await work(request, body)
            except Refused as refused:
                return refusal(DIALECTS["/chat/completions"], refused)
            except UserError as error:
                return refusal(DIALECTS["/chat/completions"], Refused(400, str(error)))

        return answer

    async def _solve(self, request: Request, body: dict[str, Any]) -> Response:
        fields, exchange = Fields(body), request.scope[EXCHANGE]
        fields.allow({"problem", "model", "env", "temperature", "seed"})
        model = self._model_for(request, fields.text("model", ""))
        exchange.model, exchange.fingerprint = model.name, model.fingerprint
        problem = fields.text("problem")
        if not 0 < len(problem) <= LONGEST_PROBLEM:
            raise Refused(400, f"problem has 1 to {LONGEST_PROBLEM} characters", param="problem")
        exchange.id = next(self._ids)
        self._tell_recorded(request)
        asked = SolveRequest(
            problem=problem,
            env=fields.text("env", ""),
            trace_id=f"solve/{exchange.id}",
            temperature=fields.number("temperature", 0, 2) or 0.0,
            seed=fields.integer("seed", 0) or 0,
        )
        solved = await self._played(request.scope[CLIENT], model, asked, exchange)
        if self._parts.recorder is not None:
            header = request.headers.get(RECORD_HEADER)
            trace = replace(solved.episode.trace, client=request.scope[CLIENT].known_as)
            episode = replace(solved.episode, trace=trace)
            exchange.is_recorded = self._parts.recorder.offer(header, episode, solved.task)
        return JSONResponse(_solved_json(solved, model, is_kept=exchange.is_recorded))

    async def _played(
        self, client: Client, model: ServedModel, asked: SolveRequest, exchange: Exchange
    ) -> Solved:
        """The episode, within the client's limits."""
        assert self._parts.solver is not None

        def sampled(tokens: int) -> None:
            spending.sampled(tokens)
            exchange.completion_tokens += tokens
            self._parts.metrics.sampled(model.name, prompt=0, cached=0, completion=tokens)

        with client.admit(model.params.max_tokens) as spending:
            async with self._parts.queue.turn() as exchange.queue_s:
                return await self._parts.solver(model, replace(asked, on_sampled=sampled))

    async def _feedback(self, request: Request, body: dict[str, Any]) -> Response:
        if self._parts.recorder is None:
            sentence = "this server records nothing, so there is nothing to give feedback on"
            raise Refused(404, f"{sentence}; it was started without --record", "not_found_error")
        client: Client = request.scope[CLIENT]
        client.count_request()
        label = await self._parts.recorder.feedback(body, client.known_as)
        return JSONResponse({"trace_id": label.episode_id, "value": label.value})

    async def _health(self, request: Request) -> Response:
        state = self._parts.state
        return JSONResponse({"status": "ok" if state == "ready" else state})

    async def _ready(self, request: Request) -> Response:
        if (state := self._parts.state) != "ready":
            return JSONResponse({"status": state}, 503, {"retry-after": "2"})
        return JSONResponse({"status": "ready", "models": list(self._models_now().names)})

    async def _metrics(self, request: Request) -> Response:
        parts = self._parts
        models = [] if parts.models is None else parts.models.all()
        text = parts.metrics.render(
            waiting=parts.queue.waiting,
            under_way=parts.queue.under_way,
            is_ready=parts.state == "ready",
            weights={model.name: model.fingerprint for model in models},
        )
        return Response(text, media_type=CONTENT_TYPE)


def _json_of(request: Request, body: bytes) -> dict[str, Any]:
    return read_json(body, request.headers.get("content-type", ""))


def _problem_asked(request: Request, body: bytes) -> dict[str, Any]:
    """The fields of a problem, from the URL's query, a body of JSON, or some from each."""
    found = {} if request.query_params and not body else _json_of(request, body)
    for name, value in request.query_params.multi_items():
        if name in found:
            raise Refused(400, f"{name:.80} is given twice; give it once", param=name)
        found[name] = _as_number(value) if name in ("temperature", "seed") else value
    return found


def _as_number(text: str) -> float | str:
    """A number that is written in a query; any other text as it is, to be refused by its name."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _counted(parsed: ParsedRequest, exchange: Exchange, spending: Spending) -> ParsedRequest:
    """The request, which says what it takes of its key's limits while it does.

    The prompt counts once, for however many choices.
    """

    def read(tokens: int) -> None:
        spending.read(tokens - exchange.prompt_tokens)
        exchange.prompt_tokens = tokens

    def sampled(tokens: int) -> None:
        spending.sampled(tokens)
        exchange.completion_tokens += tokens

    return replace(parsed, request=replace(parsed.request, on_prompt=read, on_sampled=sampled))


def _solved_json(solved: Solved, model: ServedModel, *, is_kept: bool) -> dict[str, Any]:
    trace, outcome = solved.episode.trace, solved.episode.outcome
    turns = [trace.nodes[i].messages[-1].content for i in trace.turns]
    return {
        "solution": solved.solution,
        "actions": turns,
        "observations": _observations(trace),
        "rewards": list(outcome.turn_rewards) if outcome else [],
        "reward": solved.episode.score.value,
        "success": outcome.success if outcome else None,
        "failure": trace.failure.message if trace.failure else None,
        "trace_id": trace.id,
        "recorded": is_kept,
        "env": trace.env,
        "model": model.name,
        "system_fingerprint": model.fingerprint,
    }


def _observations(trace: Trace) -> list[str]:
    """What the model was shown after each turn but the last, after which it is shown nothing."""
    seen: list[str] = []
    for message in trace.messages():
        if message.role == "assistant":
            seen.append("")
        elif seen:
            seen[-1] = f"{seen[-1]}\n{message.content}".strip()
    return seen


def serving_app(
    routes: ServingRoutes,
    settings: GatewaySettings,
    parts: ServingParts,
    write_log: Callable[[str], None] | None,
) -> Starlette:
    """The ASGI application of `practicum serve`."""
    pages = console_pages()
    open_paths = OPEN_PATHS | {page.path for page in pages}
    rules = replace(guard_rules(settings, _key_check(parts.keys), open_paths), own_pages=True)
    return dialect_app(
        [*routes.routes(), *pages],
        [
            Middleware(AccessLog, metrics=parts.metrics, write=write_log),
            Middleware(Guard, rules=rules),
        ],
    )


def _key_check(keys: KeyRing) -> Callable[[Scope, Mapping[str, str]], Verdict]:
    def authorize(scope: Scope, headers: Mapping[str, str]) -> Verdict:
        shown = headers.get("x-api-key") or bearer_of(headers.get("authorization", "")) or ""
        client = keys.find(shown)
        if client is None:
            return 401, KEY_REFUSED
        scope[CLIENT] = client
        return 0, ""

    return authorize
