"""`RolloutServer`: serves the conversations of a run's episodes to programs, over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from practicum.core.conversation import Endpoint, RolloutLimits
from practicum.core.errors import ContextFull, MissingExtra
from practicum.core.trace import StopReason
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.requests import ChatRequest, ChatTurn
from practicum.gateway.rollouts import OpenRollouts, Rollout

if TYPE_CHECKING:
    from practicum.gateway.server.gateway_settings import Grammars


class ProgramConversation(CapturedConversation):
    """A conversation with a program, sampled with the run's parameters and not the program's.

    With temperature 0 or a fixed seed all episodes of a group would be the same, and so without a
    learning signal.
    """

    is_full = False
    """Whether a request did not fit the model's context."""
    follows_client = False
    """Whether the program's sampling parameters are used after all."""

    async def respond(self, request: ChatRequest) -> ChatTurn:
        """Samples the turn that answers a whole conversation."""
        if not self.follows_client:
            asked = request.params
            params = replace(
                self.params,
                max_tokens=min(asked.max_tokens, self.params.max_tokens),
                stop=asked.stop,
            )
            request = replace(request, params=params, seed=None)
        try:
            return await super().respond(request)
        except ContextFull:
            self.is_full = True
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedConversation:
    """A conversation with its URL and key; a `ReachableConversation` and `Limited`."""

    conversation: ProgramConversation
    rollout: Rollout
    address: Endpoint

    def endpoint(self) -> Endpoint:
        """Its URL and key, valid until the episode ends."""
        return self.address

    async def complete(self, messages: Any, actions: Any = (), tools: Any = ()) -> Any:
        """See `Conversation`."""
        return await self.conversation.complete(messages, actions, tools)

    def limit_met(self) -> StopReason | None:
        """The limit that a request has met, or that the next one will meet."""
        left_s, turns = self.rollout.time_left_s, self.rollout.use.turns
        if left_s is not None and left_s <= 0:
            return StopReason.TIMED_OUT
        if self.conversation.is_full:
            # A first request that does not fit is the program's mistake, not where a policy led.
            return StopReason.CONTEXT_FULL if turns else None
        most = self.rollout.limits.max_turns
        return StopReason.MAX_TURNS if most and turns >= most else None


class RolloutServer:
    """Serves each conversation as a rollout of its own, inside an `async with` block.

    The HTTP server starts with the first block and stops with the last.
    """

    def __init__(
        self, model: str, limits: RolloutLimits, grammars: "Callable[[], Grammars] | None" = None
    ) -> None:
        self._model = model
        self._grammars = grammars
        self._limits = limits
        self._users = 0
        self._lock = asyncio.Lock()
        self._server: AsyncExitStack | None = None
        self._gateway: Any = None
        self._rollouts = OpenRollouts()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Keeps the HTTP server running for the block."""
        async with self._lock:
            if self._users == 0:
                await self._start()
            self._users += 1
        try:
            yield
        finally:
            async with self._lock:
                self._users -= 1
                if self._users == 0 and self._server is not None:
                    server, self._server = self._server, None
                    await server.aclose()

    @asynccontextmanager
    async def __call__(
        self, conversation: ProgramConversation
    ) -> AsyncIterator[ReachedConversation]:
        """The conversation with a URL and a key that are valid inside the block."""
        async with self.serving():
            rollout = self._rollouts.open(conversation, self._limits)
            try:
                yield ReachedConversation(
                    conversation=conversation,
                    rollout=rollout,
                    address=self._gateway.endpoint(rollout),
                )
            finally:
                self._rollouts.close(rollout.id)

    async def _start(self) -> None:
        try:
            from practicum.gateway.server.gateway_server import Gateway
            from practicum.gateway.server.gateway_settings import GatewaySettings
        except ImportError as error:
            if (error.name or "").startswith("practicum"):
                raise
            needed_for = "an agent that is a program of its own"
            raise MissingExtra.for_extra("gateway", needed_for) from None

        grammars = None if self._grammars is None else self._grammars()
        settings = GatewaySettings()
        self._gateway = Gateway(self._rollouts, settings, (self._model,), grammars=grammars)
        stack = AsyncExitStack()
        await stack.enter_async_context(self._gateway.serving())
        self._server = stack
