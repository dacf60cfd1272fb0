"""How much memory a run needs, part by part, from sizes alone.

The activations are what `transformers` keeps for the backward pass of a layer whose own weights are
frozen and whose adapters learn. The constants are measured: the estimate is 0 to 20 % above the
peak memory of real updates of SmolLM2-135M with 256 to 1,024 tokens on a CPU.
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
    "attention",
    "logits",
    "KV cache",
    "sampling",
    "libraries",
]

ADAPTER_BYTES = 4
"""Adapters, their gradients and both moments of AdamW are float32 whatever the model is."""

PROMPT_TOKENS = 128
"""Taken for the opening messages of an episode, which its group shares."""

REPLY_TOKENS = 24
"""Taken for what the environment answers to a turn."""

CHOSEN_TOKENS = 8
"""Taken for a turn that is chosen from a list rather than written freely."""

CHOICES = 16
"""Taken for the number of tokens a constrained decision chooses among."""

FIRST_SLOTS, MOST_SLOTS = 2048, 65_536
"""Tokens the sampler's cache holds at first and at most; it doubles as needed."""

LOGITS_COPIES = 5.5
"""Float32 arrays as large as the logits that are alive at once: the logits, their logarithm of
softmax, what entropy needs, and gradients. Measured."""

CHUNK_LOGITS = 2**23
"""Logits that exist at the same time while learning."""

BLOCK_TOKENS = 128
"""Tokens that attend together while learning; each block has a mask over all that it sees: its own
tokens, and the path that leads to it."""

HEAP_HOLES = 1.65
"""On a CPU, what the C library holds for each byte in use: freed pieces between kept ones stay."""

TIGHT_HOLES = 1.1
"""The same for torch's allocator on a device, and for a C library told to give pieces back."""

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
    holes = HEAP_HOLES if device == "cpu" and not compact else TIGHT_HOLES
    cached = cached_tokens(config)
    activations = tokens * _token_bytes(shape, config.lora, width, holes)
    sampling = cached * 2 * (shape.query_width + shape.kv_width) * width
    folded = _folded_bytes(shape, config.lora, width)  # never there while activations are
    batch, lora, rollouts = "algorithm.micro_batch_tokens", "lora", "rollouts"
    parts: list[tuple[PartName, float, str]] = [
        ("weights", shape.parameters * width, "model, model.dtype"),
        ("adapter", learning, lora),
        ("gradients", learning, lora),
        ("optimizer", 2 * learning, lora),
        ("activations", activations, batch),
        ("attention", tokens * holes * _mask_bytes(config), f"{batch}, {rollouts}"),
        ("logits", _logits_bytes(shape, config), f"{batch}, model"),
        ("KV cache", _slots(cached, device) * 2 * shape.layers * shape.kv_width * width, rollouts),
        ("sampling", sampling + max(0.0, folded - activations), rollouts),
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
    group = PROMPT_TOKENS + rollouts.group_size * _episode_tokens(config)
    return min(rollouts.tasks_per_step * group, MOST_SLOTS)


def _episode_tokens(config: RunConfig) -> int:
    """Tokens of an episode behind its prompt."""
    rollouts = config.rollouts
    turn = rollouts.max_tokens if writes_freely(config) else min(rollouts.max_tokens, CHOSEN_TOKENS)
    return rollouts.max_turns * (turn + REPLY_TOKENS)


def _slots(tokens: int, device: str) -> int:
    """Slots that take up memory: on a device all there are, on a CPU those that were written to."""
    slots = FIRST_SLOTS
    while slots < tokens:
        slots *= 2
    return tokens if device == "cpu" else slots


def _token_bytes(shape: ModelShape, lora: LoraConfig, width: int, holes: float) -> float:
    """Bytes held for one token of a micro-batch, through all layers."""
    kept = _kept_bytes(shape, lora, width)
    if holes < HEAP_HOLES:
        return shape.layers * kept * holes
    # Each adapted map adds its output to the frozen one's, and the sum leaves a hole behind.
    linear = shape.projections()
    outputs = sum(linear[target][1] for target in lora.targets if target in linear)
    return shape.layers * (kept * holes + outputs * width)


def _kept_bytes(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """Bytes one layer keeps of one token for the backward pass."""
    norms = 2 * (shape.hidden + 1) * 4  # computed in float32
    attention = 2 * (shape.query_width + shape.kv_width) * width  # queries, keys, values, result
    mlp = 3 * shape.intermediate * width  # gate, its activation, and what it is multiplied with
    return norms + attention + mlp + _adapter_inputs(shape, lora, width)


def _mask_bytes(config: RunConfig) -> float:
    """Bytes of the mask over what one token's block sees; all layers share it."""
    longest = PROMPT_TOKENS + _episode_tokens(config) / 2
    return 4 * (BLOCK_TOKENS + min(longest, config.algorithm.micro_batch_tokens / 2))


def _folded_bytes(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """The weights with the adapter folded in, which sampling has besides the base weights."""
    linear = shape.projections()
    sizes = (linear[target] for target in lora.targets if target in linear)
    return shape.layers * width * sum(inputs * outputs for inputs, outputs in sizes)


def _adapter_inputs(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """What the adapters keep: their inputs, and the r numbers in their middle.

    In float32 without dropout adapters of the same input share it, and the one behind attention
    has attention's result, which is kept already. Otherwise each has a float32
    copy of its own, and with dropout also the mask, which is as large.
    """
    linear = shape.projections()
    targets = [target for target in lora.targets if target in linear]
    middle = 4 * lora.r * len(targets)
    if lora.dropout > 0 or width < 4:
        copies = 2 if lora.dropout > 0 else 1
        return middle + copies * sum(linear[target][0] * 4 for target in targets)
    shared = {"q_proj": "in", "k_proj": "in", "v_proj": "in", "gate_proj": "mlp", "up_proj": "mlp"}
    own = [target for target in targets if target != "o_proj"]
    inputs = {shared.get(target, target): linear[target][0] for target in own}
    return middle + 4 * sum(inputs.values())


def _logits_bytes(shape: ModelShape, config: RunConfig) -> float:
    """Scores of the whole vocabulary, some tokens at a time, or of the choices at each token."""
    tokens = config.algorithm.micro_batch_tokens
    if writes_freely(config):
        return LOGITS_COPIES * 4 * min(tokens * shape.vocab, CHUNK_LOGITS)
    return 2 * 4 * tokens * CHOICES * shape.hidden
