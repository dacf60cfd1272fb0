"""Estimates the peak memory of a run, part by part, from the model's shape and the config.

Order: `estimate_memory` and its parts, tokens and bytes of sampling, bytes of learning. Models of
the fused decoder keep few activations; other families, and any family with LoRA dropout, keep what
their `transformers` modules keep. Base weights are frozen in both.

Sampling and learning alternate, so what sampling needs counts only beyond what learning needs.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from practicum.core.config.config_sections import LoraConfig
from practicum.core.config.run_config import RunConfig
from practicum.engine.planning.machine import DTYPE_BYTES, THRESHOLD_BYTES, is_heap_compact
from practicum.engine.planning.model_shapes import ModelShape, lora_parameters

GIB = 1 << 30

FrozenRole = Literal["teacher", "judge", "embedder"]

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
    "teacher",
    "judge",
    "embedder",
    "replicas",
]

PREFERRED_BATCH = {"cpu": 2048, "cuda": 4096, "mps": 2048}
"""Tokens of a micro-batch that are enough to keep a device busy."""

CHOICES = 16
"""Assumed number of tokens that a constrained decision chooses among."""

CHUNK_LOGITS = {"cpu": 3 * 2**22, "cuda": 2**27, "mps": 3 * 2**22}
"""Logits that exist at the same time while learning; the vocabulary is computed in chunks."""

CHUNK_COPIES = {"cpu": 2.0, "cuda": 2.5, "mps": 2.0}
"""Float32 arrays of a chunk's size: logits, log-probabilities, and on GPUs part of the next."""

CAPPED_COPIES = 5.0
"""The same for models outside the fused decoder, which may soft-cap their logits (Gemma)."""

HEAP_OVERHEAD = 1.85
"""On a CPU, bytes that malloc holds for each byte in use, because of fragmentation: measured, the
largest of updates of SmolLM2-135M's shape with 256 to 2,048 tokens, without adapters on the MLP."""

ADAPTED_OVERHEAD = 1.5
"""The same with adapters on the MLP: fewer freed blocks lie between saved ones of the same size."""

COMPACT_OVERHEAD = 1.1
"""The same for torch's allocator on an accelerator, and for malloc with a compact heap."""

EMBEDDED_TOKENS = 1024
"""Tokens that an embedder reads of a trace, at most."""

LIBRARY_BYTES = {"cpu": 512 << 20, "cuda": 1024 << 20, "mps": 1024 << 20}
"""Python, torch, transformers and peft on a CPU; the CUDA context and workspaces on a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One part of the estimate, and the settings that it depends on."""

    name: PartName
    bytes: int
    depends_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenModel:
    """A model that a run loads beside the policy and does not train."""

    role: FrozenRole
    name: str
    shape: ModelShape | None
    """None if it is unknown."""
    device: str
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """The settings with which a run trades memory for speed."""

    batch_tokens: int
    """Unique tokens of a micro-batch; a longer conversation is a micro-batch of its own."""
    checkpointed: bool
    """Gradient checkpointing: whether only each layer's input is kept for the backward pass."""
    kv_slots: int
    """Tokens that the sampler's KV cache can hold."""

    @classmethod
    def of(cls, config: RunConfig, device: str) -> "Allotment":
        """The fastest settings, as if there were memory enough."""
        tokens = config.algorithm.micro_batch_tokens or preferred_batch(config, device)
        return cls(batch_tokens=tokens, checkpointed=False, kv_slots=needed_slots(config))


def format_bytes(count: int) -> str:
    """Bytes in the unit a person would choose.

    >>> format_bytes(1_610_612_736)
    '1.5 GiB'
    """
    if count >= GIB:
        return f"{count / GIB:.1f} GiB"
    return f"{count / (1 << 20):.0f} MiB"


def preferred_batch(config: RunConfig, device: str) -> int:
    """Tokens of a micro-batch that keeps the device busy and holds the longest conversation."""
    return max(PREFERRED_BATCH[device], conversation_tokens(config))


