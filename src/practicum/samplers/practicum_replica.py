"""A replica that is our own engine in another process.

It is `practicum serve MODEL --sampler`, reached by HTTP, or an actor of a cluster.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from practicum.core.errors import PolicyMismatch, UserError
from practicum.core.sampling import Completion
from practicum.core.sampling_json import SampleOrder, completion_from_json, order_to_json
from practicum.samplers.replica import (
    PublishedAdapter,
    ReplicaClient,
    ReplicaFacts,
    ReplicaFailed,
)

PROTOCOL = 1
"""Of the routes under /sampler; a server of another version is refused."""


class ReachesEngine(Protocol):
    """The way to an engine elsewhere; all methods raise as those of `Replica` do."""

    @property
    def name(self) -> str:
        """Its kind and where it is."""

    async def about(self) -> dict[str, Any]:
        """Its protocol, its base and its adapters."""

    async def load(self, name: str, folder: Path) -> dict[str, Any]:
        """Have it read an adapter; `UserError` where it cannot."""

    async def unload(self, name: str) -> None:
        """Have it give one up."""

    async def sample(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """A completion, by what `order_to_json` writes."""

    async def disconnect(self) -> None:
        """Close connections."""


class EngineByHttp:
    """Implements `ReachesEngine`: the routes of `practicum serve MODEL --sampler`."""

    def __init__(self, url: str, key: str) -> None:
        self.name = f"the replica {url}"
        self._client = ReplicaClient(self.name, url, key)

    async def about(self) -> dict[str, Any]:
        """See `ReachesEngine`."""
        return await self._client.ask("GET", "/sampler")

    async def load(self, name: str, folder: Path) -> dict[str, Any]:
        """See `ReachesEngine`."""
        return await self._client.ask(
            "POST", "/sampler/adapters", {"name": name, "folder": str(folder)}
        )

    async def unload(self, name: str) -> None:
        """See `ReachesEngine`."""
        await self._client.ask("DELETE", f"/sampler/adapters/{quote(name)}")

    async def sample(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """See `ReachesEngine`."""
        return await self._client.ask("POST", "/sampler/sample", dict(told))

    async def disconnect(self) -> None:
        """See `ReachesEngine`."""
        await self._client.close()


class PracticumReplica:
    """Implements `Replica`.

    It computes the fingerprint of an adapter from the tensors that it has read, and names it with
    every completion: what was sampled by other weights than were asked for is never passed on.

    Args:
        engine: The way to it.
        base: Fingerprint of the base model that learns.
    """

    writes_actions = takes_grammars = True
    hottest = math.inf

    def __init__(self, engine: ReachesEngine, base: str) -> None:
        self._engine, self._base = engine, base

    @property
    def name(self) -> str:
        """See `Replica`."""
        return self._engine.name

    async def facts(self) -> ReplicaFacts:
        """See `Replica`."""
        told = await self._engine.about()
        if told.get("protocol") != PROTOCOL:
            raise ReplicaFailed(
                f"{self.name} speaks protocol {told.get('protocol')!r:.40} and this version of "
                f"Practicum {PROTOCOL}; start it as: practicum serve MODEL --sampler, of this "
                "version"
            )
        if told.get("base") != self._base:
            raise ReplicaFailed(
                f"{self.name} has the base model {told.get('base')!r:.60} and "
                f"{self._base!r} is trained; start it with the model that is trained"
            )
        return ReplicaFacts(context_tokens=int(told.get("context_tokens", 0)))

    async def load(self, adapter: PublishedAdapter) -> None:
        """See `Replica`."""
        try:
            told = await self._engine.load(adapter.name, adapter.folder)
        except UserError as error:
            raise ReplicaFailed(
                f"{self.name} cannot read the adapter that was published in {adapter.folder} "
                f"({error}); set sampler.folder to one that it can read"
            ) from None
        self._require(adapter, told.get("fingerprint"))

    async def check(self, adapter: PublishedAdapter) -> None:
        """See `Replica`."""
        told = await self._engine.about()
        listed = told.get("adapters")
        self._require(adapter, listed.get(adapter.name) if isinstance(listed, dict) else None)

    async def unload(self, adapter: PublishedAdapter) -> None:
        """See `Replica`."""
        await self._engine.unload(adapter.name)

    async def draw(self, order: SampleOrder, adapter: PublishedAdapter) -> Completion:
        """See `Replica`."""
        told = await self._engine.sample({**order_to_json(order), "adapter": adapter.name})
        try:
            completion = completion_from_json(told)
        except ValueError as error:
            raise ReplicaFailed(f"{self.name} gave no completion: {error}") from None
        self._require(adapter, completion.fingerprint)
        return completion

    def _require(self, adapter: PublishedAdapter, found: object) -> None:
        if found != adapter.version:
            raise PolicyMismatch(
                f"{self.name} has the weights {found!r:.80} under {adapter.name!r}, and "
                f"{adapter.version!r} were published: a stale or another adapter is being sampled "
                "there; nothing of it is learned from"
            )

    async def close(self) -> None:
        """See `Replica`."""
        await self._engine.disconnect()
