"""Capture: a conversation that keeps every token it gave to and got from the model."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from practicum.core.interfaces import ChatCodec, Sampler
from practicum.core.sampling import ActionForm, Completion, SamplingParams, SamplingRequest
from practicum.core.trace import Message, SampledSpan, ToolSpec
from practicum.gateway.node_path import NodePath

__all__ = ["CapturedConversation", "turn_seed"]


class CapturedConversation(NodePath):
    """Appends messages and completions to one path of nodes.

    Tokens of earlier turns are sent again as they were recorded; only new messages are tokenised.
    """

    def __init__(
        self, sampler: Sampler, codec: ChatCodec, params: SamplingParams, seed: int
    ) -> None:
        self._sampler = sampler
        self._codec = codec
        self._params = params
        self._seed = seed
        self._path: tuple[int, ...] = ()
        self._ended_turn = True
        super().__init__()

    async def complete(
        self,
        messages: Sequence[Message],
        actions: tuple[ActionForm, ...] = (),
        tools: tuple[ToolSpec, ...] = (),
    ) -> Completion:
        """Add messages and sample the assistant's turn after them."""
        if not self.nodes:
            given = self._codec.open(messages, tools)
            self.tools = tools
        else:
            given = self._codec.extend(messages, self._ended_turn)
        prompt = self._path + given
        seed = turn_seed(self._seed, len(self.nodes))
        completion = await self._sampler.sample(
            SamplingRequest(
                prompt_ids=prompt, params=replace(self._params, seed=seed), actions=actions
            )
        )
        self.add(tuple(messages), given)
        said = Message(role="assistant", content=completion.text)
        self.add((said,), completion.token_ids, _span(completion))
        self._path = prompt + completion.token_ids
        self._ended_turn = completion.ended_turn
        return completion


def turn_seed(seed: int, turn: int) -> int:
    """A seed for one turn, far from those of its neighbours.

    >>> turn_seed(0, 0) != turn_seed(0, 2) != turn_seed(1, 0)
    True
    """
    digest = hashlib.blake2b(f"{seed}/{turn}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _span(completion: Completion) -> SampledSpan:
    return SampledSpan(
        logprobs=completion.logprobs,
        loss_mask=completion.loss_mask,
        log_kept=completion.log_kept,
        choices=completion.choices,
        temperature=completion.temperature,
        fingerprint=completion.fingerprint,
    )