def needed_slots(config: RunConfig) -> int:
    """KV slots for all episodes of a step, so that no prefix is evicted and computed again."""
    return fitting_slots(rollout_tokens(config))


def fitting_slots(tokens: int) -> int:
    """KV slots for so many tokens: the cache grows by doubling, up to its limit."""
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
        shape: The model's shape.
        config: The run's config, for its rollouts and adapter.
        allotment: Batch, checkpointing and cache; by default the fastest.
        device: `cpu`, `cuda` or `mps`.
        dtype: Data type of the weights.
        compact_heap: Whether malloc returns freed blocks; by default as the environment says. A
            checkpointed run on a CPU makes it so.
    """
    allotment = allotment or Allotment.of(config, device)
    width, lora = DTYPE_BYTES[dtype], config.lora
    learning = lora_parameters(shape, lora) * FLOAT32
    compact = is_heap_compact() if compact_heap is None else compact_heap
    sizes = LearningSizes(shape=shape, lora=lora, width=width, device=device)
    tokens = max(allotment.batch_tokens, conversation_tokens(config))
    heap = _heap(sizes, allotment, tokens, compact=compact)
    update = _update_parts(sizes, config, allotment, heap)
    sampling = sampling_bytes(shape, config, allotment.kv_slots, width=width, device=device)
    captured = captured_bytes(shape, config, width=width, device=device)
    beyond = max(0.0, sampling - sum(size for _, size, _ in update))
    parts: list[_Part] = [
        ("weights", shape.parameters * width, "model, model.dtype"),
        ("adapter", learning + fused_bytes(shape, lora, width), "lora"),
        ("optimizer", 2 * learning, "lora"),
        *update,
        ("KV cache", (allotment.kv_slots + 1) * slot_bytes(shape, width), "rollouts"),
        ("captured steps", captured, "rollouts, model"),
        ("sampling", beyond, "rollouts; beyond what learning takes"),
        ("libraries", LIBRARY_BYTES[device], "device"),
    ]
    return tuple(
        MemoryPart(name=name, bytes=int(size), depends_on=keys) for name, size, keys in parts
    )


def frozen_part(
    model: FrozenModel, config: RunConfig, allotment: Allotment, update_bytes: int
) -> MemoryPart:
    """Memory of a frozen model of known shape; it runs while the policy does not learn.

    A teacher reads micro-batches, an embedder one trace at a time. A judge samples with its own KV
    cache, which on a GPU is allocated in full from the start.
    """
    shape, width, device = model.shape, DTYPE_BYTES[model.dtype], model.device
    assert shape is not None
    held, set_by = shape.parameters * width, "reward"
    if model.role == "teacher":
        tokens, set_by = (
            max(allotment.batch_tokens, conversation_tokens(config)),
            "algorithm.teacher",
        )
    elif model.role == "embedder":
        tokens = EMBEDDED_TOKENS
    else:
        shown = max(rollout_tokens(config), evaluation_tokens(config))
        tokens = min(STEP_TOKENS[device], shown)
        slots = MOST_SLOTS if device == "cuda" else fitting_slots(shown)
        held += packed_bytes(shape, width=width, device=device)
        held += (slots + 1) * slot_bytes(shape, width)
    return MemoryPart(
        name=model.role,
        bytes=held + max(0, layer_bytes(shape, tokens, width) - update_bytes),
        depends_on=f"{set_by} ({model.name})",
    )


PROMPT_TOKENS = 128
"""Assumed length of an episode's first messages, which its group shares."""

REPLY_TOKENS = 24
"""Assumed length of an observation."""

CHOSEN_TOKENS = 8
"""Assumed length of a turn that is chosen from a list of actions."""

FIRST_SLOTS, MOST_SLOTS = 2048, 65_536
"""Tokens of the sampler's KV cache at first on a CPU, where it grows by doubling, and at most."""

EVALUATED_AT_ONCE = 64
"""Tasks that an evaluation runs at once."""

STEP_TOKENS = {"cpu": 4096, "cuda": 16_384, "mps": 4096}
"""Most tokens of one forward pass while sampling."""

