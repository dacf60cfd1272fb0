"""How much memory a run needs, part by part, from sizes alone.

The activations are what `transformers` keeps for the backward pass of a layer whose own weights are
frozen and whose adapters learn. The constants are measured: peak memory of a real update of models
of 135M and 0.5B parameters at 256 to 1,024 tokens is 0 to 12 % below the estimate.
"""

import os
from dataclasses import dataclass
from typing import Literal

from practicum.core.config import LoraConfig, RunConfig
from practicum.hardware.placement import DTYPE_BYTES
from practicum.hardware.shapes import ModelShape, lora_parameters

__all__ = ["MemoryPart", "estimate_memory"]

PartName = Literal[
    "weights",
    "adapter",
    "gradients",
    "optimizer",
    "activations",
    "attention mask",
    "logits",
    "KV cache",
    "sampling",
    "libraries",
]

ADAPTER_BYTES = 4
"""Adapters, their gradients and both moments of AdamW are float32 whatever the model is."""

PROMPT_TOKENS = 256
"""Taken for the opening messages of an episode, which its group shares."""

REPLY_TOKENS = 32
"""Taken for what the environment answers to a turn."""

CHOSEN_TOKENS = 16
"""Taken for a turn that is chosen from a list rather than written freely."""

CHOICES = 16
"""Taken for the number of tokens a constrained decision chooses among."""

FIRST_SLOTS, MOST_SLOTS = 2048, 65_536
"""Tokens the sampler's cache holds at first and at most; it doubles as needed."""

LOGITS_COPIES = 5.5
"""Float32 arrays as large as the logits that are alive at once: the logits, their logarithm of
softmax, what entropy needs, and gradients. Measured."""

HEAP_HOLES = 1.45
"""On a CPU, what the C library holds for each byte in use: freed pieces between kept ones stay."""

DEVICE_HOLES = 1.1
"""The same for torch's allocator on a device."""

LIBRARY_BYTES = {"cpu": 512 << 20, "cuda": 1024 << 20, "mps": 1024 << 20}
"""Python, torch, transformers and peft on a CPU; context and workspaces on a device."""

COMPACT_THRESHOLD_BYTES = 1 << 20
"""With the C library's `MALLOC_MMAP_THRESHOLD_` at or under this, freed pieces are given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One part of the estimate, and what it hangs on."""

    name: PartName
    bytes: int
    depends_on: str


def estimate_memory(
    shape: ModelShape,
    config: RunConfig,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    compact_heap: bool | None = None,
) -> tuple[MemoryPart, ...]:
    """The parts of a run's memory at its peak.

    Args:
        shape: Sizes of the model.
        config: Whose batch, rollout and adapter settings count.
        device: `cpu`, `cuda` or `mps`.
        dtype: Precision of the weights.
        compact_heap: Whether the C library gives freed pieces back; the environment says so
            unless told.
    """
    width = DTYPE_BYTES[dtype]
    tokens = config.algorithm.micro_batch_tokens
    learning = lora_parameters(shape, config.lora) * ADAPTER_BYTES
    compact = is_heap_compact() if compact_heap is None else compact_heap
    cached = cached_tokens(config)
    batch, lora, rollouts = "algorithm.micro_batch_tokens", "lora", "rollouts"
    parts: list[tuple[PartName, float, str]] = [
        ("weights", shape.parameters * width, "model, model.dtype"),
        ("adapter", learning, lora),
        ("gradients", learning, lora),
        ("optimizer", 2 * learning, lora),
        ("activations", tokens * _token_bytes(shape, config.lora, width, device, compact), batch),
        ("attention mask", tokens * tokens * (1 + shape.layers * width), batch),
        ("logits", _logits_bytes(shape, config), f"{batch}, model"),
        ("KV cache", _slots(cached) * 2 * shape.layers * shape.kv_width * width, rollouts),
        ("sampling", cached * 2 * (shape.query_width + shape.kv_width) * width, rollouts),
        ("libraries", LIBRARY_BYTES[device], "device"),
    ]
    return tuple(
        MemoryPart(name=name, bytes=int(size), depends_on=keys) for name, size, keys in parts
    )


def is_heap_compact() -> bool:
    """Whether the environment tells the C library to give freed pieces back."""
    value = os.environ.get("MALLOC_MMAP_THRESHOLD_", "")
    return value.isdigit() and int(value) <= COMPACT_THRESHOLD_BYTES


def writes_freely(config: RunConfig) -> bool:
    """Whether turns are written freely rather than chosen from a list of actions."""
    return config.env.options.get("actions") == "free"


def cached_tokens(config: RunConfig) -> int:
    """Tokens of all episodes of a step; groups share their prompt, turns their history."""
    rollouts = config.rollouts
    turn = rollouts.max_tokens if writes_freely(config) else min(rollouts.max_tokens, CHOSEN_TOKENS)
    episode = rollouts.max_turns * (turn + REPLY_TOKENS)
    tokens = rollouts.tasks_per_step * (PROMPT_TOKENS + rollouts.group_size * episode)
    return min(tokens, MOST_SLOTS)


def _slots(tokens: int) -> int:
    slots = FIRST_SLOTS
    while slots < tokens:
        slots *= 2
    return slots


def _token_bytes(
    shape: ModelShape, lora: LoraConfig, width: int, device: str, compact: bool
) -> float:
    """Bytes held for one token of a micro-batch, through all layers."""
    kept = _kept_bytes(shape, lora, width)
    if device != "cpu":
        return shape.layers * kept * DEVICE_HOLES
    if compact:
        return shape.layers * kept * 1.1
    # Each adapted map adds its output to the frozen one's, and the sum leaves a hole behind.
    linear = shape.projections()
    outputs = sum(linear[target][1] for target in lora.targets if target in linear)
    return shape.layers * (kept * HEAP_HOLES + outputs * width)


def _kept_bytes(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """Bytes one layer keeps of one token for the backward pass."""
    norms = 2 * shape.hidden * 4  # computed in float32
    attention = 4 * shape.query_width * width + 4 * shape.heads  # queries, keys, values, result
    mlp = 3 * shape.intermediate * width  # gate, its activation, and what it is multiplied with
    return norms + attention + mlp + _adapter_inputs(shape, lora, width)


def _adapter_inputs(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """What the adapters keep: their inputs, and the r numbers in their middle.

    In float32 without dropout adapters of the same input share it, and `o_proj`'s is the attention
    result, kept already. Otherwise each has a float32 copy of its own, with dropout also a mask.
    """
    linear = shape.projections()
    targets = [target for target in lora.targets if target in linear]
    middle = 4 * lora.r * len(targets)
    if lora.dropout > 0:
        return middle + sum(linear[target][0] * (4 + 1) for target in targets)
    if width < 4:
        return middle + sum(linear[target][0] * 4 for target in targets)
    shared = {"q_proj": "in", "k_proj": "in", "v_proj": "in", "gate_proj": "mlp", "up_proj": "mlp"}
    inputs = {shared.get(t, t): linear[t][0] for t in targets if t != "o_proj"}
    return middle + 4 * sum(inputs.values())


def _logits_bytes(shape: ModelShape, config: RunConfig) -> float:
    """Scores of the whole vocabulary at every free token, or of the choices at each constrained."""
    tokens = config.algorithm.micro_batch_tokens
    if writes_freely(config):
        return LOGITS_COPIES * 4 * tokens * shape.vocab
    return 2 * 4 * tokens * CHOICES * shape.hidden
