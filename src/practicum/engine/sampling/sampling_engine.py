"""The sampler: continuous batching over a shared KV cache, on the module that also learns.

Each step takes every request that is waiting, finds what the prefix cache already holds, sends the
missing tokens of all rows through the model as one unpadded row, and draws one token for each.
Requests that begin alike share the computation, even when they arrive together. Steps are computed
in the thread that also learns, so that the event loop goes on serving whoever is not waiting for a
token: sandboxes, servers, clients. All that is shared with callers belongs to the event loop and
changes between steps only; with no outside delays the order of everything is fixed, so the same
seed gives the same bits.

Weights change between two steps, and by a new version the engine knows it: completions under way go
on from the tokens they have, computed anew, and are recorded as begun with the weights of their
first token.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch

from practicum.core.errors import ContextFull, UserError
from practicum.core.sampling import ActionForm, Completion, SamplingRequest
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.compute_thread import beside_loop, computed
from practicum.engine.decoder.attention import KvPool
from practicum.engine.decoder.decoders import Decoder
from practicum.engine.decoder.head import Head
from practicum.engine.decoder.row_adapters import RowAdapter, RowAdapters
from practicum.engine.sampling.completions import ActionTrie, ChoiceWalk, PendingCompletion, spell
from practicum.engine.sampling.decode_run import DecodeRun, begin_decode_run
from practicum.engine.sampling.draw import RandomStream
from practicum.engine.sampling.scheduler import PrefixCache, SlotAllocator, StepSlots, plan_step
from practicum.engine.sampling.token_sampler import TokenSampler

STEP_TOKENS = 4096
"""Tokens computed at once on a CPU; a longer prompt goes alone."""

STEP_TOKENS_CUDA = 16_384
"""And on a GPU."""

FIRST_SLOTS = 2048
"""Cache slots at the start; the pool doubles as it is needed, up to its limit."""

BURST_STEPS = 64
"""Tokens a row may get between two looks at who waits."""

USUAL_TOKENS = 32.0
"""Tokens that completions are taken to have before any is over."""

GREEDY_BELOW = 1e-5
"""Temperature under which drawing is greedy: divided by less, logits overflow."""

MAX_TRIES = 256
"""Sets of actions whose token trie is kept."""

SETTLE_TURNS = 3
"""Turns of the event loop in which callers may bring their next request before a step begins."""


class TorchEngine:
    """Samples from a `transformers` causal language model, its decoder computed as it is given."""

    def __init__(
        self,
        causal_lm: Any,
        decoder: Decoder,
        tokenizer: Any,
        codec: TemplateCodec,
        *,
        fingerprint: Callable[[], str],
        max_slots: int = 65_536,
        rows: RowAdapters | None = None,
    ) -> None:
        self._rows = rows
        self._decoder = decoder
        self._head = Head(causal_lm)
        self._tokenizer = tokenizer
        self._codec = codec
        self._fingerprint = fingerprint
        self._max_slots = max_slots
        self._max_positions = int(causal_lm.config.max_position_embeddings)
        heads = causal_lm.config.num_attention_heads
        kv_heads = getattr(causal_lm.config, "num_key_value_heads", None) or heads
        self._heads_per_key = heads // kv_heads
        weight = causal_lm.get_output_embeddings().weight
        self._device = weight.device
        self._step_tokens = STEP_TOKENS_CUDA if weight.is_cuda else STEP_TOKENS
        # A GPU's captured steps hold the pool's addresses, so there it never moves.
        first = max_slots if weight.is_cuda else min(FIRST_SLOTS, max_slots)
        self._cache = PrefixCache(first)
        self._pool = KvPool(causal_lm.config, first, weight.dtype, weight.device)
        self._places = SlotAllocator(self._cache, self._pool, max_slots)
        self._tries: dict[tuple[ActionForm, ...], ActionTrie] = {}
        self._arrived: list[PendingCompletion] = []  # while a step was computed
        self._waiting: deque[PendingCompletion] = deque()
        self._active: list[PendingCompletion] = []
        self._over: list[PendingCompletion] = []  # in this step, without a place in it
        self._decode_run: DecodeRun | None = None
        self._chooser = TokenSampler(self._head, codec)
        self._driver: asyncio.Task[None] | None = None
        self._usual_tokens = USUAL_TOKENS
        self._version = fingerprint()
        """The weights that the cache and the rows under way were computed with."""
        self.computed_tokens = 0
        """Tokens sent through the model so far."""
        self.passes = 0
        """Times that the model was gone through."""

    def fingerprint(self) -> str:
        """Which weights the next token would come from."""
        return self._fingerprint()

    @property
    def context_tokens(self) -> int:
        """How long a prompt and what is sampled after it can be together."""
        return min(self._max_positions, self._max_slots)

    async def sample(
        self, request: SamplingRequest, adapter: RowAdapter | None = None
    ) -> Completion:
        """One completion; calls made at the same time are computed together.

        `adapter` is this completion's own, where the engine was made with `rows`.
        """
        self._check(request)
        if 0.0 < request.params.temperature < GREEDY_BELOW:
            request = replace(request, params=replace(request.params, temperature=0.0))
        loop = asyncio.get_running_loop()
        row = PendingCompletion(
            request=request,
            future=loop.create_future(),
            stream=RandomStream(request.params.seed, request.drawn),
            walk=ChoiceWalk(self._trie(request.actions)) if request.actions else None,
            tokens=list(request.prompt_ids),
            grammar=None if request.grammar is None else request.grammar.start(),
            adapter=adapter,
            begun_with="" if adapter is None else adapter.fingerprint,
        )
        self._arrived.append(row)
        if self._driver is None or self._driver.done():
            self._driver = loop.create_task(self._drive())
        return await row.future

    @computed
    def forget(self) -> None:
        """Drop the cache, as after an update of the weights."""
        self._drop_cancelled()
        if self._active or self._waiting or self._arrived:
            raise RuntimeError("the cache cannot be dropped while completions are under way")
        self._version = self._fingerprint()
        self._places.clear()
        self._decoder.release()
        self._head.release()

    def _start_over(self) -> None:
        """Put the rows under way back among those that wait, and drop all that was computed."""
        self._drop_decode_run()
        for row in (*self._active, *self._waiting):
            if row.sampled and not row.begun_with:
                row.begun_with = self._version
        self._version = self._fingerprint()
        for row in self._active:
            self._places.let_go(row)
        self._waiting.extendleft(reversed(self._active))
        self._active = []
        self._places.clear()
        self._decoder.release()
        self._head.release()

    def _check(self, request: SamplingRequest) -> None:
        if not request.prompt_ids:
            raise UserError("the prompt is empty; give at least one token")
        if "" in request.params.stop:
            raise UserError("a stop text is empty; leave it out or give it a character")
        if request.actions and request.grammar is not None:
            raise UserError(
                "a completion has actions or a grammar, not both; leave one of them out"
            )
        if request.top_logprobs < 0:
            raise UserError(f"top_logprobs is {request.top_logprobs}; give 0 or more")
        if request.params.seed < 0:
            raise UserError(f"the seed is {request.params.seed}; give 0 or more")
        if not 0 <= min(request.prompt_ids) <= max(request.prompt_ids) < self._head.vocabulary:
            raise UserError("the prompt has a token that the model does not know")
        longest = len(request.prompt_ids) + request.params.max_tokens
        limit = self.context_tokens
        if longest > limit:
            raise ContextFull(
                f"This model's maximum context length is {limit} tokens; a prompt of "
                f"{len(request.prompt_ids)} and {request.params.max_tokens} new ones do not fit; "
                "lower rollouts.max_tokens or max_turns"
            )

    def _trie(self, actions: tuple[ActionForm, ...]) -> ActionTrie:
        if actions not in self._tries:
            if len(self._tries) >= MAX_TRIES:
                self._tries.clear()
            self._tries[actions] = ActionTrie(actions, self._tokenizer, self._codec.turn_end_id)
        return self._tries[actions]

    def spell(self, text: str, actions: tuple[ActionForm, ...]) -> Completion:
        """A turn as if it had been sampled: with the tokens it takes and what they were among.

        Imitation learns from these, and so what practice goes on with.
        """
        choices: list[tuple[int, ...]] = []
        if actions:
            tokens, choices = spell(self._trie(actions), text)
        else:
            tokens = self._tokenizer.encode(text, add_special_tokens=False)
            tokens = [*tokens, self._codec.turn_end_id]
        return Completion(
            token_ids=tuple(tokens),
            text=text,
            logprobs=(0.0,) * len(tokens),
            loss_mask=tuple(len(c) != 1 for c in choices) or (True,) * len(tokens),
            log_kept=(),
            choices=tuple(choices),
            temperature=1.0,
            fingerprint=self._fingerprint(),
            finished=True,
            ended_turn=True,
        )

    async def _drive(self) -> None:
        """Step until nobody waits. An error that is no row's own belongs to every caller."""
        try:
            while self._arrived or self._waiting or self._active:
                await self._settle()
                self._drop_cancelled()
                while not await beside_loop(self._step):
                    pass  # new weights: the rows under way have been put back
                self._answer()
        except BaseException as error:
            self._drop_decode_run()
            rows = [*self._active, *self._waiting, *self._arrived, *self._over]
            self._active, self._waiting, self._arrived, self._over = [], deque(), [], []
            for row in rows:
                self._places.let_go(row)
            self.forget()  # a step that broke off has placed paths it never computed
            for row in rows:
                if not row.future.done():
                    row.future.set_exception(
                        error if isinstance(error, Exception) else asyncio.CancelledError()
                    )
            if not isinstance(error, Exception):
                raise

    def _answer(self) -> None:
        """Tell listeners what is new, and callers whose completion is over."""
        for row in (*self._over, *self._active):
            row.tell()
        for row in self._over:
            self._complete(row)
        self._over.clear()
        for row in [r for r in self._active if r.is_over]:
            self._end_decode_run()  # where a listener failed, it is still under way
            self._complete(row)
            self._active.remove(row)

    async def _settle(self) -> None:
        """Let callers bring their next request, and take in those that came."""
        seen = -1
        while len(self._arrived) != seen:
            seen = len(self._arrived)
            for _ in range(SETTLE_TURNS):
                await asyncio.sleep(0)
        self._waiting += self._arrived
        self._arrived.clear()

    @torch.inference_mode()
    def _step(self) -> bool:
        """Compute a step; False where there are new weights, so that rows must begin again."""
        if self._fingerprint() != self._version:
            self._start_over()
            return False
        self._finish_forced()
        if not self._active and not self._waiting:
            return True
        self._decoder.prepare()
        self._head.prepare()
        if not self._advance_decode_run():
            placed = self._place_rows()
            states = self._compute(placed)
            if self._active:
                self._chooser.choose(self._active, placed.end_states(states))
        return True

    def _advance_decode_run(self) -> bool:
        """A step of the decode run under way, or of a new one where every row is ready for it."""
        if self._decode_run is not None and (
            self._waiting or not self._decode_run.goes_on_with(self._active)
        ):
            self._end_decode_run()
        if self._decode_run is None and not self._begin_decode_run():
            return False
        assert self._decode_run is not None
        self._assign((1, row.adapter) for row in self._active)
        drawn = self._decode_run.advance()
        self.passes += drawn.tokens.shape[1]
        self.computed_tokens += drawn.tokens.size
        for row, *found in zip(self._active, *drawn, strict=True):
            self._chooser.extend(row, *found)
        if not self._decode_run.goes_on_with(self._active):
            self._end_decode_run()
        return True

    def _begin_decode_run(self) -> bool:
        rows = self._active
        if self._waiting or not rows or any(not row.is_ready for row in rows):
            return False
        steps = min(BURST_STEPS, *(row.tokens_left for row in rows))
        # On a CPU laying the cache out for one step costs more than it saves.
        worth = self._device.type == "cuda" or steps > 1
        taken = self._places.take(steps * len(rows)) if worth else None
        if taken is None:
            return False
        rows.sort(key=lambda row: row.cache_key)  # an adapter's rows are computed in one stretch
        self._assign((1, row.adapter) for row in rows)
        fresh = list(taken.reshape(len(rows), steps))
        decode_run = begin_decode_run(
            self._decoder,
            self._pool,
            self._head,
            rows,
            fresh,
            self._chooser.draw,
            self._usual_tokens,
        )
        if decode_run is None:
            self._cache.give_back(taken)
            return False
        self._decode_run = DecodeRun(rows, fresh, decode_run)
        return True

    def _assign(self, rows: Iterable[tuple[int, RowAdapter | None]]) -> None:
        if self._rows is not None:
            self._rows.assign(rows)

    def _drop_decode_run(self) -> None:
        """After a failure: what was computed is not trusted, its slots come back."""
        if self._decode_run is not None:
            self._decode_run.give_back(self._cache)
            self._decode_run = None

    @torch.inference_mode()
    def _end_decode_run(self) -> None:
        if self._decode_run is not None:
            self._decode_run.close(self._cache)
            self._decode_run = None

    def _drop_cancelled(self) -> None:
        self._arrived = [r for r in self._arrived if not r.future.cancelled()]
        self._waiting = deque(r for r in self._waiting if not r.future.cancelled())
        cancelled = [r for r in self._active if r.future.cancelled()]
        if cancelled:
            self._end_decode_run()
        for row in cancelled:
            self._active.remove(row)
            self._places.let_go(row)

    def _finish_forced(self) -> None:
        """Completions without any choice need no model."""
        for row in list(self._waiting):
            if row.walk is not None and not row.sampled:
                row.append_forced()
                if row.is_over:
                    self._waiting.remove(row)
                    self._over.append(row)

    def _place_rows(self) -> StepSlots:
        """Give every row its slots, admitting as many waiting rows as fit."""
        step = StepSlots()
        for row in list(self._active):
            if not self._places.place(row, step):
                self._active.remove(row)
                self._waiting.appendleft(row)
        while self._waiting and step.tokens < self._step_tokens:
            row = self._waiting[0]
            if not self._places.place(row, step):
                if self._active:
                    break
                self._waiting.popleft()
                row.failure = UserError("the KV cache is too small for a single completion")
                self._over.append(row)
                continue
            self._waiting.popleft()
            self._active.append(row)
        return step

    def _compute(self, placed: StepSlots) -> torch.Tensor:
        """Hidden states at the end of each segment, (S, H)."""
        if not placed.segments:
            return torch.zeros(0)
        self._assign((segment.tokens.size, segment.adapter) for segment in placed.segments)
        new = [(segment.tokens, segment.path_slots) for segment in placed.segments]
        states = self._decoder.captured_states(self._pool, new)
        if states is None:
            step = plan_step(placed.segments, self._pool, self._heads_per_key, self._device)
            states = self._decoder.states(step.token_ids, step.positions, step.plan)[step.lasts]
        self.computed_tokens += placed.tokens
        self.passes += 1
        self._places.remember(placed, states)
        return states

    def _complete(self, row: PendingCompletion) -> None:
        """Leave what was computed in the prefix cache and answer the caller."""
        self._usual_tokens += 0.1 * (len(row.sampled) - row.ended_turn - self._usual_tokens)
        row.set_text(self._codec.decode)
        self._places.keep(row)
        if row.future.done():
            return
        if row.failure is not None:
            row.future.set_exception(row.failure)
        else:
            row.future.set_result(row.completion(row.begun_with or self._version))
