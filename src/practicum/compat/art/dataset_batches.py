"""What ART has under `art.utils`: batches of a dataset over epochs, and few calls at a time."""

import asyncio
import functools
import math
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from practicum.compat.art.gather import retry

__all__ = ["DatasetBatch", "iterate_dataset", "limit_concurrency", "retry"]

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(slots=True)
class DatasetBatch(Generic[T]):
    """The items of one step."""

    items: list[T]
    step: int
    """Steps before it, over all epochs."""
    epoch: int
    epoch_step: int
    """Steps before it in its epoch."""


def iterate_dataset(
    dataset: Sequence[T],
    groups_per_step: int = 1,
    num_epochs: int = 1,
    initial_step: int = 0,
    use_tqdm: bool = True,
) -> Iterator[DatasetBatch[T]]:
    """Batches of a dataset, each epoch in another order, the same in every run and in ART.

    Args:
        dataset: The items.
        groups_per_step: Items of a batch; the last of an epoch may have fewer.
        num_epochs: How often each item comes.
        initial_step: Steps to leave out, such as `await model.get_step()`.
        use_tqdm: Taken for the sake of ART's scripts; no bar is shown.

    >>> [batch.items for batch in iterate_dataset("abc", groups_per_step=2, initial_step=1)]
    [['b']]
    """
    steps_per_epoch = math.ceil(len(dataset) / groups_per_step)
    for epoch in range(num_epochs):
        order = list(range(len(dataset)))
        random.Random(epoch).shuffle(order)
        for epoch_step in range(steps_per_epoch):
            step = epoch * steps_per_epoch + epoch_step
            if step >= initial_step:
                chosen = order[epoch_step * groups_per_step :][:groups_per_step]
                yield DatasetBatch([dataset[i] for i in chosen], step, epoch, epoch_step)


def limit_concurrency(
    n: int, derive_key: Callable[..., str] | None = None
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """A coroutine function of which at most `n` calls run at a time.

    Args:
        n: The limit.
        derive_key: Gives a key for the arguments of a call; each key has a limit of its own.
    """
    slots: dict[str, asyncio.Semaphore] = {}

    def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @functools.wraps(function)
        async def limited(*args: P.args, **kwargs: P.kwargs) -> T:
            key = derive_key(*args, **kwargs) if derive_key is not None else ""
            async with slots.setdefault(key, asyncio.Semaphore(n)):
                return await function(*args, **kwargs)

        return limited

    return decorate