DECODE_RUN_STEPS = 64
"""Tokens for which a decode run reserves cache in each sequence."""

CAPTURE_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Batch sizes for which CUDA graphs are captured."""

CAPTURE_BYTES = 48 << 20
"""Assumed workspace of one CUDA graph, most of it cuBLAS's."""

DRAW_COPIES = 4
"""Float32 arrays of the logits' size that exist at once while sampling on the host."""


def writes_freely(config: RunConfig) -> bool:
    """Whether turns may be free text; only `math` is known to have them chosen from a list."""
    if config.env is None:
        return False
    is_chosen = config.env.name == "math" and config.env.options.get("actions") != "free"
    return not is_chosen or config.agent.is_program


def conversation_tokens(config: RunConfig) -> int:
    """Tokens of the longest episode."""
    return PROMPT_TOKENS + _episode_tokens(config)


def rollout_tokens(config: RunConfig) -> int:
    """Unique tokens of all episodes of a step; a group shares its prompt."""
    rollouts = config.rollouts
    group = PROMPT_TOKENS + rollouts.group_size * _episode_tokens(config)
    return rollouts.tasks_per_step * group


def evaluation_tokens(config: RunConfig) -> int:
    """Unique tokens of the episodes that an evaluation runs at once."""
    return _evaluated(config) * (PROMPT_TOKENS + config.eval.k * _episode_tokens(config))


def decision_share(config: RunConfig) -> float:
    """An upper bound on the share of tokens that were sampled and so are learned from."""
    if writes_freely(config):
        return 1.0
    turn = _turn_tokens(config)
    return turn / (turn + REPLY_TOKENS)


def slot_bytes(shape: ModelShape, width: int) -> int:
    """Bytes of one token's keys and values in all layers."""
    return 2 * shape.layers * shape.kv_width * width


def sampling_bytes(
    shape: ModelShape, config: RunConfig, slots: int, *, width: int, device: str
) -> int:
    """What only sampling needs, besides the weights and the KV cache."""
    copied = packed_bytes(shape, width=width, device=device)
    if not shape.is_fused:
        copied += _folded_bytes(shape, config.lora, width)
    found = copied + _step_bytes(shape, config, width, device)
    if device == "cpu" and slots > FIRST_SLOTS:
        found += slots // 2 * slot_bytes(shape, width)  # the old cache, while the new one is filled
    if writes_freely(config):
        found += DRAW_COPIES * 4 * _sequences(config) * shape.vocab
        if shape.is_fused and not _captures(shape, config, device):
            tokens = min(slots, max(rollout_tokens(config), evaluation_tokens(config)))
            found += (tokens + _sequences(config) * DECODE_RUN_STEPS) * slot_bytes(shape, width)
    return found


def captured_bytes(shape: ModelShape, config: RunConfig, *, width: int, device: str) -> int:
    """What CUDA graphs hold, from when they are captured to the end of the run."""
    if not _captures(shape, config, device):
        return 0
    rows = _sequences(config)
    sizes = [
        size for at, size in enumerate(CAPTURE_SIZES) if at == 0 or CAPTURE_SIZES[at - 1] < rows
    ]
    if rows > CAPTURE_SIZES[-1]:
        sizes += range(CAPTURE_SIZES[-1] + 64, rows + 64, 64)
    heads = shape.query_width + shape.kv_width
    row = 4 * shape.vocab + (4 * shape.intermediate + 4 * shape.hidden + 4 * heads) * width
    return len(sizes) * CAPTURE_BYTES + sum(sizes) * row


def _captures(shape: ModelShape, config: RunConfig, device: str) -> bool:
    """Decode steps are captured only for free text without top-k and top-p."""
    plain = config.rollouts.top_k == 0 and config.rollouts.top_p == 1.0
    return device == "cuda" and shape.is_fused and plain and writes_freely(config)


def _turn_tokens(config: RunConfig) -> int:
    most = config.rollouts.max_tokens
    return most if writes_freely(config) else min(most, CHOSEN_TOKENS)


