"""`ServedModels`: the models of a server by name, each of which can be replaced at any time.

A request takes its model once, when it is admitted, and keeps it to its end: whatever replaces the
model meanwhile answers only the requests that come after it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from practicum.core.conversation import HistoryCodec
from practicum.core.errors import PracticumError
from practicum.core.interfaces import Sampler
from practicum.core.model_names import model_name
from practicum.core.sampling import SamplingParams
from practicum.gateway.serving.serving_metrics import ServingMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One model as it is served now."""

    name: str
    sampler: Sampler
    """Of fixed weights."""
    codec: HistoryCodec
    params: SamplingParams
    """For what a request leaves out."""
    source: str = ""
    """Where the weights were read from."""
    loaded_at: float = field(default_factory=time.time)

    @property
    def fingerprint(self) -> str:
        """Which weights it has."""
        return self.sampler.fingerprint()


class ServedModels:
    """Models by name, the default first."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self._models = {model.name: model for model in models}

    @property
    def names(self) -> tuple[str, ...]:
        """In the order in which they were given."""
        return tuple(self._models)

    @property
    def default(self) -> ServedModel:
        """The model of a request that names none."""
        return next(iter(self._models.values()))

    def get(self, name: str) -> ServedModel | None:
        """The model as it is now; None if there is none of this name. A hub id is a name too."""
        return self._models.get(name) or self._models.get(model_name(name))

    def all(self) -> list[ServedModel]:
        """Every model as it is now."""
        return list(self._models.values())

    def replace(self, model: ServedModel) -> None:
        """Answer the requests that come from now on with another model of the same name."""
        assert model.name in self._models
        self._models[model.name] = model


class WeightsSource(Protocol):
    """Where the weights of a served model come from, and whether they have changed."""

    @property
    def name(self) -> str:
        """The served model's."""

    def stamp(self) -> str:
        """Changes whenever the weights do; cheap, and called about once a second."""

    def folder(self) -> Path:
        """The adapter that is to be served now, verified."""


TRIES = 3
"""Looks at which weights may be unreadable before that is said and counted."""

Load = Callable[[str, Path], Awaitable[ServedModel]]
"""Reads the weights in a folder for the model of a name."""


class ModelWatch:
    """Replaces models when their sources change.

    Weights that cannot be read are said once and counted, and the old ones go on being served.

    Args:
        models: What is served.
        sources: What is looked at.
        load: Reads weights, without holding the event loop.
        metrics: Where swaps are counted.
        say: Told what was swapped, or why not.
    """

    def __init__(
        self,
        models: ServedModels,
        sources: Sequence[WeightsSource],
        load: Load,
        metrics: ServingMetrics,
        say: Callable[[str], None],
    ) -> None:
        self._models, self._load, self._metrics, self._say = models, load, metrics, say
        self._sources = sources
        self._seen: dict[str, str] = {}
        self._failures: dict[str, int] = {}

    def loaded(self, name: str, stamp: str) -> None:
        """Note what was loaded at the start."""
        self._seen[name] = stamp

    async def look_at_all(self) -> None:
        """Swap every model whose source has changed."""
        for source in self._sources:
            await self.look(source)

    async def look(self, source: WeightsSource) -> bool:
        """Swap a model whose source has changed; whether it was swapped."""
        with suppress(OSError):  # between two links there may be none
            stamp = await asyncio.to_thread(source.stamp)
            if stamp != self._seen.get(source.name):
                return await self._swap(source, stamp)
        return False

    async def _swap(self, source: WeightsSource, stamp: str) -> bool:
        started, name = time.monotonic(), source.name
        try:
            folder = await asyncio.to_thread(source.folder)
            fresh = await self._load(name, folder)
        except (PracticumError, OSError) as error:
            # What is being replaced at this moment is whole when it is looked at again.
            self._failures[name] = self._failures.get(name, 0) + 1
            if self._failures[name] == TRIES:
                self._seen[name] = stamp
                self._failures[name] = 0
                self._metrics.swap_failed(name)
                self._say(f"{name} is served as before: {error}")
            return False
        self._seen[name], self._failures[name] = stamp, 0
        before = self._models.get(name)
        if before is not None and before.fingerprint == fresh.fingerprint:
            return False
        self._models.replace(fresh)
        seconds = time.monotonic() - started
        self._metrics.swapped(name, seconds)
        self._say(f"{name} is now {fresh.fingerprint} from {folder} ({seconds:.2f} s)")
        return True
