"""The `remote` environment: its episodes live on a server."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar, Literal
from urllib.parse import urlencode

from practicum.core.errors import ConfigError, EnvironmentFailure, UserError
from practicum.core.interfaces import Environment
from practicum.core.task import Split, Task
from practicum.environments.remote.answers import read_task, texts
from practicum.environments.remote.network import NetworkThread
from practicum.environments.remote.options import RemoteOptions
from practicum.environments.remote.servers import Place, server_of
from practicum.environments.remote.sessions import (
    ForeignSession,
    OwnSession,
    OwnToolSession,
    RemoteEpisode,
    read_result,
)
from practicum.environments.remote.wire import Line, ServerBusy, ask_over_http, dial

__all__ = ["RemoteEnvironment"]

ENV = "remote"
PAGE = 50
"""Tasks fetched at a time."""

AGAIN_S = 0.5
"""Between two attempts to open an episode on a server that is busy or starting again."""

QUICK_S = 30.0
"""What questions about the server itself may take."""

HEALTH_S = 10.0
"""What a server that works needs at most to say so."""

PROTOCOL = 1
"""Version of what a Practicum server says beyond OpenEnv."""


class RemoteEnvironment:
    """Episodes on a server; implements `Environment`.

    A Practicum server gives tasks, turn rewards, evidence and failures as they are. Any other
    OpenEnv server gives observations, rewards and the end of an episode; there a task is a seed.
    """

    name: str = ENV
    Options: ClassVar[type[RemoteOptions]] = RemoteOptions
    all_levels: ClassVar[tuple[int, ...]] = (1,)
    sessions_at_once: ClassVar[int] = 16
    """Sessions that a check of its tasks keeps open together."""

    def __init__(self, options: RemoteOptions) -> None:
        self._options = options
        self._server = server_of(options)
        self._network = NetworkThread()
        self._served = _built(options)
        self._about: Mapping[str, Any] | None = None
        self._action_field = options.action_field

    @property
    def session_kind(self) -> Literal["discrete", "tools"]:
        """Which agent carries its sessions."""
        return "tools" if self._declared("session_kind", "discrete") == "tools" else "discrete"

    @property
    def default_reward(self) -> str:
        """What the environment on the server is scored by unless told."""
        return str(self._declared("default_reward", "turns"))

    @property
    def sandbox_kind(self) -> str:
        """What isolates the commands of episodes on the server; empty where it runs none."""
        about = self._network.run(self._learn_about())
        if about and "sandbox_kind" not in about:
            about = self._network.run(self._ask("/practicum"))
        return str(about.get("sandbox_kind", ""))

    def _declared(self, name: str, otherwise: str) -> Any:
        if self._served is not None:
            return getattr(self._served, name, otherwise)
        return self._network.run(self._learn_about()).get(name, otherwise)

    @property
    def server_pid(self) -> int | None:
        """The process of the server that was started for it, while there is one."""
        return self._server.pid

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """The server's tasks; seeds, where it has none to list."""
        if self._served is not None:
            yield from (replace(task, env=ENV) for task in self._served.tasks(split, seed))
        elif self._network.run(self._learn_about()):
            yield from self._listed(split, seed)
        else:
            yield from _seeds(split, seed)

    def _listed(self, split: Split, seed: int) -> Iterator[Task]:
        for page in count():
            query = {"split": split, "seed": seed, "offset": page * PAGE, "count": PAGE}
            found = self._network.run(self._ask(f"/tasks?{urlencode(query)}")).get("tasks")
            if not isinstance(found, list):
                raise UserError(f"{self._options.url} lists no tasks; see that its version is ours")
            yield from (read_task(one, ENV) for one in found)
            if len(found) < PAGE:
                return

    def find(self, text: str) -> Task:
        """The task with this id."""
        if self._served is not None:
            find = getattr(self._served, "find", None)
            if find is None:
                raise UserError(f"{self._options.serve!r} cannot look up {text!r}; list its tasks")
            found: Task = find(text)
            return replace(found, env=ENV)
        answer = self._network.run(self._ask("/tasks/find", body={"text": text}))
        return read_task(answer.get("task"), ENV)

    def reference(self, task: Task) -> Sequence[str]:
        """The turns of a solution, where the server knows one."""
        if self._served is not None:
            return self._served.reference(replace(task, env=self._served.name))
        if not self._network.run(self._learn_about()):
            raise UserError(f"{self._options.url} is no Practicum server: it has no references")
        body = {"task": _task_json(task)}
        answer = self._network.run(self._ask("/tasks/reference", body=body))
        return texts(answer.get("turns"), "turns")

    def open(
        self, task: Task
    ) -> AbstractAsyncContextManager[OwnSession | OwnToolSession | ForeignSession]:
        """Start one episode on the server."""
        return self._session(task)

    @asynccontextmanager
    async def _session(
        self, task: Task
    ) -> AsyncIterator[OwnSession | OwnToolSession | ForeignSession]:
        line, opening = await self._network.go(self._dial_until_open(task))
        try:
            yield await self._network.go(self._made(line, opening))
        finally:
            await self._network.go(line.hang_up())

    async def close(self) -> None:
        """Stop the server that was started for it."""
        await asyncio.to_thread(self._server.stop)
        await asyncio.to_thread(self._network.stop)

    async def _dial_until_open(self, task: Task) -> tuple[Line, Mapping[str, Any]]:
        """An open episode; a server that is busy or coming up again is waited for."""
        end = time.monotonic() + self._options.open_timeout_s
        while True:
            try:
                return await self._dial(task, max(1.0, end - time.monotonic()))
            except (EnvironmentFailure, ServerBusy) as failure:
                is_busy = isinstance(failure, ServerBusy)
                if not is_busy:
                    self._server.unreachable(str(failure))
                if time.monotonic() + AGAIN_S >= end or not (is_busy or _may_pass(failure)):
                    raise EnvironmentFailure(f"no episode could be opened: {failure}") from None
            await asyncio.sleep(AGAIN_S)

    async def _dial(self, task: Task, timeout_s: float) -> tuple[Line, Mapping[str, Any]]:
        place = await asyncio.to_thread(self._server.place)
        own = bool(await self._learn_about())
        wishes: dict[str, Any] = {"task": _task_json(task)} if own else dict(task.data)
        try:
            line = await dial(place.address, self._server.key, min(timeout_s, QUICK_S))
        except EnvironmentFailure as failure:
            await self._look_after(place)
            raise Unreached(str(failure)) from None
        try:
            opening, _ = read_result(await line.ask("reset", wishes, timeout_s))
        except BaseException:
            await line.hang_up()
            raise
        return line, opening

    async def _look_after(self, place: Place) -> None:
        """A server that runs and does not answer at all is taken for dead."""
        try:
            await ask_over_http(place.address, "/health", self._server.key, HEALTH_S)
        except EnvironmentFailure:
            await asyncio.to_thread(self._server.hangs, place)

    async def _made(
        self, line: Line, opening: Mapping[str, Any]
    ) -> OwnSession | OwnToolSession | ForeignSession:
        episode = RemoteEpisode(line, self._network, self._server, self._options)
        about = await self._learn_about()
        if not about:
            return ForeignSession(episode, opening, await self._find_action_field())
        if about.get("session_kind") == "tools":
            return OwnToolSession(episode, opening)
        return OwnSession(episode, opening)

    async def _learn_about(self) -> Mapping[str, Any]:
        """What a Practicum server says of itself; empty for any other. Asked once."""
        if self._about is None and self._served is not None:
            self._about = {"protocol": PROTOCOL, "session_kind": self.session_kind}
        if self._about is None:
            address = (await asyncio.to_thread(self._server.place)).address
            status, said = await self._ask_patiently(address, "/practicum")
            if status == 401:
                raise UserError(
                    f"{address} asks for a key; name the file that holds it with env.key_file, or "
                    "set PRACTICUM_ENV_KEY"
                )
            own = status == 200 and isinstance(said, dict) and said.get("protocol") == PROTOCOL
            self._about = said if own else {}
        return self._about

    async def _find_action_field(self) -> str:
        """Where the policy's text goes in an action of another server."""
        if not self._action_field:
            address = (await asyncio.to_thread(self._server.place)).address
            _, said = await self._ask_patiently(address, "/schema")
            fields = _text_fields(said)
            if len(fields) != 1:
                raise UserError(
                    f"an action of {address} has the text fields {', '.join(fields) or '(none)'}; "
                    "say which one holds what the policy writes, as in env.action_field=message"
                )
            [self._action_field] = fields
        return self._action_field

    async def _ask(self, path: str, *, body: Any = None) -> dict[str, Any]:
        """What a Practicum server answers; a refusal is the user's to read."""
        address = (await asyncio.to_thread(self._server.place)).address
        status, said = await self._ask_patiently(address, path, body=body)
        if status != 200 or not isinstance(said, dict):
            why = said.get("error") if isinstance(said, dict) else None
            raise UserError(f"{address}{path.partition('?')[0]}: {why or f'status {status}'}")
        return said

    async def _ask_patiently(self, address: str, path: str, *, body: Any = None) -> tuple[int, Any]:
        """An answer, or a user's error when the server stays silent."""
        end = time.monotonic() + min(QUICK_S, self._options.open_timeout_s)
        while True:
            try:
                left = max(1.0, end - time.monotonic())
                return await ask_over_http(address, path, self._server.key, left, body=body)
            except EnvironmentFailure as failure:
                if time.monotonic() + AGAIN_S >= end:
                    raise UserError(
                        f"{failure}; start the server first, with: practicum env serve ENV"
                    ) from None
            await asyncio.sleep(AGAIN_S)
            address = (await asyncio.to_thread(self._server.place)).address


