"""`RemoteSampler`: a pool of replicas as the `Sampler` of a run, constraints included.

A replica that takes the names of actions, or grammars, is asked for the whole turn. What it cannot
be told stays here: an action is walked choice by choice, and the replica is asked for one token
among those that are allowed. The tokens that have no alternative cost no request.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from practicum.core.errors import UserError
from practicum.core.network_thread import NetworkThread
from practicum.core.sampling import Actions, Completion, SamplingRequest
from practicum.core.sampling_json import SampleOrder, is_portable
from practicum.core.task import JSON
from practicum.samplers.replica import PublishedAdapter
from practicum.samplers.replica_pool import ReplicaPool

GREEDY_BELOW = 1e-5
"""Temperature under which drawing is greedy, as in our own engine."""


class ChoosesTokens(Protocol):
    """Where one turn stands among its actions (`engine.sampling.completions.ChoiceWalk`)."""

    text: str | None

    @property
    def done(self) -> bool:
        """Whether an action is complete."""

    def allowed(self) -> tuple[int, ...]:
        """Token ids that may come next, in ascending order."""

    def advance(self, token: int) -> None:
        """Take one of them."""


@dataclass(slots=True)
class WalkedTurn:
    """The tokens of a turn so far, each with what it was chosen among."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    log_kept: list[float] = field(default_factory=list)
    loss_mask: list[bool] = field(default_factory=list)
    choices: list[tuple[int, ...]] = field(default_factory=list)
    tops: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    drawn: int = 0
    cached_tokens: int | None = None

    def add_certain(self, token: int) -> None:
        """A token without alternative."""
        self._add(token, 0.0, 0.0, (token,))
        self.loss_mask.append(False)
        self.tops.append(((token, 0.0),))

    def add_drawn(self, drawn: Completion, allowed: tuple[int, ...]) -> None:
        """A token that a replica has drawn."""
        kept = drawn.log_kept[0] if drawn.log_kept else 0.0
        self._add(drawn.token_ids[0], drawn.logprobs[0], kept, allowed)
        self.loss_mask.append(drawn.temperature > 0.0)
        self.tops.append(drawn.top_logprobs[0] if drawn.top_logprobs else ())
        self.drawn += 1
        if self.cached_tokens is None:
            self.cached_tokens = drawn.cached_tokens

    def _add(self, token: int, logprob: float, kept: float, allowed: tuple[int, ...]) -> None:
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.log_kept.append(kept)
        self.choices.append(allowed)

    def completion(
        self, request: SamplingRequest, walk: ChoosesTokens, fingerprint: str, text: str
    ) -> Completion:
        """What the caller gets."""
        return Completion(
            token_ids=tuple(self.tokens),
            text=text,
            logprobs=tuple(self.logprobs),
            loss_mask=tuple(self.loss_mask),
            log_kept=tuple(self.log_kept) if any(self.log_kept) else (),
            choices=tuple(self.choices),
            temperature=request.params.temperature,
            fingerprint=fingerprint,
            finished=walk.done,
            ended_turn=walk.done,
            cached_tokens=self.cached_tokens or 0,
            top_logprobs=tuple(self.tops) if request.top_logprobs else (),
        )


class RemoteSampler:
    """Implements `Sampler`.

    Args:
        pool: The replicas; each of one kind.
        network: Where the pool lives.
        walk: Where a turn begins that is one of some actions.
        decode: The text of a turn's tokens.
    """

    def __init__(
        self,
        pool: ReplicaPool,
        network: NetworkThread,
        walk: Callable[[Actions], ChoosesTokens],
        decode: Callable[[list[int]], str],
    ) -> None:
        self._pool, self._network = pool, network
        self._walk, self._decode = walk, decode

    def fingerprint(self) -> str:
        """The version that was published last."""
        return self._pool.newest.version

    def forget(self) -> None:
        """Who has which prompt; caches of replicas go by the adapter, which never changes."""
        self._pool.forget()

    @property
    def context_tokens(self) -> int:
        """What the replica with the shortest context has."""
        return self._pool.context_tokens

    def sampling_metrics(self) -> dict[str, JSON]:
        """What has happened with replicas so far, all of it added up."""
        return self._pool.metrics()

    async def sample(self, request: SamplingRequest) -> Completion:
        """One completion, all of it from one version of the weights."""
        params, replica = request.params, self._pool.replicas[0]
        if 0.0 < params.temperature < GREEDY_BELOW:
            request = replace(request, params=replace(params, temperature=0.0))
        elif params.temperature > replica.hottest:  # a failed group's next try; the span tells
            request = replace(request, params=replace(params, temperature=replica.hottest))
        if request.actions and request.grammar is not None:
            raise UserError(
                "a completion has actions or a grammar, not both; leave one of them out"
            )
        if request.grammar is not None and not replica.takes_grammars:
            raise UserError(
                f"{replica.name} cannot hold a turn to a grammar and say how likely its tokens "
                "are, which learning needs; train with sampler=practicum or sampler=engine"
            )
        adapter = self._pool.newest
        if request.actions and not (replica.writes_actions and is_portable(request)):
            completion = await self._by_choices(request, adapter)
        else:
            completion = await self._draw(SampleOrder(request=request), adapter)
        if request.on_sampled is not None:
            request.on_sampled(len(completion.token_ids))
        if request.on_tokens is not None:
            request.on_tokens(completion.token_ids)
        return completion

    async def _by_choices(self, request: SamplingRequest, adapter: PublishedAdapter) -> Completion:
        walk, turn, version = self._walk(request.actions), WalkedTurn(), adapter.version
        while not walk.done and len(turn.tokens) < request.params.max_tokens:
            allowed = walk.allowed()
            if len(allowed) == 1:
                turn.add_certain(allowed[0])
            else:
                piece = replace(
                    request,
                    prompt_ids=(*request.prompt_ids, *turn.tokens),
                    params=replace(request.params, max_tokens=1, stop=()),
                    actions=(),
                    drawn=turn.drawn,
                )
                turn.add_drawn(
                    await self._draw(SampleOrder(request=piece, among=allowed), adapter), allowed
                )
            walk.advance(turn.tokens[-1])
        said = walk.text if walk.text is not None else self._decode(turn.tokens)
        return turn.completion(request, walk, version, said)

    async def _draw(self, order: SampleOrder, adapter: PublishedAdapter) -> Completion:
        return await self._network.run_async(self._pool.draw(order, adapter))