def _episode_tokens(config: RunConfig) -> int:
    """Tokens of an episode after its prompt."""
    return config.rollouts.max_turns * (_turn_tokens(config) + REPLY_TOKENS)


def _evaluated(config: RunConfig) -> int:
    return min(config.eval.n, EVALUATED_AT_ONCE)


def _sequences(config: RunConfig) -> int:
    """Most sequences that are sampled at once."""
    rollouts = config.rollouts.tasks_per_step * config.rollouts.group_size
    return max(rollouts, _evaluated(config) * config.eval.k)


def _step_bytes(shape: ModelShape, config: RunConfig, width: int, device: str) -> int:
    """Activations of one layer for the most tokens of one forward pass."""
    prompts = PROMPT_TOKENS * max(config.rollouts.tasks_per_step, _evaluated(config))
    tokens = min(STEP_TOKENS[device], max(prompts, _sequences(config) * REPLY_TOKENS))
    return layer_bytes(shape, tokens, width)


def layer_bytes(shape: ModelShape, tokens: int, width: int) -> int:
    """Activations of one layer in a forward pass without gradients."""
    heads = shape.query_width + shape.kv_width
    return tokens * (4 * shape.intermediate + 4 * shape.hidden + 6 * heads) * width


def packed_bytes(shape: ModelShape, *, width: int, device: str) -> int:
    """Copies of the linear layers packed for the CPU's matrix kernels, and the largest twice more.

    Only float32 on CPUs is packed; outside the fused decoder, only the output layer.
    """
    if device != "cpu" or width != 4:
        return 0
    if not shape.is_fused:
        return shape.vocab * shape.hidden * width
    sizes = [inputs * outputs for inputs, outputs in shape.projections().values()]
    largest = 2 * shape.hidden * shape.intermediate
    return 4 * (shape.layers * sum(sizes) + shape.vocab * shape.hidden + 2 * largest)


