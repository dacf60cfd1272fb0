"""A replica of the run's own engine as an actor: what `practicum serve --sampler` is by HTTP.

Adapters travel as the bytes of their files, so no folder has to be shared.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from practicum.cluster.actor_link import ActorLink, ActorLost, ActorRefused, Answering
from practicum.cluster.connection import Room
from practicum.core.errors import ContextFull, UserError
from practicum.core.task import JSON
from practicum.samplers.replica import ReplicaFailed, ReplicaLost
from practicum.samplers.replica_pool import Member, PoolLimits, ReplicaPool

REFUSALS: dict[str, type[Exception]] = {"ContextFull": ContextFull, "UserError": UserError}
"""What an engine may raise that is no fault of its replica."""

LOOK_S = 1.0


class HoldsVersions(Protocol):
    """A base model and its adapters (`gateway.serving.sampler_server.SampledVersions`)."""

    def about(self) -> dict[str, Any]:
        """Protocol, base, adapters."""

    async def load(self, name: str, folder: Path) -> dict[str, Any]:
        """Read an adapter."""

    def unload(self, name: str) -> dict[str, Any]:
        """Give one up."""

    async def sample(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """A completion."""


class SamplerActor(Answering):
    """Holds the base model where it runs; it is loaded when it is first asked about."""

    def __init__(self, make: Callable[[], HoldsVersions]) -> None:
        super().__init__()
        self._make = make
        self._held: HoldsVersions | None = None
        self._loading = asyncio.Lock()

    async def _versions(self) -> HoldsVersions:
        async with self._loading:
            if self._held is None:
                self._held = await asyncio.to_thread(self._make)
        return self._held

    async def do_about(self) -> dict[str, Any]:
        """See `HoldsVersions`."""
        return (await self._versions()).about()

    async def do_load(self, name: str, files: Mapping[str, bytes]) -> dict[str, Any]:
        """See `HoldsVersions`."""
        folder = Path(tempfile.mkdtemp(prefix="practicum-adapter-"))
        try:
            for file, content in files.items():
                (folder / file).write_bytes(content)
            return await (await self._versions()).load(name, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def do_unload(self, name: str) -> None:
        """See `HoldsVersions`."""
        (await self._versions()).unload(name)

    async def do_sample(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """See `HoldsVersions`."""
        return await (await self._versions()).sample(told)


class EngineByActor:
    """Implements `ReachesEngine` and `RunsReplica`: an actor that is started again when lost."""

    def __init__(self, link: ActorLink, startup_timeout_s: float) -> None:
        self._link, self._startup_timeout_s = link, startup_timeout_s
        self._is_starting = True

    @property
    def name(self) -> str:
        """See `ReachesEngine`."""
        return self._link.name

    async def about(self) -> dict[str, Any]:
        """See `ReachesEngine`."""
        told: dict[str, Any] = await self._ask("about")
        return told

    async def load(self, name: str, folder: Path) -> dict[str, Any]:
        """See `ReachesEngine`."""
        files = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
        told: dict[str, Any] = await self._ask("load", name, files)
        return told

    async def unload(self, name: str) -> None:
        """See `ReachesEngine`."""
        await self._ask("unload", name)

    async def sample(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """See `ReachesEngine`."""
        found: dict[str, Any] = await self._ask("sample", dict(told))
        return found

    async def _ask(self, verb: str, *words: Any) -> Any:
        try:
            return await self._link.ask(verb, *words, is_starting=self._is_starting)
        except ActorLost as lost:
            raise ReplicaLost(str(lost)) from None
        except ActorRefused as refused:
            kind = REFUSALS.get(refused.kind, ReplicaFailed)
            raise kind(refused.sentence) from None

    @property
    def runs(self) -> bool:
        """See `RunsReplica`."""
        return self._link.runs

    def start(self) -> None:
        """See `RunsReplica`."""
        self._is_starting = True
        self._link.start()

    async def until(self, answers: Callable[[], Awaitable[bool]]) -> None:
        """See `RunsReplica`."""
        try:
            async with asyncio.timeout(self._startup_timeout_s):
                while not await answers():
                    if not self.runs:
                        raise ReplicaFailed(f"{self.name} ended while starting{self.said()}")
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise ReplicaFailed(
                f"{self.name} did not start within {self._startup_timeout_s:g} s; see whether the "
                "cluster has room for it (practicum cluster status), or raise "
                "sampler.startup_timeout_s"
            ) from None
        self._is_starting = False

    def said(self) -> str:
        """See `RunsReplica`."""
        return self._link.said()

    async def disconnect(self) -> None:
        """See `ReachesEngine`: nothing is left open."""

    def close(self) -> None:
        """See `RunsReplica`."""
        self._link.stop()

    def metrics(self) -> dict[str, JSON]:
        """What a step's metrics show of it."""
        return self._link.metrics()


class PoolOfActors(ReplicaPool):
    """Replicas that are actors: room for all of them is held before any is started.

    Args:
        members: With an `EngineByActor` each.
        limits: See `ReplicaPool`.
        another: See `ReplicaPool`.
        room: What is held for the members.
        connect: Connects to the cluster; may block.
    """

    def __init__(
        self,
        members: Sequence[Member],
        limits: PoolLimits,
        another: Callable[[int], Member],
        *,
        room: Room,
        connect: Callable[[], None],
    ) -> None:
        super().__init__(members, limits, another)
        self._room, self._connect = room, connect

    async def open(self) -> None:
        """See `ReplicaPool`."""
        await asyncio.to_thread(self._connect)
        await self._room.hold(self._limits.return_timeout_s)
        await super().open()

    def metrics(self) -> dict[str, JSON]:
        """See `ReplicaPool`."""
        found = super().metrics()
        for member in self._members:
            if isinstance(member.process, EngineByActor):
                found |= member.process.metrics()
        return found

    async def close(self) -> None:
        """See `ReplicaPool`."""
        await super().close()
        self._room.give_up()
