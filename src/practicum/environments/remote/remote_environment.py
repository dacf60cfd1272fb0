"""The `remote` environment: its episodes run on a server, ours or any OpenEnv server.

Everything that the server sends is checked. Malformed data (a reward that is no number, a message
without text, turns after the end) is an `EnvironmentFailure`, which masks the episode; it never
becomes a reward.
"""

import asyncio
import hashlib
import json
import math
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar, get_args
from urllib.parse import urlencode

from practicum.core.capabilities import (
    PAID_BY_TURN,
    FindsTasks,
    SessionKind,
    default_reward,
    session_kind,
)
from practicum.core.errors import ConfigError, EnvironmentFailure, UserError
from practicum.core.interfaces import Environment, Observation
from practicum.core.network_thread import NetworkThread
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome, Split, Task
from practicum.core.trace import Message, Role, ToolCall, ToolSpec
from practicum.environments.remote.servers import RemoteOptions, Server, ServerInstance, make_server
from practicum.environments.remote.wire import (
    EpisodeSocket,
    ServerBusy,
    connect,
    http_request,
)


def read_number(value: Any, what: str) -> float | None:
    """A finite number or None. OpenEnv allows booleans: True is 1, False is 0."""
    if value is None:
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise EnvironmentFailure(f"the server gave {value!r} as {what}, which is no number")
    return float(value)


