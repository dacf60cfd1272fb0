"""OpenEnv's reset, step and state, and what Practicum's own client asks besides.

Over WebSocket an episode belongs to its connection, as OpenEnv's client expects. Over HTTP it is
told by its id: `reset` gives it, `step` and `state` send it back.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse

from practicum.core.task import JSON, Outcome
from practicum.env_server.episodes import Episode, Episodes
from practicum.env_server.records import observation_json, outcome_json, task_json
from practicum.env_server.refusals import Refusal
from practicum.env_server.task_pages import TaskPages

__all__ = ["PROTOCOL", "OpenEnvRoutes", "read_body"]

PROTOCOL = 1
"""Version of what our client and our server say to each other beyond OpenEnv."""

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
    """A request's JSON object; an empty body is an empty one."""
    raw = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if raw and kind != "application/json":
        raise Refusal.invalid("the body must be JSON, sent as `Content-Type: application/json`")
    try:
        values = json.loads(raw) if raw else {}
    except (ValueError, RecursionError):
        raise Refusal.invalid("the body is not valid JSON") from None
    if not isinstance(values, dict):
        raise Refusal.invalid("the body must be a JSON object")
    return values


class OpenEnvRoutes:
    """The routes, over one book of episodes."""

    def __init__(self, episodes: Episodes, pages: TaskPages, version: str) -> None:
        self._episodes = episodes
        self._pages = pages
        self._version = version

    def router(self) -> APIRouter:
        """All of them."""
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
            routes.post(path)(_taking_json(handle))
        routes.websocket("/ws")(self.socket)
        return routes

    async def health(self) -> dict[str, str]:
        """Whether the server answers; the one route without a key."""
        return {"status": "healthy"}

    async def metadata(self) -> dict[str, JSON]:
        """What is served, as OpenEnv describes it."""
        name = self._episodes.environment.name
        return {
            "name": name,
            "description": f"The Practicum environment {name!r}.",
            "version": self._version,
        }

    async def schema(self) -> dict[str, JSON]:
        """What actions, observations and states look like."""
        return {"action": TURN_ACTION, "observation": OBSERVATION, "state": STATE}

    async def practicum(self) -> dict[str, JSON]:
        """What tells our client that it may ask for more than OpenEnv has."""
        environment = self._episodes.environment
        return {
            "protocol": PROTOCOL,
            "env": environment.name,
            "session_kind": getattr(environment, "session_kind", "discrete"),
            "default_reward": getattr(environment, "default_reward", "turns"),
            "sandbox_kind": getattr(environment, "sandbox_kind", ""),
            "episodes": len(self._episodes),
            "max_episodes": self._episodes.settings.max_episodes,
        }

    async def tasks(
        self, split: str = "train", seed: int = 0, offset: int = 0, count: int = 50
    ) -> dict[str, JSON]:
        """A page of tasks."""
        found = self._pages.page(split, seed, offset, count)
        return {"tasks": [task_json(task) for task in found]}

    async def find(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """One task by its id, or by what the environment makes of a text."""
        return {"task": task_json(self._pages.find(str(body.get("text", ""))))}

    async def reference(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """The turns that solve a task."""
        task = self._pages.choose(body)
        return {"turns": list(self._episodes.environment.reference(task))}

    async def reset(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """Open an episode."""
        episode = await self.open_episode(body)
        return _result(episode.opening, None, False)

    async def step(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """One turn of the episode the body names."""
        action = body.get("action")
        if not isinstance(action, dict):
            raise Refusal.invalid('a step is {"episode_id": "...", "action": {"text": "..."}}')
        return await self.take_turn(self._named(body), action)

    async def state(self, episode_id: str = "") -> dict[str, JSON]:
        """Where an episode stands."""
        return _state(self._named({"episode_id": episode_id}))

    async def outcome(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """End an episode and give its evidence."""
        episode = self._named(body)
        found = outcome_json(await self._episodes.outcome(episode))
        await self._episodes.close(episode)
        return found

    async def close(self, body: Mapping[str, Any]) -> dict[str, JSON]:
        """End an episode that nobody wants to know about."""
        episode = self._named(body)
        await self._episodes.close(episode)
        return {"closed": episode.id}

    def _named(self, body: Mapping[str, Any]) -> Episode:
        named = body.get("episode_id")
        if not isinstance(named, str) or not named:
            raise Refusal.invalid("episode_id is missing; reset gives it in its observation")
        return self._episodes.get(named)

    async def open_episode(self, wishes: Mapping[str, Any]) -> Episode:
        """An episode of the task that is wished for, under the id that is wished for."""
        wanted = wishes.get("episode_id")
        task = self._pages.choose(wishes)
        return await self._episodes.open(task, None if wanted is None else str(wanted))

    async def take_turn(self, episode: Episode, action: Mapping[str, Any]) -> dict[str, JSON]:
        """A turn and its pay.

        Where turns are not paid, the last one pays for the whole episode: 1 if the task was done,
        0 if it was not, nothing if that cannot be said.
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
        """One connection, one episode at a time; it ends with the connection."""
        await socket.accept()
        line = _Line(self, self._episodes)
        try:
            while (said := await _heard(socket)) is not None:
                answer = await line.answer(said)
                if answer is None:
                    await socket.close()
                    return
                await socket.send_text(json.dumps(answer, ensure_ascii=False))
        except WebSocketDisconnect:
            return
        finally:
            await line.hang_up()


async def _heard(socket: WebSocket) -> str | None:
    """The next message; None when the client is gone or sends what is no text."""
    try:
        return await socket.receive_text()
    except (WebSocketDisconnect, KeyError):
        return None


class _Line:
    """What one WebSocket connection says and is told."""

    def __init__(self, routes: OpenEnvRoutes, episodes: Episodes) -> None:
        self._routes = routes
        self._episodes = episodes
        self._episode: Episode | None = None

    async def answer(self, raw: str) -> dict[str, JSON] | None:
        """The answer to one message; None when the client says it is done."""
        try:
            message = json.loads(raw)
        except (ValueError, RecursionError):
            return _error(Refusal("that is not valid JSON", status=422, code="INVALID_JSON"))
        try:
            if not isinstance(message, dict) or not isinstance(message.get("data", {}), dict):
                raise Refusal.invalid('a message is {"type": "...", "data": {...}}')
            if message.get("type") == "close":
                return None
            return await self._carry_out(str(message.get("type")), message.get("data", {}))
        except Refusal as refusal:
            return _error(refusal)

    async def _carry_out(self, kind: str, data: dict[str, Any]) -> dict[str, JSON]:
        if kind == "reset":
            await self.hang_up()
            self._episode = await self._routes.open_episode(data)
            return _observed(_result(self._episode.opening, None, False))
        if kind == "step":
            return _observed(await self._routes.take_turn(self._live(), data))
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

    def _live(self) -> Episode:
        if self._episode is None:
            raise Refusal.conflict("no episode is open on this connection; send reset first")
        return self._episodes.get(self._episode.id)

    async def hang_up(self) -> None:
        """End the connection's episode, if it has one."""
        if self._episode is not None:
            await self._episodes.close(self._episode)
            self._episode = None


def _taking_json(
    handle: Callable[[Mapping[str, Any]], Awaitable[dict[str, JSON]]],
) -> Callable[[Request], Awaitable[JSONResponse]]:
    async def endpoint(request: Request) -> JSONResponse:
        return JSONResponse(await handle(await read_body(request)))

    return endpoint


def _final_reward(outcome: Outcome, last_pay: float | None) -> float | None:
    if outcome.turn_rewards:
        return last_pay
    return None if outcome.success is None else float(outcome.success)


def _result(observation: dict[str, JSON], reward: float | None, done: bool) -> dict[str, JSON]:
    return {"observation": observation, "reward": reward, "done": done}


def _observed(result: dict[str, JSON]) -> dict[str, JSON]:
    return {"type": "observation", "data": result}


def _state(episode: Episode | None) -> dict[str, JSON]:
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
