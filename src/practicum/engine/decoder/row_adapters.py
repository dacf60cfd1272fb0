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
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from practicum.core.errors import CheckpointError
from practicum.engine.models.lora import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    adapter_fingerprint,
    host_checksum,
)
from practicum.engine.models.model_limits import check_adapter_limits

PROJECTIONS = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
)
"""The joined projections of a layer, in the order of `LayerParts.projections`."""

PREFIX = "base_model.model.model.layers."
"""What `peft` puts before the names of a decoder's layers."""

PLAIN: dict[str, Any] = {
    "peft_type": "LORA",
    "bias": "none",
    "modules_to_save": [],
    "use_dora": False,
    "rank_pattern": {},
    "alpha_pattern": {},
}
"""Fields of `adapter_config.json`, and what they are in an adapter that can be served."""

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
    check_adapter_limits(folder)
    scale = _scale(_config(folder), folder)
    saved = _tensors(folder)
    names = [
        (f"{PREFIX}{layer}.", group) for layer in range(len(parts.layers)) for group in PROJECTIONS
    ]
    known = {f"{at}{name}.lora_{x}.weight" for at, group in names for name in group for x in "AB"}
    stray = sorted(set(saved) - known)
    if stray or not saved:
        raise _wrong(folder, f"it has {stray[0]}" if stray else "it has no tensors")
    arrays = {name: tensor.float().numpy() for name, tensor in saved.items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():  # it would reach others: one step draws for all rows
            raise _wrong(folder, f"{name} has a value that is not a number")
    projections = [p for layer in parts.layers for p in layer.projections]
    pairs = tuple(
        _pair(arrays, [at + name for name in group], projection, scale, folder)
        for (at, group), projection in zip(names, projections, strict=True)
    )
    return RowAdapter(
        number=next(_numbers),
        fingerprint=adapter_fingerprint(_trained_names(saved), base_fingerprint, host_checksum),
        pairs=pairs,
    )


def _config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG_FILE
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"the adapter in {folder} cannot be read ({error}); name another checkpoint"
        ) from None
    for name, plain in PLAIN.items():
        if config.get(name) not in (None, plain):
            raise _wrong(folder, f"{name} is {config[name]!r:.60}")
    return config


def _scale(config: dict[str, Any], folder: Path) -> float:
    try:
        alpha, rank = float(config["lora_alpha"]), float(config["r"])
    except (KeyError, TypeError, ValueError):
        raise _wrong(folder, f"{CONFIG_FILE} has no lora_alpha and r") from None
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _tensors(folder: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(folder / WEIGHTS_FILE)
    except (OSError, SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(
            f"the adapter in {folder} cannot be read ({reason}); name another checkpoint"
        ) from None


def _trained_names(saved: dict[str, Tensor]) -> list[tuple[str, Tensor]]:
    """The tensors by the names they have while they are trained."""
    return sorted((name.removesuffix("weight") + "default.weight", t) for name, t in saved.items())


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
            raise _wrong(folder, f"{name} has other shapes than the model")
        firsts.append(first)
        seconds.append((slice(begin, begin + size), ranks, second))
        ranks += rank
    if not firsts:
        return None
    joined = np.zeros((ranks, projection.outputs), np.float32)
    for outputs, at, second in seconds:
        joined[at : at + second.shape[1], outputs] = second.T * scale
    first = np.ascontiguousarray(np.concatenate(firsts).T)
    return torch.from_numpy(first).to(like), torch.from_numpy(joined).to(like)


def _begins(sizes: Sequence[int]) -> list[int]:
    return [0, *itertools.accumulate(sizes)][:-1]


def _wrong(folder: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"the adapter in {folder} cannot be served over this base model: {what}; it must be plain "
        "LoRA on the projections of that model's own layers"
    )