class Unreached(EnvironmentFailure):
    """Nobody answered at the address: worth another attempt, unlike a refusal."""


def _may_pass(failure: Exception) -> bool:
    return isinstance(failure, Unreached)


def _built(options: RemoteOptions) -> Environment | None:
    """The environment that is to be served, built here too.

    So its options are checked before anything starts, and what it knows of tasks needs no server.
    """
    if not options.serve:
        return None
    from practicum.environments.registry import build_environment

    try:
        return build_environment(options.serve, options.options)
    except ConfigError as error:
        raise ConfigError(f"serve = {options.serve!r} with its options: {error}") from None


def _task_json(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "split": task.split,
        "level": task.level,
        "instruction": task.instruction,
        "data": dict(task.data),
    }


def _seeds(split: Split, seed: int) -> Iterator[Task]:
    """Endless seeds, even ones to train on and odd ones held out."""
    digest = hashlib.blake2b(f"{split}/{seed}".encode(), digest_size=3).digest()
    first = int.from_bytes(digest, "big")
    for at in count(first):
        chosen = 2 * at + (split == "heldout")
        yield Task(id=f"seed-{chosen}", env=ENV, split=split, data={"seed": chosen})


def _text_fields(schema: Any) -> list[str]:
    """Names of the texts in an action, the required ones if there are any."""
    action = schema.get("action") if isinstance(schema, dict) else None
    fields = action.get("properties") if isinstance(action, dict) else None
    if not isinstance(fields, dict):
        return []
    named = [n for n, f in fields.items() if isinstance(f, dict) and f.get("type") == "string"]
    required = action.get("required") if isinstance(action, dict) else None
    needed = [name for name in named if isinstance(required, list) and name in required]
    return sorted(needed or named)
