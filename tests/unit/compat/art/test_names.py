"""Scripts of ART move by their imports: every name is where ART has it, under both of our names."""

import asyncio
import importlib
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import practicum.art as short
import practicum.compat.art as art
from practicum.compat.art.dataset_batches import iterate_dataset, limit_concurrency

NAMES = [
    "Backend Messages MessagesAndChoices Tools Model TrainableModel TrainConfig TrainResult",
    "utils: iterate_dataset limit_concurrency retry",
    "utils.iterate_dataset: iterate_dataset DatasetBatch",
    "utils.limit_concurrency: limit_concurrency",
    "utils.retry: retry",
    "types: Messages MessagesAndChoices Tools TrainConfig TrainResult LocalTrainResult Message",
    "local: LocalBackend",
    "local.backend: LocalBackend",
    "backend: Backend",
    "model: Model TrainableModel",
    "trajectories: Trajectory TrajectoryGroup History",
    "rewards: ruler ruler_score_group",
    "rewards.ruler: ruler ruler_score_group",
    "gather: gather_trajectories gather_trajectory_groups",
    "dev: InternalModelConfig TrainConfig",
]


@pytest.mark.parametrize("line", NAMES)
def test_a_name_is_where_art_has_it(line: str) -> None:
    module, _, names = line.rpartition(":")
    both = [
        importlib.import_module(f"{root.__name__}.{module}" if module else root.__name__)
        for root in (art,)
    ]
    both.append(importlib.import_module(f"practicum.art.{module}" if module else "practicum.art"))
    assert both[0] is both[1], "one class must not be two"
    for name in names.split():
        assert getattr(both[0], name) is not None


@pytest.mark.parametrize(
    "statement",
    [
        "from practicum.art.utils.iterate_dataset import iterate_dataset",
        "from practicum.art.local.backend import LocalBackend",
        "from practicum.art.rewards import ruler_score_group",
        "import practicum.art.utils as u; u.iterate_dataset",
        "import practicum.art as art; art.utils.iterate_dataset, art.types.MessagesAndChoices",
    ],
)
def test_an_import_works_as_the_first_one_of_a_program(statement: str) -> None:
    subprocess.run([sys.executable, "-c", statement], check=True)


def test_the_local_backend_is_a_backend() -> None:
    assert isinstance(art.LocalBackend(), art.Backend)
    assert short is art


def test_gradient_accumulation_is_taken() -> None:
    config = art.TrainConfig(learning_rate=1e-4, grad_accumulation_sequences=4)
    assert config.grad_accumulation_sequences == 4


@given(
    size=st.integers(0, 30),
    per_step=st.integers(1, 8),
    epochs=st.integers(0, 3),
    skipped=st.integers(0, 20),
)
def test_each_epoch_has_every_item_once_and_a_resumed_one_goes_on(
    size: int, per_step: int, epochs: int, skipped: int
) -> None:
    items = list(range(size))
    whole = list(iterate_dataset(items, per_step, epochs))
    for epoch in range(epochs):
        seen = [item for batch in whole if batch.epoch == epoch for item in batch.items]
        assert sorted(seen) == items
    assert [batch.step for batch in whole] == list(range(len(whole)))
    assert list(iterate_dataset(items, per_step, epochs, initial_step=skipped)) == whole[skipped:]


def test_the_order_is_that_of_art() -> None:
    """ART shuffles the indexes with Python's own generator, seeded by the epoch."""
    order = list(range(10))
    random.Random(1).shuffle(order)
    second = [b for b in iterate_dataset(list(range(10)), 4, 2) if b.epoch == 1]
    assert [item for batch in second for item in batch.items] == order


async def test_so_many_calls_run_at_a_time_for_each_key() -> None:
    running: dict[str, int] = {"a": 0, "b": 0}
    most: dict[str, int] = {"a": 0, "b": 0}

    @limit_concurrency(2, derive_key=lambda key: str(key))
    async def call(key: str) -> None:
        running[key] += 1
        most[key] = max(most[key], running[key])
        await asyncio.sleep(0)
        running[key] -= 1

    await asyncio.gather(*(call("ab"[n % 2]) for n in range(12)))
    assert most == {"a": 2, "b": 2}
