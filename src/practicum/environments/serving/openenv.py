"""The routes of OpenEnv (reset, step, state) and those of Practicum's own client.

Over WebSocket an episode belongs to its connection, as OpenEnv's client expects. Over HTTP it is
identified by its id: `reset` returns it, `step` and `state` send it.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

from fastapi import APIRouter, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse

from practicum.core.capabilities import FindsTasks, default_reward, sandbox_kind, session_kind
from practicum.core.errors import PracticumError, UserError
from practicum.core.interfaces import Environment
from practicum.core.task import JSON, Outcome, Split, Task
from practicum.core.user_code import call_in_thread
from practicum.environments.serving.env_records import (
    Refusal,
    observation_json,
    outcome_json,
    task_from,
)
from practicum.environments.serving.served_episodes import ServedEpisode, ServedEpisodes
from practicum.gateway.json_body import NoObject, NotAnObject, parse_object

T = TypeVar("T")

OPEN_STREAMS = 16
"""Task iterators kept at their position for the next page; an older one starts again."""

LONGEST_PAGE = 500

FURTHEST_SKIP = 100_000
"""Most tasks that are generated only to be passed over, for one page."""

PAGE_S = 30.0
"""Seconds in which a page or a task must be found; the event loop goes on meanwhile."""

UNREADABLE = (UserError, LookupError, TypeError, ValueError)
"""How an environment fails at a task that a client made up: the client's mistake."""


