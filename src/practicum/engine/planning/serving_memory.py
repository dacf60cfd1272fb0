"""The memory of serving: a base model, its packed copy, adapters, and a KV cache in what is left.

An adapter is counted twice, because a swap holds the old and the new one while answers that began
with the old one end.
"""

from dataclasses import dataclass
from typing import Literal

from practicum.core.errors import NotEnoughMemory
from practicum.engine.planning.machine import (
    DTYPE_BYTES,
    Machine,
    available_memory,
    device_kind,
)
from practicum.engine.planning.memory import (
    MOST_SLOTS,
    STEP_TOKENS,
    format_bytes,
    layer_bytes,
    packed_bytes,
    slot_bytes,
)
from practicum.engine.planning.memory_plan import USABLE_SHARE
from practicum.engine.planning.model_shapes import ModelShape

FEWEST_SLOTS = 4096
"""Tokens of KV cache without which serving is refused: two conversations of 2,000 tokens."""

GROWING = 2.5
"""A cache that grows holds its old half while the new one is filled, and a decode run a copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPlan:
    """How much of the memory goes where."""

    kv_slots: int
    """Tokens that the KV cache may hold."""
    weights_bytes: int
    adapters_bytes: int


def plan_serving(
    name: str,
    shape: ModelShape | None,
    adapters: list[int],
    dtype: Literal["float32", "bfloat16"],
    machine: Machine,
    device: str,
) -> ServingPlan:
    """The plan for a base model and adapters of so many bytes on disk.

    Raises:
        NotEnoughMemory: If they do not fit, or leave too little for conversations.
    """
    # Joined projections keep B beside zeros, which makes up to half more of the file's bytes.
    held = 2 * round(1.5 * sum(adapters))
    if shape is None:
        return ServingPlan(kv_slots=MOST_SLOTS, weights_bytes=0, adapters_bytes=held)
    width = DTYPE_BYTES[dtype]
    weights = shape.parameters * width + packed_bytes(shape, width=width, device=device)
    step = layer_bytes(shape, STEP_TOKENS[device_kind(device)], width)
    usable = int(USABLE_SHARE[device_kind(device)] * available_memory(machine, device))
    growing = GROWING if device == "cpu" else 1.0
    slots = int((usable - weights - held - step) / (growing * slot_bytes(shape, width)))
    if slots < FEWEST_SLOTS:
        needed = weights + held + step + int(FEWEST_SLOTS * growing * slot_bytes(shape, width))
        raise NotEnoughMemory(
            f"serving {name} with {len(adapters)} adapters needs about {format_bytes(needed)} and "
            f"{format_bytes(usable)} can be used here; serve fewer adapters or a smaller model, or "
            "close other programs"
        )
    return ServingPlan(kv_slots=min(slots, MOST_SLOTS), weights_bytes=weights, adapters_bytes=held)
