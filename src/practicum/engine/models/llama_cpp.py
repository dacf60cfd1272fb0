"""llama.cpp, by the package `cyllama`: the logits of a .gguf file, and its quantised copies."""

import platform
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from practicum.core.errors import ContextFull, MissingExtra, UserError
from practicum.core.sample import Floats
from practicum.engine.models.file_types import FILE_TYPES

BATCH = 512
"""Tokens that llama.cpp computes at once."""


@cache
def _binding() -> Any:
    try:
        import cyllama.llama.llama_cpp as binding
    except ImportError:
        if sys.platform == "linux" and platform.machine() != "x86_64":
            raise UserError(
                f"llama.cpp's binding has no wheel for Linux on {platform.machine()}; export with "
                "--to merged here, and to .gguf on another machine"
            ) from None
        raise MissingExtra.for_extra("export", "running a .gguf file in llama.cpp") from None
    binding.disable_logging()
    return binding


def quantise(source: Path, target: Path, file_type: str, threads: int) -> None:
    """Writes a copy of a .gguf file in another type."""
    binding = _binding()
    params = binding.LlamaModelQuantizeParams()
    params.ftype = FILE_TYPES[file_type]
    params.nthread = threads
    try:
        binding.model_quantize(str(source), str(target), params)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"llama.cpp cannot write {source.name!r} as {file_type} ({error})"
        ) from error


class LlamaCpp:
    """A .gguf file in llama.cpp, with the tokens of a few conversations in its cache."""

    def __init__(self, file: Path, *, context: int, threads: int, conversations: int = 1) -> None:
        binding = _binding()

        class Model(binding.LlamaModel):  # type: ignore[name-defined]
            n_vocab = 0  # the context asks for it before it gives logits away

        params = binding.LlamaContextParams()
        params.n_ctx, params.n_seq_max = context * conversations, conversations
        params.n_batch = params.n_ubatch = BATCH
        params.n_threads = params.n_threads_batch = threads
        try:
            self._model = Model(str(file), verbose=False)
            self._context = binding.LlamaContext(self._model, params, verbose=False)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"llama.cpp cannot load {file.name!r} ({error})") from error
        self._batch = binding.LlamaBatch(n_tokens=BATCH, embd=0, n_seq_max=1)
        self.vocabulary: int = self._model.get_vocab().n_vocab
        self._model.n_vocab = self.vocabulary
        self.context_tokens = context
        self._cached: list[list[int]] = [[] for _ in range(conversations)]
        self._turns = 0
        self._used = [0] * conversations

    def tokenise(self, text: str) -> list[int]:
        """The tokens of a text, with special ones where it has their names."""
        return list(self._model.get_vocab().tokenize(text, False, True))

    def ends_turn(self, token: int) -> bool:
        """Whether llama.cpp stops at a token."""
        return bool(self._model.get_vocab().is_eog(token))

    def forget(self) -> None:
        """Drop what is cached: what follows is computed as if it came first."""
        self._context.kv_cache_clear()
        self._cached = [[] for _ in self._cached]

    def overlap(self, tokens: Sequence[int]) -> int:
        """How many of the tokens are cached."""
        return max(_common(cached, tokens) for cached in self._cached)

    def logits(self, tokens: Sequence[int], count: int = 1) -> Floats:
        """Logits after each of the last `count` tokens: (count, V), float32."""
        if len(tokens) > self.context_tokens:
            raise ContextFull(
                f"{len(tokens)} tokens do not fit the {self.context_tokens} of this context"
            )
        slot = self._slot(tokens)
        kept = min(_common(self._cached[slot], tokens), len(tokens) - count)
        self._context.memory_seq_rm(slot, kept, -1)
        self._cached[slot] = []  # until all of them are computed
        found: list[Floats] = []
        for begin in range(kept, len(tokens), BATCH):
            part = tokens[begin : begin + BATCH]
            asked = [begin + at >= len(tokens) - count for at in range(len(part))]
            self._batch.reset()
            for at, (token, is_asked) in enumerate(zip(part, asked, strict=True)):
                self._batch.add(token, begin + at, [slot], is_asked)
            self._context.decode(self._batch)
            found += [
                np.asarray(self._context.get_logits_ith(at), np.float32)
                for at, is_asked in enumerate(asked)
                if is_asked
            ]
        self._cached[slot] = list(tokens)
        return np.stack(found)

    def _slot(self, tokens: Sequence[int]) -> int:
        """The conversation that goes on with these tokens, or else the one unused for longest."""
        common = [_common(cached, tokens) for cached in self._cached]
        slot = max(
            range(len(common)),
            key=lambda at: (common[at] == len(self._cached[at]), common[at], -self._used[at]),
        )
        self._turns += 1
        self._used[slot] = self._turns
        return slot


def _common(cached: Sequence[int], tokens: Sequence[int]) -> int:
    """Length of the common prefix."""
    for at, (left, right) in enumerate(zip(cached, tokens, strict=False)):
        if left != right:
            return at
    return min(len(cached), len(tokens))
