"""How much memory a run needs, part by part, from sizes alone.

Sampling and learning take turns. Parts add up to the larger of the two: what sampling needs counts
only as far as it is more than learning needs.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from practicum.core.config import RunConfig
from practicum.hardware.heap import THRESHOLD_BYTES, is_heap_compact
from practicum.hardware.learning import BLOCK_TOKENS, FLOAT32, GATED, LearningSizes, joined_bytes
from practicum.hardware.placement import DTYPE_BYTES
from practicum.hardware.sampling import (
    FIRST_SLOTS,
    MOST_SLOTS,
    captured_bytes,
    conversation_tokens,
    decision_share,
    rollout_tokens,
    sampling_bytes,
    slot_bytes,
    writes_freely,
)
from practicum.hardware.shapes import ModelShape, lora_parameters

__all__ = [
    "Allotment",
    "MemoryPart",
    "estimate_memory",
    "fitting_slots",
    "format_bytes",
    "needed_slots",
    "roomy_batch",
]

GIB = 1 << 30

PartName = Literal[
    "weights",
    "adapter",
    "gradients",
    "optimizer",
    "activations",
    "attention",
    "logits",
    "KV cache",
    "captured steps",
    "sampling",
    "libraries",
]

ROOMY_BATCH = {"cpu": 2048, "cuda": 4096, "mps": 2048}
"""Tokens of a micro-batch that keep a device busy."""

CHOICES = 16
"""Taken for the number of tokens a constrained decision chooses among."""

CHUNK_LOGITS = {"cpu": 3 * 2**22, "cuda": 2**27, "mps": 3 * 2**22}
"""Logits that exist at the same time while learning."""

CHUNK_COPIES = {"cpu": 2.0, "cuda": 2.5, "mps": 2.0}
"""Float32 arrays as large as that chunk: logits, what is made of them, and on GPUs the next."""

CAPPED_COPIES = 5.0
"""The same for families that may bend their logits, which are computed by their module."""

HEAP_HOLES = 1.85
"""On a CPU, what the C library holds for each byte in use: freed pieces between kept ones stay.
The largest of updates of SmolLM2-135M's shape with 256 to 2,048 tokens, without gated adapters."""

ADAPTED_HOLES = 1.5
"""The same where the gated part has adapters: fewer pieces then are as large as kept ones."""

TIGHT_HOLES = 1.1
"""The same for torch's allocator on a device, and for a C library told to give pieces back."""

LIBRARY_BYTES = {"cpu": 512 << 20, "cuda": 1024 << 20, "mps": 1024 << 20}
"""Python, torch, transformers and peft on a CPU; context and workspaces on a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One part of the estimate, and what it hangs on."""

    name: PartName
    bytes: int
    depends_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """What a run takes of the memory by choice."""

    batch_tokens: int
    """Unique tokens that are learned from at once; a longer conversation goes alone."""
    checkpointed: bool
    """Whether only each layer's input is kept for the way back."""
    kv_slots: int
    """Tokens that the sampler's cache can hold."""

    @classmethod
    def of(cls, config: RunConfig, device: str) -> "Allotment":
        """What is best where memory is no concern."""
        tokens = config.algorithm.micro_batch_tokens or roomy_batch(config, device)
        return cls(batch_tokens=tokens, checkpointed=False, kv_slots=needed_slots(config))


def format_bytes(count: int) -> str:
    """Bytes in the unit a person would choose.

    >>> format_bytes(1_610_612_736)
    '1.5 GiB'
    """
    if count >= GIB:
        return f"{count / GIB:.1f} GiB"
    return f"{count / (1 << 20):.0f} MiB"


def roomy_batch(config: RunConfig, device: str) -> int:
    """Tokens of a micro-batch that keeps the device busy and divides no conversation."""
    return max(ROOMY_BATCH[device], conversation_tokens(config))


def needed_slots(config: RunConfig) -> int:
    """Slots for all episodes of a step, so that none is computed twice."""
    return fitting_slots(rollout_tokens(config))


def fitting_slots(tokens: int) -> int:
    """The cache's size for so many tokens: it doubles, up to its limit."""
    slots = FIRST_SLOTS
    while slots < min(tokens, MOST_SLOTS):
        slots *= 2
    return slots


