"""The routes of a LifelongAgentBench task server, so that its client needs no change.

Its client has no key and sends the whole record of an episode each time. Nothing in that record
names the episode but the task's name and the sample's index, so an episode is told by these two:
many samples can be under way at once, one episode each; a second reset of the same sample begins it
anew. The original also lets a client read and set any attribute of the server; here a fixed list.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ValidationError

from practicum.core.trace import Message
from practicum.env_server.chat_items import ChatItems
from practicum.env_server.episodes import Episode, Episodes
from practicum.env_server.lifelong_metric import calculate_metric
from practicum.env_server.lifelong_records import (
    AGENT_FAULTS,
    EvaluationOutcome,
    LifelongSession,
    MetricRow,
    SampleStatus,
)
from practicum.env_server.lifelong_samples import Samples
from practicum.env_server.openenv import read_body
from practicum.env_server.refusals import Refusal
from practicum.env_server.replies import Replies

__all__ = ["PATHS", "LifelongRoutes"]

Model = TypeVar("Model", bound=BaseModel)

PREFIX = "/api"
TASK_NAMES = {"shell": "os_interaction"}
"""Our environment, and what that project calls it; its client knows no other three names."""

DEFAULT_TASK_NAME = "os_interaction"
"""For environments that project has no name for: its client can only send one it knows."""

UNLIMITED_ROUNDS = 20
"""Where neither the server nor the environment has a limit: the client itself would never stop."""

RELEASE_IDLE_S = 60.0
"""`release` comes from a client that is done, and says not whose episodes it means: those still in
use by other clients are left alone."""

TASK_NAME_CLASS = "src.typings.general.TaskName"
FACTORY_CLASS = "src.factories.chat_history_item.online.client.ChatHistoryItemFactoryClient"
FACTORY_TIMEOUT_S = 120

PATHS = frozenset(
    f"{PREFIX}/{name}"
    for name in (
        "ping",
        "get_attribute",
        "set_attribute",
        "get_sample_index_list",
        "reset",
        "interact",
        "complete",
        "release",
        "calculate_metric",
    )
)
"""Every route; none asks for a key."""


class _Carried(BaseModel):
    session: LifelongSession


class _Finished(BaseModel):
    session_partial_list: list[MetricRow]


class LifelongRoutes:
    """The routes, over one book of episodes."""

    def __init__(self, episodes: Episodes, items: ChatItems, factory_address: str) -> None:
        self._episodes = episodes
        self._items = items
        self._factory_address = factory_address
        self._samples = Samples(episodes.environment, episodes.settings.samples)
        self._replies: Replies[dict[str, Any]] = Replies()
        self._max_round = episodes.settings.max_turns or UNLIMITED_ROUNDS
        self._task_name = TASK_NAMES.get(episodes.environment.name, DEFAULT_TASK_NAME)

    def router(self) -> APIRouter:
        """All of them."""
        routes = APIRouter(prefix=PREFIX)
        for handle in (
            self.ping,
            self.get_attribute,
            self.set_attribute,
            self.get_sample_index_list,
            self.reset,
            self.interact,
            self.complete,
            self.release,
            self.calculate_metric,
        ):
            routes.post(f"/{handle.__name__}")(handle)
        return routes

    async def ping(self) -> dict[str, str]:
        """The answer that client waits for."""
        return {"response": "Hello, World!"}

    async def get_attribute(self, request: Request) -> dict[str, Any]:
        """One of three values; for any other name what that client takes for "there is none"."""
        name = (await read_body(request)).get("name")
        if name == "task_name":
            return _instance("enum", module=TASK_NAME_CLASS, value=self._task_name)
        if name == "max_round":
            return _instance("simple_immutable_type", type="int", value=str(self._max_round))
        if name == "chat_history_item_factory" and self._factory_address:
            address = {
                "server_address": self._factory_address,
                "request_timeout": FACTORY_TIMEOUT_S,
            }
            return _instance("general", module=FACTORY_CLASS, parameters=address)
        return {"instance_factory_type": None, "instance_factory_parameter_dict": None}

    async def set_attribute(self, request: Request) -> None:
        """Only the limit of rounds, and only to a sensible number."""
        body = await read_body(request)
        given = body.get("instance_factory_parameter_dict")
        text = str(given.get("value")) if isinstance(given, Mapping) else ""
        if body.get("name") != "max_round" or not text.isdigit() or not 1 <= int(text) <= 1000:
            raise Refusal(
                f"{str(body.get('name'))[:40]!r} cannot be set from outside; only max_round can, "
                "to a whole number from 1 to 1000",
                status=403,
                code="VALIDATION_ERROR",
            )
        self._max_round = int(text)

    async def get_sample_index_list(self) -> dict[str, Any]:
        """Every sample there is."""
        return {"sample_index_list": self._samples.indices()}

    async def reset(self, request: Request) -> dict[str, Any]:
        """Open an episode of a sample."""
        session = await self._session(request)
        task = self._samples.task(session.sample_index)
        self._replies.forget(_episode_id(session))
        earlier = self._live(session)
        if earlier is not None:
            await self._episodes.close(earlier)
        try:
            episode = await self._episodes.open(task, _episode_id(session))
            opening: list[Message] = episode.session.prompt()
        except Refusal as refusal:
            if refusal.status != 502:
                raise
            session.end(SampleStatus.TASK_ENVIRONMENT_ERROR, refusal.sentence)
        else:
            session.sample_status = SampleStatus.RUNNING
            for item in self._items.history(opening):
                session.say(item.role, item.content)
        return {"session": session.as_json()}

    async def interact(self, request: Request) -> dict[str, Any]:
        """Carry out the agent's last message, once however often it is sent."""
        session = await self._session(request)
        return await self._once("interact", session, self._interact)

    async def _interact(self, session: LifelongSession) -> dict[str, Any]:
        history = session.chat_history.value
        if not history or history[-1].role != "agent":
            raise Refusal.invalid("the last message of the chat history must be the agent's")
        if session.sample_status in AGENT_FAULTS:
            session.task_output = {}
            return {"session": session.as_json()}
        if session.sample_status != SampleStatus.RUNNING:
            raise Refusal.conflict(f"the session is {session.sample_status}, not running")
        episode = self._live(session)
        try:
            if episode is None:
                raise Refusal.failed("the episode is gone: closed after a long silence, or lost")
            await self._play(session, episode, history[-1].content)
        except Refusal as refusal:
            if refusal.status != 502:
                raise
            session.end(SampleStatus.TASK_ENVIRONMENT_ERROR, refusal.sentence)
        return {"session": session.as_json()}

    async def _once(
        self,
        kind: str,
        session: LifelongSession,
        work: Callable[[LifelongSession], Coroutine[Any, Any, dict[str, Any]]],
    ) -> dict[str, Any]:
        asked = session.model_dump_json()  # its history grows with every turn
        return await self._replies.once(_episode_id(session), kind, asked, lambda: work(session))

    async def _play(self, session: LifelongSession, episode: Episode, text: str) -> None:
        if episode.is_over or episode.turns >= self._max_round:
            reason = f"the limit of {self._max_round} rounds is reached"
            session.end(SampleStatus.TASK_LIMIT_REACHED, reason)
            return
        seen = await self._episodes.act(episode, {"text": text})
        if not seen.terminated:
            session.say("user", seen.message.content)
            return
        found = await self._episodes.outcome(episode)
        named, why = str(found.evidence.get("status")), found.evidence.get("reason")
        status = SampleStatus(named) if named in set(SampleStatus) else SampleStatus.COMPLETED
        session.end(status, str(why) if why else None)

    async def complete(self, request: Request) -> dict[str, Any]:
        """Check what was done, and close the episode."""
        session = await self._session(request)
        return await self._once("complete", session, self._complete)

    async def _complete(self, session: LifelongSession) -> dict[str, Any]:
        if session.sample_status == SampleStatus.RUNNING:
            raise Refusal.conflict("the session is still running; finish it first")
        episode = self._live(session)
        verdict = EvaluationOutcome.UNKNOWN
        try:
            if episode is None:
                raise Refusal.failed("there is no episode to check")
            success = (await self._episodes.outcome(episode)).success
            if success is not None:
                verdict = EvaluationOutcome.CORRECT if success else EvaluationOutcome.INCORRECT
        except Refusal as refusal:
            session.finish_reason = "; ".join(filter(None, (session.finish_reason, str(refusal))))
        finally:
            if episode is not None:
                await self._episodes.close(episode)
        session.evaluation_record.outcome = verdict
        return {"session": session.as_json()}

    async def release(self) -> None:
        """A client is done; episodes that others are using stay."""
        await self._episodes.close_idle(RELEASE_IDLE_S)

    async def calculate_metric(self, request: Request) -> dict[str, Any]:
        """Figures over the episodes a client has finished."""
        rows = _parsed(_Finished, await read_body(request)).session_partial_list
        metric = calculate_metric(
            rows,
            lambda row: self._samples.skills(row.sample_index),
            lambda row: self._samples.task(row.sample_index).level,
            self._samples.all_skills(),
        )
        return {"metric": metric}

    async def _session(self, request: Request) -> LifelongSession:
        session = _parsed(_Carried, await read_body(request)).session
        if session.task_name != self._task_name:
            raise Refusal.invalid(
                f"task_name {session.task_name[:40]!r} is not served here; it is "
                f"{self._task_name!r}"
            )
        return session

    def _live(self, session: LifelongSession) -> Episode | None:
        try:
            return self._episodes.get(_episode_id(session))
        except Refusal:
            return None


def _episode_id(session: LifelongSession) -> str:
    return f"lifelong/{session.task_name}/{session.sample_index}"


def _instance(kind: str, **fields: Any) -> dict[str, Any]:
    return {"instance_factory_type": kind, "instance_factory_parameter_dict": fields}


def _parsed(model: type[Model], values: Mapping[str, Any]) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Refusal.invalid(f"{where}: {first['msg'].lower()}") from None
