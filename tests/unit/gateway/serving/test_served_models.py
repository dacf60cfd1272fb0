"""Models are swapped when their sources change, and only then."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from practicum.core.errors import CheckpointError
from practicum.core.sampling import SamplingParams
from practicum.engine.sampling.scripted_sampler import ScriptedSampler
from practicum.gateway.serving.served_models import TRIES, ModelWatch, ServedModel, ServedModels
from practicum.gateway.serving.serving_metrics import ServingMetrics


class Weights(ScriptedSampler):
    def fingerprint(self) -> str:
        return self.said

    def __init__(self, said: str) -> None:
        super().__init__([said])
        self.said = said


def served(name: str, source: str) -> ServedModel:
    codec: Any = None
    sampler = Weights(source)
    return ServedModel(
        name=name, sampler=sampler, codec=codec, params=SamplingParams(), source=source
    )


@dataclass
class Source:
    name: str
    stamps: list[str]
    bad: set[str] = field(default_factory=set)

    def stamp(self) -> str:
        if self.stamps[0] == "missing":
            raise FileNotFoundError
        return self.stamps[0]

    def folder(self) -> Path:
        if self.stamps[0] in self.bad:
            raise CheckpointError("it is damaged")
        return Path(self.stamps[0])


def watch(*sources: Source) -> tuple[ModelWatch, ServedModels, ServingMetrics, list[str]]:
    models = ServedModels([served(source.name, source.stamps[0]) for source in sources])
    metrics, said = ServingMetrics(), list[str]()

    async def load(name: str, folder: Path) -> ServedModel:
        return served(name, str(folder))

    found = ModelWatch(models, sources, load, metrics, said.append)
    for source in sources:
        found.loaded(source.name, source.stamps[0])
    return found, models, metrics, said


async def test_a_changed_source_is_swapped_and_an_unchanged_one_is_not() -> None:
    first, second = Source("a", ["1"]), Source("b", ["1"])
    looking, models, metrics, said = watch(first, second)
    before = models.get("b")
    first.stamps[0] = "2"
    assert [await looking.look(source) for source in (first, second)] == [True, False]
    swapped = models.get("a")
    assert swapped is not None
    assert swapped.source == "2"
    assert models.get("b") is before
    assert metrics.swaps == {("a",): 1}
    assert "a is now" in said[0]


async def test_a_request_keeps_the_model_it_took() -> None:
    source = Source("a", ["1"])
    looking, models, _, _ = watch(source)
    taken = models.get("a")
    source.stamps[0] = "2"
    await looking.look(source)
    assert taken is not None
    assert taken.source == "1"


async def test_weights_that_cannot_be_read_leave_the_old_ones_and_are_said_once() -> None:
    source = Source("a", ["1"], bad={"2"})
    looking, models, metrics, said = watch(source)
    source.stamps[0] = "2"
    for _ in range(2 * TRIES):
        assert not await looking.look(source)
    assert metrics.swap_failures == {("a",): 1}
    assert said == ["a is served as before: it is damaged"]
    source.bad.clear()
    source.stamps[0] = "3"
    assert await looking.look(source)
    assert models.default.source == "3"


async def test_what_is_whole_at_the_second_look_is_swapped() -> None:
    source = Source("a", ["1"], bad={"2"})
    looking, _, metrics, said = watch(source)
    source.stamps[0] = "2"
    await looking.look(source)
    source.bad.clear()
    assert await looking.look(source)
    assert not metrics.swap_failures
    assert len(said) == 1


async def test_a_link_that_is_gone_for_a_moment_changes_nothing() -> None:
    source = Source("a", ["1"])
    looking, models, _, said = watch(source)
    for stamp in itertools.repeat("missing", 3):
        source.stamps[0] = stamp
        assert not await looking.look(source)
    assert not said
    assert models.default.source == "1"