def read_texts(value: Any, what: str) -> tuple[str, ...]:
    """A list of strings."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise EnvironmentFailure(f"the server gave no list of texts as {what}")
    return tuple(value)


def read_messages(value: Any) -> list[Message]:
    """The messages that the policy sees; at least one."""
    if not isinstance(value, list) or not value:
        raise EnvironmentFailure("the server showed no messages")
    return [_message(one) for one in value]


def _message(value: Any) -> Message:
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    role: Any = fields.get("role")
    content, call = fields.get("content"), fields.get("tool_call_id")
    if role not in get_args(Role) or not isinstance(content, str):
        raise EnvironmentFailure(f"the server's message {str(value)[:80]!r} cannot be read")
    return Message(role=role, content=content, tool_call_id=call if isinstance(call, str) else None)


def read_tools(value: Any) -> list[ToolSpec]:
    """The tools of an episode."""
    tools = []
    for one in value if isinstance(value, list) else [None]:
        fields: Mapping[str, Any] = one if isinstance(one, Mapping) else {}
        name, about = fields.get("name"), fields.get("description", "")
        parameters = fields.get("parameters", {})
        if not isinstance(name, str) or not isinstance(parameters, dict):
            raise EnvironmentFailure(f"the server's tool {str(one)[:80]!r} cannot be read")
        tools.append(ToolSpec(name=name, description=str(about), parameters=parameters))
    return tools


def read_outcome(value: Mapping[str, Any]) -> Outcome:
    """The evidence of an episode."""
    success, rewards = value.get("success"), value.get("turn_rewards")
    evidence = value.get("evidence")
    known = success is None or isinstance(success, bool)
    if not known or not isinstance(rewards, list) or not isinstance(evidence, dict):
        raise EnvironmentFailure(f"the server's outcome {str(value)[:80]!r} cannot be read")
    paid = [read_number(reward, "a turn's reward") for reward in rewards]
    if None in paid:
        raise EnvironmentFailure("the server's outcome has a turn without a reward")
    return Outcome(
        success=success, turn_rewards=tuple(p for p in paid if p is not None), evidence=evidence
    )


def read_task(value: Any, env: str) -> Task:
    """A task from a Practicum server, see `Task.to_json`."""
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    split: Split = "heldout" if fields.get("split") == "heldout" else "train"
    level, data = fields.get("level"), fields.get("data")
    named = isinstance(fields.get("id"), str) and isinstance(fields.get("instruction"), str)
    if not named or not isinstance(level, int) or not isinstance(data, dict):
        raise EnvironmentFailure(f"the server's task {str(value)[:80]!r} cannot be read")
    return Task(
        id=fields["id"],
        env=env,
        split=split,
        level=level,
        instruction=fields["instruction"],
        data=data,
    )


class RemoteEpisode:
    """The connection of one episode; its requests run on the network thread."""

    def __init__(
        self, socket: EpisodeSocket, network: NetworkThread, server: Server, options: RemoteOptions
    ) -> None:
        self._socket = socket
        self._network = network
        self._server = server
        self.options = options
        self.is_over = False

    async def ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """One request and its answer."""
        try:
            return await self._network.run_async(
                self._socket.ask(kind, data, self.options.call_timeout_s)
            )
        except ServerBusy as busy:
            raise EnvironmentFailure(f"the server: {busy}") from None

    async def step(self, action: dict[str, Any]) -> tuple[Mapping[str, Any], float | None]:
        """One turn: what is observed, and its reward."""
        if self.is_over:
            raise RuntimeError("the episode is over; open a new session for another one")
        answer = await self.ask("step", action)
        seen, reward = read_result(answer)
        self.is_over = answer["done"]
        return seen, reward

    def ended(self) -> None:
        """Report that the episode ended normally."""
        self._server.report_success()


def read_result(answer: Mapping[str, Any]) -> tuple[Mapping[str, Any], float | None]:
    """The observation and the reward of an answer to reset or step."""
    seen, done = answer.get("observation"), answer.get("done")
    if not isinstance(seen, Mapping) or not isinstance(done, bool):
        raise EnvironmentFailure(f"the server's answer {str(answer)[:80]!r} cannot be read")
    return seen, read_number(answer.get("reward"), "a reward")


class _PracticumEpisode:
    """What both kinds of session on a Practicum server share; `first` is what `reset` returned."""

    def __init__(self, episode: RemoteEpisode, first: Mapping[str, Any]) -> None:
        self._episode = episode
        self._prompt = read_messages(first.get("messages"))
        self._tools = read_tools(first.get("tools"))
        self._action_names = read_texts(first.get("actions"), "actions")

    def prompt(self) -> list[Message]:
        """The messages that open the conversation."""
        return list(self._prompt)

    async def outcome(self) -> Outcome:
        """The evidence, collected on the server."""
        found = read_outcome(await self._episode.ask("outcome", {}))
        self._episode.ended()
        return found

    async def _turn(self, action: dict[str, Any]) -> Observation:
        seen, _ = await self._episode.step(action)
        self._action_names = read_texts(seen.get("actions"), "actions")
        [message] = read_messages(seen.get("messages"))[:1]
        paid = read_number(seen.get("paid"), "a turn's reward")
        return Observation(message=message, reward=paid, terminated=self._episode.is_over)


class PracticumSession(_PracticumEpisode):
    """An episode of text turns; implements `DiscreteSession`."""

    def actions(self) -> tuple[ActionForm, ...]:
        """The actions to choose from; none where the policy writes free text."""
        return tuple(ActionForm(name=name) for name in self._action_names)

    async def act(self, text: str) -> Observation:
        """Carry out the action written as `text`."""
        return await self._turn({"text": text})


class PracticumToolSession(_PracticumEpisode):
    """An episode of tool calls; implements `Session`."""

    def tools(self) -> list[ToolSpec]:
        """Tools the policy may call."""
        return list(self._tools)

    async def call(self, call: ToolCall) -> Observation:
        """Carry out one tool call."""
        action = {"tool": call.name, "arguments": dict(call.arguments), "id": call.id}
        return await self._turn(action)


class OpenEnvSession:
    """An episode on any OpenEnv server; it succeeds when its rewards add up to `success_at`.

    Implements `DiscreteSession`.
    """

    def __init__(self, episode: RemoteEpisode, first: Mapping[str, Any], action_field: str) -> None:
        self._episode = episode
        self._first = first
        self._action_field = action_field
        self._rewards: list[float | None] = []

    def prompt(self) -> list[Message]:
        """The config's instruction, and the first observation."""
        told = self._episode.options.instruction
        system = [Message(role="system", content=told)] if told else []
        return [*system, Message(role="user", content=self._text(self._first))]

    def actions(self) -> tuple[ActionForm, ...]:
        """None are known: the policy writes free text."""
        return ()

    async def act(self, text: str) -> Observation:
        """Send the text as an action."""
        seen, reward = await self._episode.step({self._action_field: text})
        self._rewards.append(reward)
        message = Message(role="user", content=self._text(seen))
        return Observation(message=message, reward=reward, terminated=self._episode.is_over)

    async def outcome(self) -> Outcome:
        """Whether the rewards add up to a success."""
        paid = tuple(reward or 0.0 for reward in self._rewards)
        self._episode.ended()
        return Outcome(
            success=sum(paid) >= self._episode.options.success_at,
            turn_rewards=paid if any(r is not None for r in self._rewards) else (),
            evidence={"total_reward": sum(paid), "done": self._episode.is_over},
        )

    def _text(self, seen: Mapping[str, Any]) -> str:
        wanted = self._episode.options.observation_field
        if not wanted:
            return json.dumps(dict(seen), ensure_ascii=False)
        if wanted not in seen:
            there = ", ".join(map(str, seen)) or "nothing"
            raise EnvironmentFailure(f"the observation has no {wanted!r}; it has {there}")
        part = seen[wanted]
        return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)


