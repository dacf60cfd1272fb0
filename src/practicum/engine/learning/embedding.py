"""Texts as vectors: the mean of the local model's hidden states."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from practicum.engine.models.loading import LoadedModel

MAX_TOKENS = 1024
"""Of a text. Longer ones keep their beginning and, since the end tells how it went, twice as much
of their end."""

BATCH_TOKENS = 8192
"""Tokens read at once, padding included."""


class ModelEmbedder:
    """Embeds texts with a loaded language model; the same text always gives the same vector.

    Texts are read in batches of about the same length. Padding is on the right, where causal
    attention keeps it from what comes before, and is left out of the mean.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        max_tokens: int = MAX_TOKENS,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        self._busy = threading.Lock()
        self._module = loaded.module
        self._tokenizer = loaded.tokenizer
        context = getattr(loaded.module.config, "max_position_embeddings", max_tokens)
        self._max_tokens = min(max_tokens, int(context))
        self._batch_tokens = batch_tokens
        self.name = f"{loaded.name} ({loaded.fingerprint}, {self._max_tokens} tokens)"
        """Which weights and how much of a text: vectors made otherwise do not compare."""

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """One row for each text; a text without tokens is all zeros. One caller at a time."""
        with self._busy:
            return self._embed(texts)

    def _embed(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        tokens = [self._tokens(text) for text in texts]
        rows = np.zeros((len(texts), int(self._module.config.hidden_size)))
        for part in self._batches(tokens):
            rows[part] = self._means([tokens[index] for index in part])
        return rows

    def _tokens(self, text: str) -> list[int]:
        found = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        if len(found) <= self._max_tokens:
            return list(found)
        head = self._max_tokens // 3
        return [*found[:head], *found[head - self._max_tokens :]]

    def _batches(self, tokens: Sequence[Sequence[int]]) -> list[list[int]]:
        """Indices of texts by length, cut so that a batch's padded size is within bounds."""
        batches: list[list[int]] = []
        for index in sorted(range(len(tokens)), key=lambda i: (len(tokens[i]), i)):
            if not tokens[index]:
                continue
            # Sorted: this one is the longest so far, so the batch is padded to its length.
            if not batches or (len(batches[-1]) + 1) * len(tokens[index]) > self._batch_tokens:
                batches.append([])
            batches[-1].append(index)
        return batches

    @torch.inference_mode()
    def _means(self, tokens: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        device = self._module.device
        longest = max(map(len, tokens))
        lengths = torch.tensor([len(ids) for ids in tokens], device=device)
        padded = torch.tensor(
            [[*ids, *[0] * (longest - len(ids))] for ids in tokens], device=device
        )
        mask = torch.arange(longest, device=device)[None, :] < lengths[:, None]
        hidden: Any = self._module.base_model(
            input_ids=padded, attention_mask=mask.long(), use_cache=False
        ).last_hidden_state
        summed = (hidden.float() * mask[:, :, None]).sum(dim=1)
        return (summed / lengths[:, None]).double().cpu().numpy()
