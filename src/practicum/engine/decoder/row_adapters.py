"""LoRA adapters by row: each row of a step goes through its own adapter, over one base model.

The base's products are made once for all rows of a step, and each stretch of rows that has an
adapter adds (x A') (s B)' to them. The other way, a folded copy of the adapted weights for each
adapter, reads all weights once for each adapter in every step; at a few rows an adapter that is
what a step costs on a CPU, so eight clients of three adapters would take three times as long. It
would also take a copy of the model in memory for each adapter, and a swap would have to make one.
Here an adapter takes its own bytes (for SmolLM2 with rank 16 on all projections 29 MB, where a
folded copy is 425 MB), two thin products a layer's projection, and a swap is reading a file.

Stretches are computed apart and never masked: a damaged adapter cannot reach another's rows.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from practicum.engine.models.adapter_files import (
    DEFAULTS,
    not_served,
    read_adapter_files,
    require_plain,
)
from practicum.engine.models.lora import saved_fingerprint

PROJECTIONS = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
)
"""The joined projections of a layer, in the order of `LayerParts.projections`."""

PREFIX = "base_model.model.model.layers."
"""What `peft` puts before the names of a decoder's layers."""

Pair = tuple[Tensor, Tensor]
"""A', (in, ranks), and (s B)', (ranks, out), of one joined projection."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowAdapter:
    """An adapter in memory, as rows are computed with it."""

    number: int
    """Unique in the process: what is cached under one number was computed with this adapter."""
    fingerprint: str
    pairs: tuple[Pair | None, ...]
    """Of each projection of each layer; None where it has none."""

    @property
    def cache_key(self) -> int:
        """Added to the tokens of its rows in the prefix cache, so that no adapter finds another's.

        Token ids are below 2**32.
        """
        return self.number << 32

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        tensors = [tensor for pair in self.pairs if pair is not None for tensor in pair]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


Stretch = tuple[int, int, RowAdapter]
"""First row, last row but one, and their adapter."""


class RowAdapters:
    """Which rows of the step that is computed now have which adapter."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []

    def assign(self, rows: Iterable[tuple[int, RowAdapter | None]]) -> None:
        """Lay out a step: pairs of a number of rows and their adapter, in order."""
        self.stretches, at = [], 0
        for adapter, alike in itertools.groupby(rows, key=lambda row: row[1]):
            begin, at = at, at + sum(count for count, _ in alike)
            if adapter is not None:
                self.stretches.append((begin, at, adapter))

    def add(self, layer: int, projection: int, x: Tensor, out: Tensor) -> Tensor:
        """Add to the base's product (T, out) of rows (T, in) what their adapters add to it."""
        number = len(PROJECTIONS) * layer + projection
        for begin, end, adapter in self.stretches:
            pair = adapter.pairs[number]
            if pair is not None:
                first, second = pair
                out[begin:end].addmm_(x[begin:end] @ first, second)
        return out


_numbers = itertools.count(1)


def read_row_adapter(folder: Path, parts: Any, base_fingerprint: str) -> RowAdapter:
    """The adapter in a folder that `peft` can read, for a decoder's parts (`DecoderParts`).

    With numpy, so that it can be done beside sampling: a second thread that computes with torch
    would have workers of its own, and slow the first one down for good.

    Raises:
        CheckpointError: If it cannot be read, or is not plain LoRA on this model's projections.
    """
    files = config, saved = read_adapter_files(folder)
    require_plain(config, folder)
    scale = _scale(config)
    names = [
        (f"{PREFIX}{layer}.", group) for layer in range(len(parts.layers)) for group in PROJECTIONS
    ]
    known = {f"{at}{name}.lora_{x}.weight" for at, group in names for name in group for x in "AB"}
    stray = sorted(set(saved) - known)
    if stray or not saved:
        raise not_served(folder, f"it has {stray[0]}" if stray else "it has no tensors")
    arrays = {name: tensor.float().numpy() for name, tensor in saved.items()}
    projections = [p for layer in parts.layers for p in layer.projections]
    pairs = tuple(
        _pair(arrays, [at + name for name in group], projection, scale, folder)
        for (at, group), projection in zip(names, projections, strict=True)
    )
    return RowAdapter(
        number=next(_numbers),
        fingerprint=saved_fingerprint(files, base_fingerprint),
        pairs=pairs,
    )


def _scale(config: dict[str, Any]) -> float:
    alpha, rank = (float(config.get(name, DEFAULTS[name])) for name in ("lora_alpha", "r"))
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _pair(
    saved: dict[str, Any], names: Sequence[str], projection: Any, scale: float, folder: Path
) -> Pair | None:
    """Both halves of a joined projection; each B beside the outputs of its own part."""
    like, firsts, ranks = projection.base, [], 0
    seconds: list[tuple[slice, int, Any]] = []
    for name, begin, size in zip(names, _begins(projection.sizes), projection.sizes, strict=True):
        first, second = saved.get(f"{name}.lora_A.weight"), saved.get(f"{name}.lora_B.weight")
        if first is None and second is None:
            continue
        rank = 0 if first is None else first.shape[0]
        if (
            first is None
            or second is None
            or not (first.shape == (rank, projection.inputs) and second.shape == (size, rank))
        ):
            raise not_served(folder, f"{name} has other shapes than the model")
        firsts.append(first)
        seconds.append((slice(begin, begin + size), ranks, second))
        ranks += rank
    if not firsts:
        return None
    joined = np.zeros((ranks, projection.outputs), np.float32)
    for outputs, at, second in seconds:
        joined[at : at + second.shape[1], outputs] = second.T * scale
    first = np.ascontiguousarray(np.concatenate(firsts).T)
    if max(np.abs(first).max(), np.abs(joined).max()) > torch.finfo(like.dtype).max:
        # It would reach others: one step draws for all rows.
        raise not_served(folder, f"{names[0]} has values too large for {like.dtype}")
    return torch.from_numpy(first).to(like), torch.from_numpy(joined).to(like)


def _begins(sizes: Sequence[int]) -> list[int]:
    return [0, *itertools.accumulate(sizes)][:-1]