ENV = "remote"
PAGE_SIZE = 50
"""Tasks per request."""

RETRY_S = 0.5
"""Seconds between attempts to open an episode, while the server is full or restarting."""

QUICK_S = 30.0
"""Time limit of requests that open no episode."""

HEALTH_S = 10.0
"""Time limit of `/health`; a server that takes longer hangs."""

PROTOCOL = 1
"""Version of Practicum's extension of OpenEnv; must equal the server's."""


class RemoteEnvironment:
    """Episodes on a server; implements `Environment`.

    A Practicum server sends tasks, turn rewards, evidence and failures. Any other OpenEnv server
    sends only observations, rewards and `done`; there a task is a seed.
    """

    name: str = ENV
    Options: ClassVar[type[RemoteOptions]] = RemoteOptions
    all_levels: ClassVar[tuple[int, ...]] = (1,)
    sessions_at_once: ClassVar[int] = 16
    """Concurrent sessions while its tasks are checked."""

    def __init__(self, options: RemoteOptions) -> None:
        self._options = options
        self._server = make_server(options)
        self._network = NetworkThread("remote environment")
        self._served = _build_served(options)
        self._server_info: Mapping[str, Any] | None = None
        self._action_field = options.action_field

    @property
    def session_kind(self) -> SessionKind:
        """Whether sessions take text turns or tool calls."""
        if self._served is not None:
            return session_kind(self._served)
        info = self._network.run(self._fetch_server_info())
        return "tools" if info.get("session_kind") == "tools" else "discrete"

    @property
    def default_reward(self) -> str:
        """The default reward of the environment on the server."""
        if self._served is not None:
            return default_reward(self._served)
        return str(self._network.run(self._fetch_server_info()).get("default_reward", PAID_BY_TURN))

    @property
    def sandbox_kind(self) -> str:
        """The kind of sandbox on the server; empty where it runs no commands."""
        info = self._network.run(self._fetch_server_info())
        if info and "sandbox_kind" not in info:
            info = self._network.run(self._request("/practicum"))
        return str(info.get("sandbox_kind", ""))

    @property
    def server_pid(self) -> int | None:
        """The pid of the server process that this environment started, while it runs."""
        return self._server.pid

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """The server's tasks; of a plain OpenEnv server, one task per seed."""
        if self._served is not None:
            yield from (replace(task, env=ENV) for task in self._served.tasks(split, seed))
        elif self._network.run(self._fetch_server_info()):
            yield from self._tasks_by_page(split, seed)
        else:
            yield from _seeds(split, seed)

    def _tasks_by_page(self, split: Split, seed: int) -> Iterator[Task]:
        for page in count():
            query = {"split": split, "seed": seed, "offset": page * PAGE_SIZE, "count": PAGE_SIZE}
            found = self._network.run(self._request(f"/tasks?{urlencode(query)}")).get("tasks")
            if not isinstance(found, list):
                raise UserError(f"{self._options.url} lists no tasks; see that its version is ours")
            yield from (read_task(one, ENV) for one in found)
            if len(found) < PAGE_SIZE:
                return

    def find(self, text: str) -> Task:
        """The task with this id."""
        if self._served is not None:
            if not isinstance(self._served, FindsTasks):
                raise UserError(f"{self._options.serve!r} cannot look up {text!r}; list its tasks")
            return replace(self._served.find(text), env=ENV)
        answer = self._network.run(self._request("/tasks/find", body={"text": text}))
        return read_task(answer.get("task"), ENV)

    def reference(self, task: Task) -> Sequence[str]:
        """The turns of the reference solution."""
        if self._served is not None:
            return self._served.reference(replace(task, env=self._served.name))
        if not self._network.run(self._fetch_server_info()):
            raise UserError(f"{self._options.url} is no Practicum server: it has no references")
        body = {"task": task.to_json()}
        answer = self._network.run(self._request("/tasks/reference", body=body))
        return read_texts(answer.get("turns"), "turns")

    def open(
        self, task: Task
    ) -> AbstractAsyncContextManager[PracticumSession | PracticumToolSession | OpenEnvSession]:
        """Start one episode on the server."""
        return self._session(task)

    @asynccontextmanager
    async def _session(
        self, task: Task
    ) -> AsyncIterator[PracticumSession | PracticumToolSession | OpenEnvSession]:
        socket, first = await self._network.run_async(self._open_episode(task))
        try:
            yield await self._network.run_async(self._make_session(socket, first))
        finally:
            await self._network.run_async(socket.close())

    async def close(self) -> None:
        """Stop the server process, if this environment started one."""
        await asyncio.to_thread(self._server.stop)
        await asyncio.to_thread(self._network.stop)

    async def _open_episode(self, task: Task) -> tuple[EpisodeSocket, Mapping[str, Any]]:
        """Open an episode; retries while the server is full or restarting."""
        end = time.monotonic() + self._options.open_timeout_s
        while True:
            try:
                return await self._try_open(task, max(1.0, end - time.monotonic()))
            except (EnvironmentFailure, ServerBusy) as failure:
                is_busy = isinstance(failure, ServerBusy)
                if not is_busy:
                    self._server.report_unreachable(str(failure))
                may_retry = is_busy or isinstance(failure, ServerUnreachable)
                if time.monotonic() + RETRY_S >= end or not may_retry:
                    raise EnvironmentFailure(f"no episode could be opened: {failure}") from None
            await asyncio.sleep(RETRY_S)

    async def _try_open(
        self, task: Task, timeout_s: float
    ) -> tuple[EpisodeSocket, Mapping[str, Any]]:
        instance = await asyncio.to_thread(self._server.instance)
        is_practicum = bool(await self._fetch_server_info())
        data: dict[str, Any] = {"task": task.to_json()} if is_practicum else dict(task.data)
        try:
            socket = await connect(instance.url, self._server.key, min(timeout_s, QUICK_S))
        except EnvironmentFailure as failure:
            await self._kill_if_hung(instance)
            raise ServerUnreachable(str(failure)) from None
        try:
            first, _ = read_result(await socket.ask("reset", data, timeout_s))
        except BaseException:
            await socket.close()
            raise
        return socket, first

    async def _kill_if_hung(self, instance: ServerInstance) -> None:
        """Report a server that does not answer `/health` either; our own is then killed."""
        try:
            await http_request(instance.url, "/health", self._server.key, HEALTH_S)
        except EnvironmentFailure:
            await asyncio.to_thread(self._server.report_hang, instance)

    async def _make_session(
        self, socket: EpisodeSocket, first: Mapping[str, Any]
    ) -> PracticumSession | PracticumToolSession | OpenEnvSession:
        episode = RemoteEpisode(socket, self._network, self._server, self._options)
        info = await self._fetch_server_info()
        if not info:
            return OpenEnvSession(episode, first, await self._find_action_field())
        if info.get("session_kind") == "tools":
            return PracticumToolSession(episode, first)
        return PracticumSession(episode, first)

    async def _fetch_server_info(self) -> Mapping[str, Any]:
        """What `/practicum` says, fetched once; empty for a plain OpenEnv server."""
        if self._server_info is None and self._served is not None:
            self._server_info = {"protocol": PROTOCOL, "session_kind": self.session_kind}
        if self._server_info is None:
            address = (await asyncio.to_thread(self._server.instance)).url
            status, answer = await self._request_with_retries(address, "/practicum")
            if status == 401:
                raise UserError(
                    f"{address} asks for a key; name the file that holds it with env.key_file, or "
                    "set PRACTICUM_ENV_KEY"
                )
            is_practicum = (
                status == 200 and isinstance(answer, dict) and answer.get("protocol") == PROTOCOL
            )
            self._server_info = answer if is_practicum else {}
        return self._server_info

    async def _find_action_field(self) -> str:
        """The field of a plain OpenEnv server's action that takes the policy's text."""
        if not self._action_field:
            address = (await asyncio.to_thread(self._server.instance)).url
            _, answer = await self._request_with_retries(address, "/schema")
            fields = _text_fields(answer)
            if len(fields) != 1:
                raise UserError(
                    f"an action of {address} has the text fields {', '.join(fields) or '(none)'}; "
                    "say which one holds what the policy writes, as in env.action_field=message"
                )
            [self._action_field] = fields
        return self._action_field

    async def _request(self, path: str, *, body: Any = None) -> dict[str, Any]:
        """The JSON answer of a Practicum server; `UserError` for any other status than 200."""
        address = (await asyncio.to_thread(self._server.instance)).url
        status, answer = await self._request_with_retries(address, path, body=body)
        if status != 200 or not isinstance(answer, dict):
            why = answer.get("error") if isinstance(answer, dict) else None
            raise UserError(f"{address}{path.partition('?')[0]}: {why or f'status {status}'}")
        return answer

    async def _request_with_retries(
        self, address: str, path: str, *, body: Any = None
    ) -> tuple[int, Any]:
        """Status and answer; `UserError` when the server does not answer in time."""
        end = time.monotonic() + min(QUICK_S, self._options.open_timeout_s)
        while True:
            try:
                left = max(1.0, end - time.monotonic())
                return await http_request(address, path, self._server.key, left, body=body)
            except EnvironmentFailure as failure:
                if time.monotonic() + RETRY_S >= end:
                    raise UserError(
                        f"{failure}; start the server first, with: practicum env serve ENV"
                    ) from None
            await asyncio.sleep(RETRY_S)
            address = (await asyncio.to_thread(self._server.instance)).url


