"""`SharedConversation`: many conversations with one model, paused while the model learns."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from practicum.core.interfaces import ChatCodec, Sampler
from practicum.core.sampling import SamplingParams
from practicum.core.trace import Node
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.graph import RolloutGraph
from practicum.gateway.requests import ChatRequest, ChatTurn


class SharedConversation(CapturedConversation):
    """Records the turns of all conversations, each with a number by which it is found later.

    Sampling and learning exclude each other: new requests wait while the model learns, and learning
    waits for requests in progress. After the weights have changed, `forget` drops all turns.
    """

    def __init__(
        self, sampler: Sampler, codec: ChatCodec, params: SamplingParams, seed: int
    ) -> None:
        super().__init__(sampler, codec, params, seed)
        self._turns: dict[int, int] = {}
        """Nodes of the graph by turn number."""
        self._first = 0
        """Number of the first turn since the weights last changed."""
        self._next = 0
        self._under_way = 0
        self._is_learning = False
        self._changed = asyncio.Condition()

    async def respond(self, request: ChatRequest) -> ChatTurn:
        """Samples the turn that answers a whole conversation; its `node` is the turn's number."""
        async with self._sampling():
            turn = await super().respond(request)
            number, self._next = self._next, self._next + 1
            self._turns[number] = turn.node
            return replace(turn, node=number)

    def path(self, number: int) -> Sequence[Node] | None:
        """The nodes from the root to a turn; None if there is no such turn."""
        node = self._turns.get(number)
        return None if node is None else [self.nodes[i] for i in self.graph.path(node)]

    def is_stale(self, number: int) -> bool:
        """Whether a turn was sampled before the weights last changed."""
        return 0 <= number < self._first

    def forget(self) -> None:
        """Drops all recorded turns, whose numbers are stale from now on."""
        self.graph = RolloutGraph()
        self.nodes = self.graph.nodes
        self._turns.clear()
        self._first = self._next

    @asynccontextmanager
    async def learning(self) -> AsyncIterator[None]:
        """Waits for requests in progress, and holds new ones back during the block."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_learning)
            # Set before waiting, so that new requests queue up and cannot starve the learner.
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
