"""Samples from a .gguf file in llama.cpp, held to actions and grammars as any other policy is.

One completion is computed at a time. Of the requests that wait, the one that has most of its prompt
in the cache comes first, so that an episode whose environment answers at once goes on undisturbed;
but the oldest is passed over only so often.
"""

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from practicum.core.errors import UserError
from practicum.core.sampling import Completion, SamplingRequest
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.models.download import sha256_of
from practicum.engine.models.gguf import read_gguf_tokenizer
from practicum.engine.models.gguf_header import read_gguf_header
from practicum.engine.models.llama_cpp import LlamaCpp
from practicum.engine.models.loading import locate_gguf
from practicum.engine.planning.machine import detect_machine, plan_threads
from practicum.engine.sampling.completions import ActionTrie, ChoiceWalk, PendingCompletion
from practicum.engine.sampling.draw import RandomStream
from practicum.engine.sampling.token_sampler import TokenSampler


class LogitsAsStates:
    """In place of an output layer, where the logits themselves are what there is."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """They are the states."""
        return states

    def choice_logits(self, states: torch.Tensor, choice_ids: torch.Tensor) -> torch.Tensor:
        """Those of (N, K) ids padded with -1, padding at minus infinity."""
        found = states.gather(1, choice_ids.clamp(min=0))
        return found.masked_fill(choice_ids < 0, float("-inf"))


class LlamaCppSampler:
    """A `Sampler` over llama.cpp."""

    def __init__(
        self, model: LlamaCpp, tokenizer: Any, codec: TemplateCodec, fingerprint: str
    ) -> None:
        self._model, self._tokenizer, self._codec = model, tokenizer, codec
        self._fingerprint = fingerprint
        self._chooser = TokenSampler(LogitsAsStates(model.vocabulary), codec)
        self._waiting: list[PendingCompletion] = []  # the oldest first
        self._passed_over = 0
        """How often the oldest was."""
        self._driver: asyncio.Task[None] | None = None

    def fingerprint(self) -> str:
        """Which file."""
        return self._fingerprint

    def forget(self) -> None:
        """Clear the cache."""
        self._model.forget()

    @property
    def context_tokens(self) -> int:
        """How long a prompt and what is sampled after it can be together."""
        return self._model.context_tokens

    async def sample(self, request: SamplingRequest) -> Completion:
        """One completion; others that are asked for meanwhile wait."""
        loop = asyncio.get_running_loop()
        trie = None
        if request.actions:
            trie = ActionTrie(request.actions, self._tokenizer, self._codec.turn_end_id)
        row = PendingCompletion(
            request=request,
            future=loop.create_future(),
            stream=RandomStream(request.params.seed, request.drawn),
            walk=ChoiceWalk(trie) if trie is not None else None,
            tokens=list(request.prompt_ids),
            grammar=None if request.grammar is None else request.grammar.start(),
        )
        self._waiting.append(row)
        if self._driver is None or self._driver.done():
            self._driver = loop.create_task(self._drive())
        return await row.future

    async def _drive(self) -> None:
        while self._waiting:
            row = self._next()
            try:
                await asyncio.to_thread(self._complete, row)
            except Exception as error:  # noqa: BLE001 - the answer to this request alone
                row.failure = error
            row.tell()
            if row.future.done():
                continue  # cancelled
            if row.failure is not None:
                row.future.set_exception(row.failure)
            else:
                row.future.set_result(row.completion(self._fingerprint))
            await _let_others_speak()

    def _next(self) -> PendingCompletion:
        """The request with most of its prompt in the cache, or the oldest when it is its turn."""
        place = 0
        if self._passed_over < MOST_PASSED_OVER:
            overlaps = [self._model.overlap(row.tokens) for row in self._waiting]
            place = overlaps.index(max(overlaps))
        self._passed_over = self._passed_over + 1 if place else 0
        return self._waiting.pop(place)

    def _complete(self, row: PendingCompletion) -> None:
        row.cached_tokens = min(self._model.overlap(row.tokens), len(row.request.prompt_ids))
        if row.walk is not None:
            row.append_forced()
        while not row.is_over:
            logits = self._model.logits(row.tokens)
            self._chooser.choose([row], torch.from_numpy(np.ascontiguousarray(logits)))
        row.set_text(self._codec.decode)


async def _let_others_speak() -> None:
    """Let the episode that was just answered ask for its next turn, if its environment is quick."""
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


MOST_PASSED_OVER = 16
"""Completions that may overtake the oldest request: about the turns of an episode. With n requests
before it, one waits for at most 17 (n + 1) completions, whoever else asks."""

ROUNDS = 20
"""Turns of the event loop that an episode may take between two of its own."""


class OpenGguf(NamedTuple):
    """A .gguf file in llama.cpp, with what reads and writes its conversations."""

    sampler: LlamaCppSampler
    codec: TemplateCodec
    tokenizer: Any


LONGEST = 8192
"""Tokens of context for each conversation, where the model has as many."""
TOGETHER = 4
"""Conversations in the cache."""


def open_gguf(name: str, adapter: Path | None = None) -> OpenGguf:
    """Load a .gguf file in llama.cpp, with the tokenizer and the template that it carries.

    Args:
        name: The file, or the name of a model that is published as one.
        adapter: None; a checkpoint's adapter has to be exported first.
    """
    if adapter is not None:
        raise UserError(
            f"llama.cpp runs .gguf files, and '{name} with an adapter' is none; leave out "
            "model.runtime, or export it with --to gguf"
        )
    file = locate_gguf(name)
    threads = plan_threads(detect_machine(look_for_devices=False))
    tokenizer = read_gguf_tokenizer(file)
    codec = TemplateCodec(tokenizer, model=file.name)
    trained = read_gguf_header(file).of_model("context_length")
    context = min(int(trained or LONGEST), LONGEST)
    model = LlamaCpp(file, context=context, threads=threads, conversations=TOGETHER)
    sampler = LlamaCppSampler(model, tokenizer, codec, sha256_of(file)[:16])
    return OpenGguf(sampler, codec, tokenizer)
