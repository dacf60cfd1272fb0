"""An environment whose episodes take place in actors: to the rollout it is what it was."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from practicum.cluster.environment_actor import Shown
from practicum.cluster.worker_pool import RemoteEpisode, WorkerPool
from practicum.core.capabilities import Closable, InSandboxes
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment, Observation
from practicum.core.network_thread import NetworkThread
from practicum.core.sampling import Actions
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Message, ToolCall, ToolSpec


class ActorSession:
    """What all sessions in actors share."""

    def __init__(self, pool: WorkerPool, network: NetworkThread, episode: RemoteEpisode) -> None:
        self._pool, self._network, self._episode = pool, network, episode

    @property
    def shown(self) -> Shown:
        """What the session shows now."""
        found = self._episode.shown
        assert found is not None
        return found

    def prompt(self) -> list[Message]:
        """The messages that open the conversation of whoever acts next."""
        return list(self.shown.prompt)

    async def outcome(self) -> Outcome:
        """The evidence, collected in the actor."""
        return await self._network.run_async(self._pool.outcome(self._episode))

    async def _turn(self, verb: str, given: str | ToolCall) -> Observation:
        return await self._network.run_async(self._pool.take_turn(self._episode, verb, given))


class ActorTextSession(ActorSession):
    """An episode of text turns; implements `DiscreteSession`."""

    def actions(self) -> Actions:
        """The actions to choose from."""
        return self.shown.actions

    async def act(self, text: str) -> Observation:
        """Carry out the action written as `text`."""
        return await self._turn("act", text)


class ActorRoleSession(ActorTextSession):
    """One in which several act; implements `HasRoles`."""

    def role(self) -> str:
        """Who acts next."""
        return self.shown.role or ""


class ActorToolSession(ActorSession):
    """An episode of tool calls; implements `Session`."""

    def tools(self) -> list[ToolSpec]:
        """Tools the policy may call."""
        return list(self.shown.tools)

    async def call(self, call: ToolCall) -> Observation:
        """Carry out one tool call."""
        return await self._turn("call", call)


def _session(pool: WorkerPool, network: NetworkThread, episode: RemoteEpisode) -> ActorSession:
    assert episode.shown is not None
    if not episode.shown.is_discrete:
        return ActorToolSession(pool, network, episode)
    kind = ActorTextSession if episode.shown.role is None else ActorRoleSession
    return kind(pool, network, episode)


def move_episodes(environment: Environment, pool: WorkerPool) -> None:
    """Have an environment open its sessions in actors.

    Its tasks, its references and all it can say of them stay here: it becomes an instance of a
    class of its own, derived from the one it had, so that whatever it is asked for is there.
    """
    kind: Any = type(environment)
    network = NetworkThread("workers")

    @asynccontextmanager
    async def opened(self: Any, task: Task) -> AsyncIterator[ActorSession]:
        episode = await network.run_async(pool.begin(task))
        try:
            yield _session(pool, network, episode)
        finally:
            await network.run_async(pool.end(episode))

    @asynccontextmanager
    async def room_for_episode(self: Any) -> AsyncIterator[None]:
        await network.run_async(pool.take_place())
        try:
            yield
        finally:
            await network.run_async(_give(pool))

    async def close(self: Any) -> None:
        await network.run_async(pool.close())
        network.stop()
        if issubclass(kind, Closable):
            await kind.close(self)

    def worker_metrics(self: Any) -> dict[str, JSON]:
        return pool.metrics()

    members: dict[str, Any] = {
        "open": opened,
        "room_for_episode": room_for_episode,
        "close": close,
        "worker_metrics": worker_metrics,
        "__module__": kind.__module__,
        "__slots__": (),
    }
    if isinstance(environment, InSandboxes):  # whoever takes them says which they are
        members["sandbox_kind"] = property(lambda self: network.run(pool.sandbox_kind()))
    try:
        environment.__class__ = type(kind.__name__, (kind,), members)
    except TypeError as error:
        raise UserError(
            f"the environment {environment.name!r} cannot act in actors ({error}); make it an "
            "ordinary class, or set cluster.workers=0"
        ) from None


async def _give(pool: WorkerPool) -> None:
    pool.give_place()