class TaskPages:
    """Pages of an environment's tasks; reading page by page generates each task only once."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._streams: OrderedDict[tuple[str, int, int], Iterator[Task]] = OrderedDict()
        self._next: dict[str, Iterator[Task]] = {}
        self._one_at_a_time = Lock()

    async def find_off_loop(self, look_up: Callable[[], T]) -> T:
        """What a method of this class finds, in a thread and within `PAGE_S`.

        Generating tasks is plain computation of the environment: on the event loop it would hold
        up every episode, and the signals that end the server.
        """

        def work() -> T:
            if not self._one_at_a_time.acquire(timeout=PAGE_S):
                raise TimeoutError
            try:
                return look_up()
            finally:
                self._one_at_a_time.release()

        try:
            async with asyncio.timeout(PAGE_S):
                return await call_in_thread(work)
        except TimeoutError:
            raise Refusal.failed(f"the tasks were not found within {PAGE_S:g} s") from None

    def page(self, split: str, seed: int, offset: int, count: int) -> list[Task]:
        """Tasks `offset` to `offset + count` of a stream; fewer where it ends."""
        chosen = _split(split)
        if offset < 0 or not 1 <= count <= LONGEST_PAGE:
            raise Refusal.invalid(f"offset must be 0 or more and count 1 to {LONGEST_PAGE}")
        stream = self._streams.pop((split, seed, offset), None)
        if stream is None:
            stream = self._stream_at(chosen, seed, offset)
        tasks = list(islice(stream, count))
        self._streams[split, seed, offset + count] = stream
        while len(self._streams) > OPEN_STREAMS:
            self._streams.popitem(last=False)
        return tasks

    def _stream_at(self, split: Split, seed: int, offset: int) -> Iterator[Task]:
        if offset > FURTHEST_SKIP:
            raise Refusal.invalid(
                f"offset {offset} lies more than {FURTHEST_SKIP} tasks ahead of what was read; "
                "read the pages before it first"
            )
        return islice(self._environment.tasks(split, seed), offset, None)

    def choose(self, request: Mapping[str, Any]) -> Task:
        """The task of a request: a whole `task`, a `task_id`, or a `seed` and `split`.

        A seed always gives the same task; without one, each request gets the next task.
        """
        if "task" in request:
            return task_from(request["task"], self._environment.name)
        if "task_id" in request:
            return self.find(str(request["task_id"]))
        seed, split = request.get("seed"), _split(request.get("split", "train"))
        if isinstance(seed, bool) or not isinstance(seed, int | None):
            raise Refusal.invalid("seed must be a whole number")
        if seed is not None:
            found = next(iter(self.page(split, seed, 0, 1)), None)
        else:
            found = next(self._next.setdefault(split, iter(())), None)
            if found is None:  # none was given yet, or all were: start again
                self._next[split] = self._stream_at(split, 0, 0)
                found = next(self._next[split], None)
        if found is None:
            raise Refusal.unknown(f"there are no {split} tasks with these options")
        return found

    def find(self, text: str) -> Task:
        """The task with an id, or one the environment makes from a text."""
        environment = self._environment
        if not isinstance(environment, FindsTasks):
            raise Refusal.invalid(
                f"{environment.name!r} cannot look up tasks by id; send a whole task, as "
                "GET /tasks gives it"
            )
        try:
            return environment.find(text)
        except (PracticumError, ValueError, KeyError) as error:
            raise Refusal.unknown(f"no task {text[:80]!r}: {error}") from None


def _split(named: object) -> Split:
    if named == "train":
        return "train"
    if named == "heldout":
        return "heldout"
    raise Refusal.invalid(f"split {str(named)[:40]!r} is none; ask for train or heldout")


PROTOCOL = 1
"""Version of Practicum's extension of OpenEnv; must equal the client's."""

TURN_ACTION: dict[str, JSON] = {
    "type": "object",
    "description": "What the policy does: a text, or a call of one of the tools that reset lists.",
    "properties": {
        "text": {"type": "string"},
        "tool": {"type": "string"},
        "arguments": {"type": "object"},
        "id": {"type": "string"},
        "metadata": {"type": "object"},
    },
}
OBSERVATION: dict[str, JSON] = {
    "type": "object",
    "properties": {
        "episode_id": {"type": "string"},
        "task_id": {"type": "string"},
        "messages": {"type": "array", "description": "What the policy sees; after a step, news."},
        "actions": {"type": "array", "items": {"type": "string"}},
        "tools": {"type": "array"},
        "paid": {"type": ["number", "null"]},
        "outcome": {"type": "object", "description": "The evidence, once the episode is over."},
    },
}
STATE: dict[str, JSON] = {
    "type": "object",
    "properties": {
        "episode_id": {"type": ["string", "null"]},
        "step_count": {"type": "integer"},
        "task_id": {"type": "string"},
        "is_over": {"type": "boolean"},
    },
}


async def read_body(request: Request) -> dict[str, Any]:
    """A request's JSON object; {} for an empty body.

    The content type must be JSON: a web page can send other types to a local server without a CORS
    preflight, and so from a browser that happens to run on this machine.
    """
    raw = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if raw and kind != "application/json":
        raise Refusal.invalid("the body must be JSON, sent as `Content-Type: application/json`")
    try:
        return parse_object(raw) if raw else {}
    except NoObject as error:
        raise Refusal.invalid(str(error)) from None


class OpenEnvRoutes:
    """The routes over the live episodes of a server."""

    def __init__(self, episodes: ServedEpisodes, pages: TaskPages, version: str) -> None:
        self._episodes = episodes
        self._pages = pages
        self._version = version

    def router(self) -> APIRouter:
        """All routes."""
        routes = APIRouter()
        routes.get("/health")(self.health)
        routes.get("/metadata")(self.metadata)
        routes.get("/schema")(self.schema)
        routes.get("/practicum")(self.practicum)
        routes.get("/tasks")(self.tasks)
        routes.get("/state")(self.state)
        posts: dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, JSON]]]] = {
            "/tasks/find": self.find,
            "/tasks/reference": self.reference,
            "/reset": self.reset,
            "/step": self.step,
            "/outcome": self.outcome,
            "/close": self.close,
        }
        for path, handle in posts.items():
            routes.post(path)(_json_endpoint(handle))
        routes.websocket("/ws")(self.socket)
        return routes

    async def health(self) -> dict[str, str]:
        """Whether the server answers; the one route without a key."""
        return {"status": "healthy"}

    async def metadata(self) -> dict[str, JSON]:
        """Name and version, as in OpenEnv."""
        name = self._episodes.environment.name
        return {
            "name": name,
            "description": f"The Practicum environment {name!r}.",
            "version": self._version,
        }

    async def schema(self) -> dict[str, JSON]:
        """JSON schemas of actions, observations and states."""
        return {"action": TURN_ACTION, "observation": OBSERVATION, "state": STATE}

    async def practicum(self) -> dict[str, JSON]:
        """Identifies a Practicum server and describes its environment."""
        environment = self._episodes.environment
        return {
            "protocol": PROTOCOL,
            "env": environment.name,
            "session_kind": session_kind(environment),
            "default_reward": default_reward(environment),
            "sandbox_kind": sandbox_kind(environment),
            "episodes": len(self._episodes),
            "max_episodes": self._episodes.settings.max_episodes,
        }

    async def tasks(
        self, split: str = "train", seed: int = 0, offset: int = 0, count: int = 50
    ) -> dict[str, JSON]:
        """A page of tasks."""
        found = await self._pages.find_off_loop(
            lambda: self._pages.page(split, seed, offset, count)
        )
        return {"tasks": [task.to_json() for task in found]}

    async def find(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """One task by its id or by a text."""
        text = str(body.get("text", ""))
        return {"task": (await self._pages.find_off_loop(lambda: self._pages.find(text))).to_json()}

    async def reference(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """The turns that solve a task."""

        def solve() -> list[str]:
            task = self._pages.choose(body)
            return list(self._episodes.environment.reference(task))

        return {"turns": list(await self._pages.find_off_loop(solve))}

    async def reset(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """Open an episode."""
        episode = await self.open_episode(body)
        return _result(episode.first_observation, None, False)

    async def step(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """One turn of the episode the body names."""
        action = body.get("action")
        if not isinstance(action, dict):
            raise Refusal.invalid('a step is {"episode_id": "...", "action": {"text": "..."}}')
        return await self.take_turn(self._episode_of(body), action)

    async def state(self, episode_id: str = "") -> dict[str, JSON]:
        """The state of an episode."""
        return _state(self._episode_of({"episode_id": episode_id}))

    async def outcome(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """End an episode and return its outcome."""
        episode = self._episode_of(body)
        found = outcome_json(await self._episodes.outcome(episode))
        await self._episodes.close(episode)
        return found

    async def close(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """End an episode without a check."""
        episode = self._episode_of(body)
        await self._episodes.close(episode)
        return {"closed": episode.id}

    def _episode_of(self, body: Mapping[str, Any]) -> ServedEpisode:
        named = body.get("episode_id")
        if not isinstance(named, str) or not named:
            raise Refusal.invalid("episode_id is missing; reset gives it in its observation")
        return self._episodes.get(named)

    async def open_episode(self, request: Mapping[str, Any]) -> ServedEpisode:
        """Open an episode of the requested task, under the requested id."""
        episode_id = request.get("episode_id")
        task = await self._pages.find_off_loop(lambda: self._pages.choose(request))
        named = None if episode_id is None else str(episode_id)
        try:
            return await self._episodes.open(task, named)
        except Refusal as refusal:
            if "task" in request and isinstance(refusal.__cause__, UNREADABLE):
                raise Refusal.invalid(f"the task cannot be read: {refusal.sentence}") from refusal
            raise

    async def take_turn(self, episode: ServedEpisode, action: Mapping[str, Any]) -> dict[str, JSON]:
        """One turn and its reward.

        Where turns have no rewards, the last one gets the reward of the episode: 1 for success, 0
        for failure, None if that is unknown.
        """
        seen = await self._episodes.act(episode, action)
        shown = observation_json(seen)
        reward = seen.reward
        observation: dict[str, JSON] = {
            "episode_id": episode.id,
            "task_id": episode.task.id,
            "messages": [shown["message"]],
            "paid": shown["paid"],
            "actions": list(episode.action_names()),
        }
        if episode.is_over:
            found = await self._episodes.outcome(episode)
            observation["outcome"] = outcome_json(found)
            reward = _final_reward(found, reward)
        return _result(observation, reward, episode.is_over)

    async def socket(self, socket: WebSocket) -> None:
        """Serve one WebSocket connection: one episode at a time, closed with the connection."""
        await socket.accept()
        connection = _Connection(self, self._episodes)
        try:
            while (message := await _receive(socket)) is not None:
                answer = await connection.answer(message)
                if answer is None:
                    await socket.close()
                    return
                await socket.send_text(json.dumps(answer, ensure_ascii=False))
        except WebSocketDisconnect:
            return
        finally:
            await connection.close_episode()


async def _receive(socket: WebSocket) -> str | None:
    """The next message; None when the client is gone or sends binary data."""
    try:
        return await socket.receive_text()
    except (WebSocketDisconnect, KeyError):
        return None


class _Connection:
    """The messages of one WebSocket connection."""

    def __init__(self, routes: OpenEnvRoutes, episodes: ServedEpisodes) -> None:
        self._routes = routes
        self._episodes = episodes
        self._episode: ServedEpisode | None = None

    async def answer(self, raw: str) -> dict[str, JSON] | None:
        """The answer to one message; None to `close`."""
        try:
            message = parse_object(raw.encode())
        except NotAnObject:
            message = {"data": None}
        except NoObject as error:
            return _error(Refusal(str(error), status=422, code="INVALID_JSON"))
        try:
            if not isinstance(message.get("data", {}), dict):
                raise Refusal.invalid('a message is {"type": "...", "data": {...}}')
            if message.get("type") == "close":
                return None
            return await self._carry_out(str(message.get("type")), message.get("data", {}))
        except Refusal as refusal:
            return _error(refusal)

    async def _carry_out(self, kind: str, data: dict[str, Any]) -> dict[str, JSON]:
        if kind == "reset":
            await self.close_episode()
            self._episode = await self._routes.open_episode(data)
            return _observation_message(_result(self._episode.first_observation, None, False))
        if kind == "step":
            return _observation_message(await self._routes.take_turn(self._live(), data))
        if kind == "state":
            return {"type": "state", "data": _state(self._episode)}
        if kind == "outcome":
            found = await self._episodes.outcome(self._live())
            return {"type": "outcome", "data": outcome_json(found)}
        raise Refusal(
            f"unknown message type {kind[:40]!r}; known are reset, step, state, outcome and close",
            status=422,
            code="UNKNOWN_TYPE",
        )

    def _live(self) -> ServedEpisode:
        if self._episode is None:
            raise Refusal.conflict("no episode is open on this connection; send reset first")
        return self._episodes.get(self._episode.id)

    async def close_episode(self) -> None:
        """Close the connection's episode, if it has one."""
        if self._episode is not None:
            await self._episodes.close(self._episode)
            self._episode = None


def _json_endpoint(
    handle: Callable[[Mapping[str, Any]], Awaitable[dict[str, JSON]]],
) -> Callable[[Request], Awaitable[JSONResponse]]:
    async def endpoint(request: Request) -> JSONResponse:
        return JSONResponse(await handle(await read_body(request)))

    return endpoint


def _final_reward(outcome: Outcome, last_reward: float | None) -> float | None:
    if outcome.turn_rewards:
        return last_reward
    return None if outcome.success is None else float(outcome.success)


def _result(observation: dict[str, JSON], reward: float | None, done: bool) -> dict[str, JSON]:
    return {"observation": observation, "reward": reward, "done": done}


def _observation_message(result: dict[str, JSON]) -> dict[str, JSON]:
    return {"type": "observation", "data": result}


def _state(episode: ServedEpisode | None) -> dict[str, JSON]:
    if episode is None:
        return {"episode_id": None, "step_count": 0}
    return {
        "episode_id": episode.id,
        "step_count": episode.turns,
        "task_id": episode.task.id,
        "is_over": episode.is_over,
    }


def _error(refusal: Refusal) -> dict[str, JSON]:
    return {"type": "error", "data": {"message": refusal.sentence, "code": refusal.code}}
