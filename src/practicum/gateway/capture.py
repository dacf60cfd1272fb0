"""Capture: a conversation that keeps every token it gave to and got from the model."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from practicum.core.conversing import HistoryCodec, TurnDelta
from practicum.core.errors import ContextFull
from practicum.core.interfaces import ChatCodec, Sampler
from practicum.core.sampling import ActionForm, Completion, SamplingParams, SamplingRequest
from practicum.core.trace import Message, Node, ToolSpec
from practicum.gateway.graph import RolloutGraph
from practicum.gateway.requests import ChatRequest, ChatTurn
from practicum.gateway.telling import Hearing, Telling, as_asked

__all__ = ["CapturedConversation", "turn_seed"]


class CapturedConversation:
    """One rollout's line to the model; all that goes through it is in `nodes`.

    `complete` appends to one path: tokens of earlier turns are sent again as they were recorded,
    and only new messages are tokenised. `respond` is for clients that send their whole conversation
    with each request; turns that were sampled here keep their tokens there too.

    Args:
        sampler: The model.
        codec: Its chat template; a `HistoryCodec` where `respond` is used.
        params: What is sampled with where a request says nothing.
        seed: Decides every turn's seed.
        context_tokens: How long a prompt and its answer can be together, if the sampler does not
            say so itself. A request that asks for more than is left gets what is left.
    """

    def __init__(
        self,
        sampler: Sampler,
        codec: ChatCodec,
        params: SamplingParams,
        seed: int,
        *,
        context_tokens: int | None = None,
    ) -> None:
        self.graph = RolloutGraph()
        self.nodes: list[Node] = self.graph.nodes
        self.tools: tuple[ToolSpec, ...] = ()
        """Those that were offered, each once."""
        self.params = params
        """What is sampled with where a request says nothing."""
        self.codec = codec
        self._sampler = sampler
        self._seed = seed
        self._last: int | None = None
        self._path: tuple[int, ...] = ()
        self._said: list[Message] = []
        self._ended_turn = True
        self._begun = 0
        if context_tokens is None:
            context_tokens = int(getattr(sampler, "context_tokens", 0))
        self._context_tokens = context_tokens

    async def complete(
        self,
        messages: Sequence[Message],
        actions: tuple[ActionForm, ...] = (),
        tools: tuple[ToolSpec, ...] = (),
    ) -> Completion:
        """Add messages and sample the assistant's turn after them."""
        if self._last is None:
            given = self.codec.open(messages, tools)
            self._offer(tools)
        else:
            given = self.codec.extend(messages, self._ended_turn)
        prompt = self._path + given
        seed = turn_seed(self._seed, len(self.nodes))
        completion = await self._sampler.sample(
            SamplingRequest(
                prompt_ids=prompt, params=replace(self.params, seed=seed), actions=actions
            )
        )
        # How long it took is left out: the same run made twice must leave the same nodes.
        parent = self.graph.add_given(self._last, tuple(messages), given)
        said = Message(role="assistant", content=completion.text)
        self._last = self.graph.add_turn(parent, said, completion)
        self._said += messages
        self.graph.remember(self._last, self._said)
        self._said.append(said)
        self._path = prompt + completion.token_ids
        self._ended_turn = completion.ended_turn
        return completion

    async def respond(self, request: ChatRequest) -> ChatTurn:
        """Sample the turn that answers a whole conversation.

        A request that fails or is cancelled leaves nothing behind.
        """
        codec = cast(HistoryCodec, self.codec)
        prompt = self.prompt_of(request)
        params = self._fitted(request.params, len(prompt))
        reader = codec.reader(request.tools if request.may_call else ())
        telling = Telling(request.on_delta or _unheard, params.stop, one_call=request.one_call)
        hearing = Hearing(reader, telling)
        started = time.monotonic()
        completion = await self._sampler.sample(
            SamplingRequest(
                prompt_ids=prompt,
                params=replace(params, seed=self._next_seed(request.seed)),
                grammar=request.grammar,
                top_logprobs=request.top_logprobs,
                on_tokens=hearing.hear if request.on_delta is not None else None,
            )
        )
        took = time.monotonic() - started
        hearing.end(completion.token_ids)
        message = as_asked(reader.message(), params.stop, one_call=request.one_call)
        parent = self.graph.place(prompt, request.messages)
        node = self.graph.add_turn(parent, message, completion, took)
        self.graph.remember(node, request.messages)
        self._offer(request.tools)
        return ChatTurn(
            message=message,
            completion=completion,
            prompt_tokens=len(prompt),
            node=node,
            prompt_ids=prompt,
        )

    def _fitted(self, params: SamplingParams, prompt_tokens: int) -> SamplingParams:
        """The params with no more tokens than the context has room for."""
        if not self._context_tokens:
            return params
        room = self._context_tokens - prompt_tokens
        if room < 1:
            raise ContextFull(
                f"the conversation is {prompt_tokens} tokens long and the model's context holds "
                f"{self._context_tokens}, its answer included; send a shorter one"
            )
        return replace(params, max_tokens=min(params.max_tokens, room))

    def prompt_of(self, request: ChatRequest) -> tuple[int, ...]:
        """The tokens of a whole conversation; turns that were sampled here as they were sampled."""
        codec = cast(HistoryCodec, self.codec)
        return codec.prompt(request.messages, request.tools, self.graph.turns(request.messages))

    def _next_seed(self, asked: int | None) -> int:
        """The client's seed, or one of the turn's own; turns under way at once have different ones.

        A client that answers in turn samples with the seeds that `complete` would use.
        """
        turn, self._begun = self._begun, self._begun + 1
        return turn_seed(self._seed, 2 * turn) if asked is None else asked

    def _offer(self, tools: Sequence[ToolSpec]) -> None:
        known = {tool.name for tool in self.tools}
        self.tools += tuple(tool for tool in tools if tool.name not in known)


def turn_seed(seed: int, turn: int) -> int:
    """A seed for one turn, far from those of its neighbours.

    >>> turn_seed(0, 0) != turn_seed(0, 2) != turn_seed(1, 0)
    True
    """
    digest = hashlib.blake2b(f"{seed}/{turn}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _unheard(delta: TurnDelta) -> None:
    """Nobody listens."""