def _folded_bytes(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """The weights with the adapter merged in, which exist beside the base weights."""
    linear = shape.projections()
    sizes = (linear[target] for target in lora.targets if target in linear)
    return shape.layers * width * sum(inputs * outputs for inputs, outputs in sizes)


FLOAT32 = 4

FUSED_PROJECTIONS = (
    ("q_proj", "k_proj", "v_proj"),
    ("o_proj",),
    ("gate_proj", "up_proj"),
    ("down_proj",),
)
"""Linear layers with the same input, which the fused decoder computes as one."""

GATED = frozenset({"gate_proj", "up_proj", "down_proj"})
"""The linear layers of the MLP."""

BLOCK_TOKENS = 128
"""Query tokens of one block in attention without a GPU kernel."""

BLOCK_COPIES = 4
"""Arrays of block x keys where torch has no fused attention (mps): probabilities, their gradients,
and intermediate results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSizes:
    """Bytes of activations and gradients in the update of one micro-batch."""

    shape: ModelShape
    lora: LoraConfig
    width: int
    """Bytes of a weight, and of an activation."""
    device: str

    @property
    def is_fused(self) -> bool:
        """Whether the fused decoder computes the backward pass; it has no dropout."""
        return self.shape.is_fused and self.lora.dropout == 0

    def activation_bytes(self, tokens: int, *, checkpointed: bool) -> int:
        """Bytes of all layers that are saved in the forward pass for the backward pass."""
        shape = self.shape
        layer = shape.hidden * self.width if checkpointed else self.layer()
        around = 2 * shape.hidden * self.width + 2 * shape.head_dim * FLOAT32  # last norm, angles
        return tokens * (shape.layers * layer + around)

    def layer(self) -> int:
        """Bytes that one layer saves of one token for the backward pass."""
        shape, lora = self.shape, self.lora
        sums = FLOAT32 * shape.heads  # attention's log-sum-exp
        if not self.is_fused:
            own = _module_attention_bytes(shape, lora, self.width)
            return own + _module_gated_bytes(shape, lora, self.width) + sums
        heads = 2 * (shape.query_width + shape.kv_width)  # queries, keys, values, result
        if shape.has_head_norms:
            heads += shape.query_width + shape.kv_width  # queries and keys before their norms
        ranks = lora.r * len(_adapted(shape, lora))
        values = 2 * shape.hidden + heads + 2 * shape.intermediate + ranks
        return values * self.width + sums

    def backward_bytes(self, tokens: int, path: int, *, checkpointed: bool) -> int:
        """Bytes that the backward pass of one layer needs, besides what was saved.

        Args:
            tokens: Tokens of the micro-batch.
            path: Tokens of the longest conversation in it.
            checkpointed: Whether the layer's forward pass is computed again first.
        """
        recomputed = tokens * self.layer() if checkpointed else 0
        most = max(tokens * self._gate_bytes(), self._attention_backward_bytes(tokens, path))
        return recomputed + most + tokens * 5 * self.shape.hidden * self.width

    def _gate_bytes(self) -> int:
        """Bytes of one token in the backward pass of the MLP's gate.

        Gradients of the output and of both projections, the activation, and two more arrays where
        no GPU kernel fuses them.
        """
        if not self.is_fused:
            return 3 * self.shape.intermediate * FLOAT32
        arrays = 4 if self.device == "cuda" else 6
        return (arrays * self.shape.intermediate + self.lora.r) * self.width

    def _attention_backward_bytes(self, tokens: int, path: int) -> int:
        """Bytes of all tokens in attention's backward pass; what the MLP saved is freed by then."""
        shape = self.shape
        rows = (shape.query_width + 2 * shape.kv_width) * self.width
        if self.device == "cuda":
            return tokens * rows
        freed = 2 * shape.intermediate * self.width
        if not self.is_fused:
            freed = _module_gated_bytes(shape, self.lora, self.width)
        seen = min(path + BLOCK_TOKENS, tokens)
        group = shape.heads // shape.kv_heads
        arrays = group if self.device == "cpu" else BLOCK_COPIES * shape.heads  # masks, or scores
        blocks = arrays * FLOAT32 * min(BLOCK_TOKENS, tokens) * seen
        gathered = 4 * seen * shape.kv_width * self.width  # keys, values and their gradients
        return tokens * (rows - freed) + blocks + gathered


def fused_bytes(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """The copy of the adapters' weights next to the fused weights."""
    if not shape.is_fused:
        return 0
    linear, adapted = shape.projections(), _adapted(shape, lora)
    values = 0
    for names in FUSED_PROJECTIONS:
        ranks = lora.r * sum(name in adapted for name in names)
        inputs, outputs = linear[names[0]][0], sum(linear[name][1] for name in names)
        values += ranks * (inputs + outputs + ranks)
    return shape.layers * values * width


def _adapted(shape: ModelShape, lora: LoraConfig) -> list[str]:
    return [target for target in lora.targets if target in shape.projections()]


def _module_attention_bytes(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """What the attention of a `transformers` layer saves of one token."""
    norms = (shape.hidden + 1) * FLOAT32  # computed in float32
    if shape.has_head_norms:
        norms += (shape.query_width + shape.kv_width + shape.heads + shape.kv_heads) * FLOAT32
    heads = 2 * (shape.query_width + shape.kv_width) * width  # queries, keys, values, result
    return norms + heads + _adapter_inputs(shape, lora, width, gated=False)


def _module_gated_bytes(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """What the MLP of a `transformers` layer saves of one token."""
    norm = (shape.hidden + 1) * FLOAT32
    gate = 3 * shape.intermediate * width  # the gate, its activation, what it is multiplied with
    return norm + gate + _adapter_inputs(shape, lora, width, gated=True)


def _adapter_inputs(shape: ModelShape, lora: LoraConfig, width: int, *, gated: bool) -> int:
    """What a `transformers` layer's adapters save: their inputs, and r values after LoRA's A.

    In float32 without dropout, adapters with the same input share it, and the input of `o_proj` is
    attention's result, which is saved already. Otherwise each has its own float32 copy, and with
    dropout also a mask of the same size.
    """
    linear = shape.projections()
    targets = [target for target in _adapted(shape, lora) if (target in GATED) == gated]
    after_a = FLOAT32 * lora.r * len(targets)
    if lora.dropout > 0 or width < FLOAT32:
        copies = 2 if lora.dropout > 0 else 1
        return after_a + copies * sum(linear[target][0] * FLOAT32 for target in targets)
    shared = {"q_proj": "in", "k_proj": "in", "v_proj": "in", "gate_proj": "mlp", "up_proj": "mlp"}
    own = [target for target in targets if target != "o_proj"]
    inputs = {shared.get(target, target): linear[target][0] for target in own}
    return after_a + FLOAT32 * sum(inputs.values())


_Part = tuple[PartName, float, str]


def _update_parts(
    sizes: LearningSizes, config: RunConfig, allotment: Allotment, heap: "Heap"
) -> list[_Part]:
    """What only learning needs. Logits are freed before the backward pass through the layers."""
    path = conversation_tokens(config)
    tokens = max(allotment.batch_tokens, path)
    activation_bytes = heap.fragment_bytes + heap.overhead * sizes.activation_bytes(
        tokens, checkpointed=allotment.checkpointed
    )
    back = heap.overhead * sizes.backward_bytes(tokens, path, checkpointed=allotment.checkpointed)
    masks = heap.overhead * _attention_bytes(tokens, sizes.device)
    logits = _logits_bytes(sizes, config, tokens)
    # A micro-batch's gradients are made next to their running sum, while activations are freed.
    summed = lora_parameters(sizes.shape, sizes.lora) * FLOAT32
    gradients = summed + max(0.0, summed - activation_bytes)
    batch = "algorithm.micro_batch_tokens"
    return [
        ("gradients", gradients, "lora"),
        ("activations", activation_bytes + back, batch),
        ("attention", masks, batch),
        ("logits", max(0.0, logits - back), f"{batch}, model; beyond activations"),
    ]


class Heap(NamedTuple):
    """How much more memory an allocator holds than is in use."""

    overhead: float = 1.0
    """Bytes held for each byte in use."""
    fragment_bytes: int = 0
    """Bytes held besides."""


def _heap(sizes: LearningSizes, allotment: Allotment, tokens: int, *, compact: bool) -> Heap:
    if sizes.device != "cpu":
        return Heap(COMPACT_OVERHEAD)
    if allotment.checkpointed:
        # Blocks below malloc's threshold are not returned and leave about one gap per layer.
        is_small = tokens * sizes.shape.hidden * sizes.width < THRESHOLD_BYTES
        return Heap(COMPACT_OVERHEAD, sizes.shape.layers * THRESHOLD_BYTES if is_small else 0)
    if compact:
        return Heap(COMPACT_OVERHEAD)
    is_gated = not GATED.isdisjoint(sizes.lora.targets)
    return Heap(ADAPTED_OVERHEAD if is_gated and sizes.is_fused else HEAP_OVERHEAD)


def _attention_bytes(tokens: int, device: str) -> float:
    """Masks that all layers share: one per block of queries, or on GPUs the lists of blocks."""
    if device == "cuda":
        return tokens**2 / 100
    return tokens * FLOAT32 * 2 * BLOCK_TOKENS


def _logits_bytes(sizes: LearningSizes, config: RunConfig, tokens: int) -> float:
    """Logits of the whole vocabulary for a chunk of tokens, or of the choices of every token."""
    shape, device = sizes.shape, sizes.device
    decisions = tokens * decision_share(config)
    if not writes_freely(config):
        return 2 * FLOAT32 * decisions * CHOICES * shape.hidden
    copies = CHUNK_COPIES[device] if shape.is_fused else CAPPED_COPIES
    chunk = min(decisions * shape.vocab, max(CHUNK_LOGITS[device], shape.vocab))
    rows = 4 * decisions * shape.hidden * sizes.width  # hidden states and their gradients
    return copies * FLOAT32 * chunk + rows
