"""Conversations that programs reach over HTTP, for as long as their episodes last."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from practicum.core.conversing import Endpoint, RolloutLimits
from practicum.core.errors import ContextFull, MissingExtra
from practicum.core.trace import StopReason
from practicum.gateway import CapturedConversation
from practicum.gateway.requests import ChatRequest, ChatTurn
from practicum.gateway.rollouts import OpenRollouts, Rollout

__all__ = ["GatewayReach", "ProgramConversation", "ReachedConversation"]


class ProgramConversation(CapturedConversation):
    """A conversation that a program holds; the run decides how its turns are drawn.

    A program that sets its temperature to 0, or a seed, would make all episodes of a group alike.
    """

    is_full = False
    """Whether a request did not fit the model's context."""
    follows_client = False
    """Whether the program decides in the run's place."""

    async def respond(self, request: ChatRequest) -> ChatTurn:
        """Sample the turn that answers a whole conversation."""
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
    """A conversation with its address; implements `ReachableConversation`."""

    conversation: ProgramConversation
    rollout: Rollout
    address: Endpoint

    def endpoint(self) -> Endpoint:
        """Its address and key, good until the episode ends."""
        return self.address

    async def complete(self, messages: Any, actions: Any = (), tools: Any = ()) -> Any:
        """See `Conversation`."""
        return await self.conversation.complete(messages, actions, tools)

    def limit_met(self) -> StopReason | None:
        """Which limit of the episode a request has run into, or will with the next one."""
        if self.conversation.is_full:
            return StopReason.CONTEXT_FULL
        most = self.rollout.limits.max_turns
        return StopReason.MAX_TURNS if most and self.rollout.use.turns >= most else None


class GatewayReach:
    """Opens a rollout for each conversation; implements `rollouts.Reach`.

    The server runs while anybody needs it: it starts with the first block and stops with the last.
    """

    def __init__(self, model: str, limits: RolloutLimits, tokenizer: Any = None) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._limits = limits
        self._users = 0
        self._turnstile = asyncio.Lock()
        self._server: AsyncExitStack | None = None
        self._gateway: Any = None
        self._rollouts = OpenRollouts()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Stay reachable for the block."""
        async with self._turnstile:
            if self._users == 0:
                await self._start()
            self._users += 1
        try:
            yield
        finally:
            async with self._turnstile:
                self._users -= 1
                if self._users == 0 and self._server is not None:
                    server, self._server = self._server, None
                    await server.aclose()

    @asynccontextmanager
    async def __call__(
        self, conversation: ProgramConversation
    ) -> AsyncIterator[ReachedConversation]:
        """The conversation with an address and a key, which are good inside the block."""
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
            from practicum.gateway.server import Gateway, GatewaySettings
        except ImportError as error:
            if (error.name or "").startswith("practicum"):
                raise
            needed_for = "an agent that is a program of its own"
            raise MissingExtra.for_extra("gateway", needed_for) from None
        from practicum.policy.grammar import JsonGrammars

        grammars = None if self._tokenizer is None else JsonGrammars(self._tokenizer)
        settings = GatewaySettings()
        self._gateway = Gateway(self._rollouts, settings, (self._model,), grammars=grammars)
        stack = AsyncExitStack()
        await stack.enter_async_context(self._gateway.serving())
        self._server = stack