class ServerUnreachable(EnvironmentFailure):
    """No connection: worth another attempt, unlike a refusal."""


def _build_served(options: RemoteOptions) -> Environment | None:
    """The environment of the option `serve`, built in this process too.

    So its options are validated before a server starts, and its tasks need no requests.
    """
    if not options.serve:
        return None
    from practicum.environments.registry import build_environment

    try:
        return build_environment(options.serve, options.options)
    except ConfigError as error:
        raise ConfigError(f"serve = {options.serve!r} with its options: {error}") from None


def _seeds(split: Split, seed: int) -> Iterator[Task]:
    """Endless tasks, one per seed; even seeds are for training, odd ones held out."""
    digest = hashlib.blake2b(f"{split}/{seed}".encode(), digest_size=3).digest()
    first = int.from_bytes(digest, "big")
    for at in count(first):
        chosen = 2 * at + (split == "heldout")
        yield Task(id=f"seed-{chosen}", env=ENV, split=split, data={"seed": chosen})


def _text_fields(schema: Any) -> list[str]:
    """Names of the string fields of an action; only the required ones, if there are any."""
    action = schema.get("action") if isinstance(schema, dict) else None
    fields = action.get("properties") if isinstance(action, dict) else None
    if not isinstance(fields, dict):
        return []
    named = [n for n, f in fields.items() if isinstance(f, dict) and f.get("type") == "string"]
    required = action.get("required") if isinstance(action, dict) else None
    needed = [name for name in named if isinstance(required, list) and name in required]
    return sorted(needed or named)