def estimate_memory(
    shape: ModelShape,
    config: RunConfig,
    allotment: Allotment | None = None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    compact_heap: bool | None = None,
) -> tuple[MemoryPart, ...]:
    """The parts of a run's memory at its peak.

    Args:
        shape: Sizes of the model.
        config: Whose rollout and adapter settings count.
        allotment: Batch, cache and what is kept; unless told, as if memory were no concern.
        device: `cpu`, `cuda` or `mps`.
        dtype: Precision of the weights.
        compact_heap: Whether the C library gives freed pieces back; the environment says so
            unless told. A checkpointed run on a CPU makes it do so.
    """
    given = allotment or Allotment.of(config, device)
    width, lora = DTYPE_BYTES[dtype], config.lora
    learning = lora_parameters(shape, lora) * FLOAT32
    compact = is_heap_compact() if compact_heap is None else compact_heap
    sizes = LearningSizes(shape=shape, lora=lora, width=width, device=device)
    tokens = max(given.batch_tokens, conversation_tokens(config))
    heap = _heap(sizes, given, tokens, compact=compact)
    update = _update_parts(sizes, config, given, heap)
    sampling = sampling_bytes(shape, config, given.kv_slots, width=width, device=device)
    captured = captured_bytes(shape, config, width=width, device=device)
    beyond = max(0.0, sampling - sum(size for _, size, _ in update))
    parts: list[_Part] = [
        ("weights", shape.parameters * width, "model, model.dtype"),
        ("adapter", learning + joined_bytes(shape, lora, width), "lora"),
        ("optimizer", 2 * learning, "lora"),
        *update,
        ("KV cache", (given.kv_slots + 1) * slot_bytes(shape, width), "rollouts"),
        ("captured steps", captured, "rollouts, model"),
        ("sampling", beyond, "rollouts; beyond what learning takes"),
        ("libraries", LIBRARY_BYTES[device], "device"),
    ]
    return tuple(
        MemoryPart(name=name, bytes=int(size), depends_on=keys) for name, size, keys in parts
    )


_Part = tuple[PartName, float, str]


def _update_parts(
    sizes: LearningSizes, config: RunConfig, given: Allotment, heap: "Heap"
) -> list[_Part]:
    """What is there while learning. Logits are gone when the way back begins."""
    path = conversation_tokens(config)
    tokens = max(given.batch_tokens, path)
    kept = heap.loose_bytes + heap.holes * sizes.kept(tokens, checkpointed=given.checkpointed)
    back = heap.holes * sizes.way_back(tokens, path, checkpointed=given.checkpointed)
    masks = heap.holes * _attention_bytes(tokens, sizes.device)
    logits = _logits_bytes(sizes, config, tokens)
    # A batch's own gradients grow beside their sum while what was kept becomes free.
    summed = lora_parameters(sizes.shape, sizes.lora) * FLOAT32
    gradients = summed + max(0.0, summed - kept)
    batch = "algorithm.micro_batch_tokens"
    return [
        ("gradients", gradients, "lora"),
        ("activations", kept + back, batch),
        ("attention", masks, batch),
        ("logits", max(0.0, logits - back), f"{batch}, model; beyond activations"),
    ]


class Heap(NamedTuple):
    """What an allocator holds beyond what is in use."""

    holes: float = 1.0
    """Bytes held for each byte in use."""
    loose_bytes: int = 0
    """And besides."""


def _heap(sizes: LearningSizes, given: Allotment, tokens: int, *, compact: bool) -> Heap:
    if sizes.device != "cpu":
        return Heap(TIGHT_HOLES)
    if given.checkpointed:
        # Pieces that are too small to be given back leave about one such hole a layer.
        is_small = tokens * sizes.shape.hidden * sizes.width < THRESHOLD_BYTES
        return Heap(TIGHT_HOLES, sizes.shape.layers * THRESHOLD_BYTES if is_small else 0)
    if compact:
        return Heap(TIGHT_HOLES)
    is_gated = not GATED.isdisjoint(sizes.lora.targets)
    return Heap(ADAPTED_HOLES if is_gated and sizes.is_joined else HEAP_HOLES)


def _attention_bytes(tokens: int, device: str) -> float:
    """What all layers share: each block's mask over what not all of it sees, or lists of blocks."""
    if device == "cuda":
        return tokens**2 / 100
    return tokens * FLOAT32 * 2 * BLOCK_TOKENS


def _logits_bytes(sizes: LearningSizes, config: RunConfig, tokens: int) -> float:
    """Scores of the whole vocabulary, some tokens at a time, or of the choices at each token."""
    shape, device = sizes.shape, sizes.device
    decisions = tokens * decision_share(config)
    if not writes_freely(config):
        return 2 * FLOAT32 * decisions * CHOICES * shape.hidden
    copies = CHUNK_COPIES[device] if shape.is_joined else CAPPED_COPIES
    chunk = min(decisions * shape.vocab, max(CHUNK_LOGITS[device], shape.vocab))
    rows = 4 * decisions * shape.hidden * sizes.width  # states, and directions before and after
    return copies * FLOAT32 * chunk + rows
