"""The `remote` environment: its episodes run on a server, ours or any OpenEnv server."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar
from urllib.parse import urlencode

from practicum.core.capabilities import (
    PAID_BY_TURN,
    FindsTasks,
    SessionKind,
    default_reward,
    session_kind,
)
from practicum.core.errors import ConfigError, EnvironmentFailure, UserError
from practicum.core.interfaces import Environment
from practicum.core.task import Split, Task
from practicum.environments.remote.remote_session import (
    OpenEnvSession,
    PracticumSession,
    PracticumToolSession,
    RemoteEpisode,
    read_result,
    read_task,
    read_texts,
)
from practicum.environments.remote.servers import RemoteOptions, ServerInstance, make_server
from practicum.environments.remote.wire import (
    EpisodeSocket,
    NetworkThread,
    ServerBusy,
    connect,
    http_request,
)

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
        self._network = NetworkThread()
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
