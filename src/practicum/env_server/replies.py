"""Answers kept for a client that asks again because it did not hear the first one.

A LifelongAgentBench client repeats a request when its time limit passes or a connection breaks.
What was asked must not be done twice: a command would run again, and a verdict would be lost.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

__all__ = ["Replies"]

T = TypeVar("T")

MOST_OWNERS = 4096
"""Episodes whose last answers are kept; the oldest are forgotten."""


class Replies(Generic[T]):
    """The last answer of each kind, by the episode it belongs to."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, dict[str, tuple[str, asyncio.Task[T]]]] = OrderedDict()

    async def once(
        self, owner: str, kind: str, asked: str, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """Do some work, or give what it came to, or is coming to, when the same was asked before.

        Work that fails is not kept: it may be tried again.
        """
        kept = self._kept.setdefault(owner, {})
        self._kept.move_to_end(owner)
        before = kept.get(kind)
        if before is None or before[0] != asked:
            before = kept[kind] = (asked, asyncio.create_task(work()))
        while len(self._kept) > MOST_OWNERS:
            self._kept.popitem(last=False)
        try:
            return await asyncio.shield(before[1])
        except Exception:
            if kept.get(kind) is before:
                del kept[kind]
            raise

    def forget(self, owner: str) -> None:
        """A new episode begins under the same name."""
        self._kept.pop(owner, None)
