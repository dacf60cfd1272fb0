"""One line to the model for many conversations, which waits while the model learns."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from practicum.core.interfaces import ChatCodec, Sampler
from practicum.core.sampling import SamplingParams
from practicum.core.trace import Node
from practicum.gateway import CapturedConversation
from practicum.gateway.graph import RolloutGraph
from practicum.gateway.requests import ChatRequest, ChatTurn

__all__ = ["SharedConversation"]


class SharedConversation(CapturedConversation):
    """Numbers each turn it answers, so that whoever holds the answer can name the turn later.

    Requests that come while the model learns wait until it has; learning waits for those under way.
    Once the weights have changed, what was captured before is forgotten.
    """

    def __init__(
        self, sampler: Sampler, codec: ChatCodec, params: SamplingParams, seed: int
    ) -> None:
        super().__init__(sampler, codec, params, seed)
        self._turns: dict[int, int] = {}
        """Nodes of the graph by the number of the turn."""
        self._first = 0
        """Number of the first turn since the weights last changed."""
        self._next = 0
        self._under_way = 0
        self._is_learning = False
        self._changed = asyncio.Condition()

    async def respond(self, request: ChatRequest) -> ChatTurn:
        """Sample the turn that answers a whole conversation; its `node` is the turn's number."""
        async with self._sampling():
            turn = await super().respond(request)
            number, self._next = self._next, self._next + 1
            self._turns[number] = turn.node
            return replace(turn, node=number)

    def path(self, number: int) -> Sequence[Node] | None:
        """The nodes from the root to a turn; None where there is no such turn."""
        node = self._turns.get(number)
        return None if node is None else [self.nodes[i] for i in self.graph.path(node)]

    def is_stale(self, number: int) -> bool:
        """Whether a turn was answered before the weights last changed."""
        return 0 <= number < self._first

    def forget(self) -> None:
        """Begin anew with other weights."""
        self.graph = RolloutGraph()
        self.nodes = self.graph.nodes
        self._turns.clear()
        self._first = self._next

    @asynccontextmanager
    async def learning(self) -> AsyncIterator[None]:
        """Nothing is sampled in the block."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_learning)
            self._is_learning = True
            try:
                await self._changed.wait_for(lambda: not self._under_way)
            except BaseException:
                self._is_learning = False
                raise
        try:
            yield
        finally:
            async with self._changed:
                self._is_learning = False
                self._changed.notify_all()

    @asynccontextmanager
    async def _sampling(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_learning)
            self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            async with self._changed:
                self._changed.notify_all()
