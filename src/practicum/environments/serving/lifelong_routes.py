"""The routes of a LifelongAgentBench task server, so that its client works unchanged.

That client repeats a request after a timeout or a broken connection, so each request is carried out
only once (`Replies`): else a command would run twice, or a verdict would be lost.

It sends no key, and the whole record of an episode each time. Only the task's name and the sample's
index in it identify the episode: so each sample has at most one live episode, and a second reset of
a sample starts it again. The original server lets a client read and set any of its attributes; here
there is a fixed list, since anybody who reaches the port is a client.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ValidationError

from practicum.core.capabilities import every_task
from practicum.core.interfaces import Environment
from practicum.core.task import Split, Task
from practicum.core.trace import Message
from practicum.environments.serving.env_records import Refusal
from practicum.environments.serving.lifelong_chat import (
    AGENT_FAULTS,
    PREFIX,
    ChatItems,
    EvaluationOutcome,
    LifelongSession,
    MetricRow,
    SampleStatus,
)
from practicum.environments.serving.openenv import read_body
from practicum.environments.serving.served_episodes import ServedEpisode, ServedEpisodes

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)

TASK_NAMES = {"shell": "os_interaction"}
"""LifelongAgentBench's name of an environment; its client accepts only its own three names."""

DEFAULT_TASK_NAME = "os_interaction"
"""For all other environments: its client can only send a name that it knows."""

UNLIMITED_ROUNDS = 20
"""Turn limit where the server has none: the client itself would never stop."""

RELEASE_IDLE_S = 60.0
"""`release` does not say which client it comes from, so only episodes idle for so long are closed:
those of other clients stay."""

TASK_NAME_CLASS = "src.typings.general.TaskName"
FACTORY_CLASS = "src.factories.chat_history_item.online.client.ChatHistoryItemFactoryClient"
FACTORY_TIMEOUT_S = 120

ROUTES = (
    *("ping", "get_attribute", "set_attribute", "get_sample_index_list"),
    *("reset", "interact", "complete", "release", "calculate_metric"),
)
PATHS = frozenset(f"{PREFIX}/{name}" for name in ROUTES)
"""Every route; none needs a key."""


class _SessionBody(BaseModel):
    session: LifelongSession


class _MetricBody(BaseModel):
    session_partial_list: list[MetricRow]


class LifelongRoutes:
    """The routes over the live episodes of a server."""

    def __init__(self, episodes: ServedEpisodes, items: ChatItems, factory_address: str) -> None:
        self._episodes = episodes
        self._items = items
        self._factory_address = factory_address
        self._samples = Samples(episodes.environment, episodes.settings.samples)
        self._replies: Replies[dict[str, Any]] = Replies()
        self._max_round = episodes.settings.max_turns or UNLIMITED_ROUNDS
        self._task_name = TASK_NAMES.get(episodes.environment.name, DEFAULT_TASK_NAME)

    def router(self) -> APIRouter:
        """All routes."""
        routes = APIRouter(prefix=PREFIX)
        for name in ROUTES:
            routes.post(f"/{name}")(getattr(self, name))
        return routes

    async def ping(self) -> dict[str, str]:
        """The answer that the client waits for."""
        return {"response": "Hello, World!"}

    async def get_attribute(self, request: Request) -> dict[str, Any]:
        """One of three values; for any other name, the client's encoding of "no such attribute"."""
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
        """Sets the limit of rounds, the only attribute that can be set."""
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
        """The indices of all samples."""
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
        """Carry out the agent's last message; only once if the request is repeated."""
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
        asked = session.model_dump_json()  # differs in every turn, as the history grows
        return await self._replies.once(_episode_id(session), kind, asked, lambda: work(session))

    async def _play(self, session: LifelongSession, episode: ServedEpisode, text: str) -> None:
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
        """Check the task and close the episode."""
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
        """A client is done: close the episodes that nobody uses."""
        await self._episodes.close_idle(RELEASE_IDLE_S)

    async def calculate_metric(self, request: Request) -> dict[str, Any]:
        """Metrics over the episodes that a client has finished."""
        rows = _parsed(_MetricBody, await read_body(request)).session_partial_list
        metric = calculate_metric(
            rows,
            lambda row: self._samples.skills(row.sample_index),
            lambda row: self._samples.task(row.sample_index).level,
            self._samples.all_skills(),
        )
        return {"metric": metric}

    async def _session(self, request: Request) -> LifelongSession:
        session = _parsed(_SessionBody, await read_body(request)).session
        if session.task_name != self._task_name:
            raise Refusal.invalid(
                f"task_name {session.task_name[:40]!r} is not served here; it is "
                f"{self._task_name!r}"
            )
        return session

    def _live(self, session: LifelongSession) -> ServedEpisode | None:
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


FROM_FILE = "lab-"
"""Prefix of the ids of tasks from a LifelongAgentBench file; the rest is their index there."""

SPLITS: tuple[Split, ...] = ("train", "heldout")


class Samples:
    """The tasks that a client sees, by index; at most `most`."""

    def __init__(self, environment: Environment, most: int) -> None:
        self._environment = environment
        self._most = most
        self._tasks: dict[str, Task] | None = None

    def indices(self) -> list[str]:
        """Every index; sorted if all are numbers."""
        return list(self._all())

    def task(self, index: int | str) -> Task:
        """The task with an index."""
        found = self._all().get(str(index))
        if found is None:
            raise Refusal.unknown(
                f"there is no sample {str(index)[:80]!r}; /api/get_sample_index_list lists them"
            )
        return found

    def skills(self, index: int | str) -> list[str]:
        """The skills of a task; none where the environment names none."""
        listed = self.task(index).data.get("skills") or self.task(index).data.get("skill_list")
        return [str(skill) for skill in listed] if isinstance(listed, list) else []

    def all_skills(self) -> set[str]:
        """Every skill of any task."""
        return {skill for index in self._all() for skill in self.skills(index)}

    def _all(self) -> dict[str, Task]:
        if self._tasks is None:
            every = every_task(self._environment)
            tasks = self._both_splits() if every is None else islice(every, self._most)
            found = {_index(task): task for task in tasks}
            if all(index.isdigit() for index in found):
                found = dict(sorted(found.items(), key=lambda pair: int(pair[0])))
            self._tasks = found
        return self._tasks

    def _both_splits(self) -> Iterator[Task]:
        """Training and held-out tasks alternately: LifelongAgentBench has no splits."""
        streams = [_distinct(self._environment.tasks(s, 0), self._most) for s in SPLITS]
        given = 0
        while streams and given < self._most:
            for stream in list(streams):
                task = next(stream, None)
                if task is None:
                    streams.remove(stream)
                elif given < self._most:
                    given += 1
                    yield task


def _distinct(tasks: Iterable[Task], most: int) -> Iterator[Task]:
    """Each task once, from an iterator that may repeat without end."""
    seen: set[str] = set()
    for task in islice(tasks, 4 * most):
        if task.id not in seen:
            seen.add(task.id)
            yield task


def _index(task: Task) -> str:
    """The index in the user's file where the task comes from one, or else the task's id."""
    return task.id.removeprefix(FROM_FILE)


MOST_EPISODES = 4096
"""Episodes whose last answers are kept; older ones are dropped."""


class Replies(Generic[T]):
    """The last answer to each kind of request, by episode: makes repeated requests idempotent."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, dict[str, tuple[str, asyncio.Task[T]]]] = OrderedDict()

    async def once(
        self, owner: str, kind: str, asked: str, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """Run `work`, or return the result (also one still pending) of the same request before.

        The task is shielded: a client that disconnects and repeats finds it still running. Work
        that fails is not kept, so it can be retried.
        """
        kept = self._kept.setdefault(owner, {})
        self._kept.move_to_end(owner)
        before = kept.get(kind)
        if before is None or before[0] != asked:
            before = kept[kind] = (asked, asyncio.create_task(work()))
        while len(self._kept) > MOST_EPISODES:
            self._kept.popitem(last=False)
        try:
            return await asyncio.shield(before[1])
        except Exception:
            if kept.get(kind) is before:
                del kept[kind]
            raise

    def forget(self, owner: str) -> None:
        """Drop the answers of an episode, as a new one starts under the same name."""
        self._kept.pop(owner, None)


Figures = dict[str, dict[str, float]]

NO_RATE = -1.0
"""LifelongAgentBench's value for the success rate of a skill without episodes."""


def calculate_metric(
    rows: Sequence[MetricRow],
    skills_of: Callable[[MetricRow], Sequence[str]],
    level_of: Callable[[MetricRow], int],
    all_skills: Iterable[str],
) -> dict[str, Figures]:
    """Success rates by skill, by level and overall, and the shares of outcomes and statuses.

    A sample counts for each of its skills. LifelongAgentBench also counts "effective" skills; here
    all of them are.
    """
    by_skill = _success(rows, skills_of, sorted(set(all_skills)))
    effective = {f"effective_{name}": dict(figures) for name, figures in by_skill.items()}
    levels = sorted({level_of(row) for row in rows})
    by_level = _success(rows, lambda row: [str(level_of(row))], [str(level) for level in levels])
    return {
        "skill": {**by_skill, **effective},
        "difficulty_level": by_level,
        "overall": _overall(rows),
    }


def _success(
    rows: Sequence[MetricRow],
    labels_of: Callable[[MetricRow], Sequence[str]],
    labels: Sequence[str],
) -> Figures:
    count: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for row in rows:
        found = labels_of(row)
        count.update(found)
        if row.evaluation_record.outcome == EvaluationOutcome.CORRECT:
            correct.update(found)
    return {
        "count_dict": {label: float(count[label]) for label in labels},
        "correct_count_dict": {label: float(correct[label]) for label in labels},
        "correct_rate_dict": {
            label: correct[label] / count[label] if count[label] else NO_RATE for label in labels
        },
    }


def _overall(rows: Sequence[MetricRow]) -> Figures:
    figures: Figures = {"basic": {"session_count": float(len(rows))}}
    if rows:
        outcomes = Counter(str(row.evaluation_record.outcome) for row in rows)
        statuses = Counter(str(row.sample_status) for row in rows)
        figures["evaluation_outcome"] = _shares(outcomes, [str(o) for o in EvaluationOutcome])
        figures["sample_status"] = _shares(statuses, [str(s) for s in SampleStatus])
    return figures


def _shares(counts: Mapping[str, int], labels: Sequence[str]) -> dict[str, float]:
    total = sum(counts.values())
    return {label: counts.get(label, 0) / total for label in labels}
