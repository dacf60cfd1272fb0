"""Bytes that an update holds, from sizes alone.

Decoders that the policy computes itself keep little; the modules of other families, and of any
family with dropout, keep what `transformers` keeps. Base weights are frozen in both.
"""

from dataclasses import dataclass

from practicum.core.config import LoraConfig
from practicum.hardware.shapes import ModelShape

__all__ = ["BLOCK_TOKENS", "FLOAT32", "GATED", "LearningSizes", "joined_bytes"]

FLOAT32 = 4

JOINED_PRODUCTS = (
    ("q_proj", "k_proj", "v_proj"),
    ("o_proj",),
    ("gate_proj", "up_proj"),
    ("down_proj",),
)
"""Linear maps that read the same input and are one product."""

GATED = frozenset({"gate_proj", "up_proj", "down_proj"})
"""The linear maps behind attention."""

BLOCK_TOKENS = 128
"""Tokens that attend together where no kernel does it."""

BLOCK_COPIES = 4
"""Arrays over all that a block sees where not even torch has a fused attention: probabilities,
their gradients, and what becomes of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSizes:
    """What an update holds of the tokens it learns from at once."""

    shape: ModelShape
    lora: LoraConfig
    width: int
    """Bytes of a weight, and of an activation."""
    device: str

    @property
    def is_joined(self) -> bool:
        """Whether the policy's own computation carries the gradient; dropout is the module's."""
        return self.shape.is_joined and self.lora.dropout == 0

    def kept(self, tokens: int, *, checkpointed: bool) -> int:
        """Bytes of all layers from the way there until the way back."""
        shape = self.shape
        layer = shape.hidden * self.width if checkpointed else self.layer()
        around = 2 * shape.hidden * self.width + 2 * shape.head_dim * FLOAT32  # last norm, angles
        return tokens * (shape.layers * layer + around)

    def layer(self) -> int:
        """Bytes that one layer keeps of one token for the way back."""
        shape, lora = self.shape, self.lora
        sums = FLOAT32 * shape.heads  # attention's log-sum-exp
        if not self.is_joined:
            own = _module_attention_bytes(shape, lora, self.width)
            return own + _module_gated_bytes(shape, lora, self.width) + sums
        heads = 2 * (shape.query_width + shape.kv_width)  # queries, keys, values, result
        if shape.has_head_norms:
            heads += shape.query_width + shape.kv_width  # queries and keys before their norms
        inner = lora.r * len(_adapted(shape, lora))
        numbers = 2 * shape.hidden + heads + 2 * shape.intermediate + inner
        return numbers * self.width + sums

    def way_back(self, tokens: int, path: int, *, checkpointed: bool) -> int:
        """Bytes that one layer needs on the way back, besides what was kept.

        Args:
            tokens: Learned from at once.
            path: Of the longest conversation among them.
            checkpointed: Whether the layer is first computed again.
        """
        again = tokens * self.layer() if checkpointed else 0
        most = max(tokens * self._gate(), self._attention(tokens, path))
        return again + most + tokens * 5 * self.shape.hidden * self.width

    def _gate(self) -> int:
        """One token in the gate.

        Gradients of what came out and of both products, the activation, and, where no kernel makes
        them in one pass, two arrays more.
        """
        if not self.is_joined:
            return 3 * self.shape.intermediate * FLOAT32
        arrays = 4 if self.device == "cuda" else 6
        return (arrays * self.shape.intermediate + self.lora.r) * self.width

    def _attention(self, tokens: int, path: int) -> int:
        """All tokens in attention, when what the gated part had kept is gone."""
        shape = self.shape
        rows = (shape.query_width + 2 * shape.kv_width) * self.width
        if self.device == "cuda":
            return tokens * rows
        gone = 2 * shape.intermediate * self.width
        if not self.is_joined:
            gone = _module_gated_bytes(shape, self.lora, self.width)
        seen = min(path + BLOCK_TOKENS, tokens)
        group = shape.heads // shape.kv_heads
        arrays = group if self.device == "cpu" else BLOCK_COPIES * shape.heads  # masks, or scores
        blocks = arrays * FLOAT32 * min(BLOCK_TOKENS, tokens) * seen
        gathered = 4 * seen * shape.kv_width * self.width  # keys, values and their gradients
        return tokens * (rows - gone) + blocks + gathered


def joined_bytes(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """The copy of the adapters that lies beside and below the joined weights."""
    if not shape.is_joined:
        return 0
    linear, adapted = shape.projections(), _adapted(shape, lora)
    numbers = 0
    for names in JOINED_PRODUCTS:
        ranks = lora.r * sum(name in adapted for name in names)
        inputs, outputs = linear[names[0]][0], sum(linear[name][1] for name in names)
        numbers += ranks * (inputs + outputs + ranks)
    return shape.layers * numbers * width


def _adapted(shape: ModelShape, lora: LoraConfig) -> list[str]:
    return [target for target in lora.targets if target in shape.projections()]


def _module_attention_bytes(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """What attention in a layer of a `transformers` module keeps of one token."""
    norms = (shape.hidden + 1) * FLOAT32  # computed in float32
    if shape.has_head_norms:
        norms += (shape.query_width + shape.kv_width + shape.heads + shape.kv_heads) * FLOAT32
    heads = 2 * (shape.query_width + shape.kv_width) * width  # queries, keys, values, result
    return norms + heads + _adapter_inputs(shape, lora, width, gated=False)


def _module_gated_bytes(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """And its gated part."""
    norm = (shape.hidden + 1) * FLOAT32
    gate = 3 * shape.intermediate * width  # the gate, its activation, what it is multiplied with
    return norm + gate + _adapter_inputs(shape, lora, width, gated=True)


def _adapter_inputs(shape: ModelShape, lora: LoraConfig, width: int, *, gated: bool) -> int:
    """What a module's adapters keep: their inputs, and the r numbers in their middle.

    In float32 without dropout adapters of the same input share it, and the one behind attention
    has attention's result, which is kept already. Otherwise each has a float32 copy of its own,
    and with dropout also the mask, which is as large.
    """
    linear = shape.projections()
    targets = [target for target in _adapted(shape, lora) if (target in GATED) == gated]
    middle = FLOAT32 * lora.r * len(targets)
    if lora.dropout > 0 or width < FLOAT32:
        copies = 2 if lora.dropout > 0 else 1
        return middle + copies * sum(linear[target][0] * FLOAT32 for target in targets)
    shared = {"q_proj": "in", "k_proj": "in", "v_proj": "in", "gate_proj": "mlp", "up_proj": "mlp"}
    own = [target for target in targets if target != "o_proj"]
    inputs = {shared.get(target, target): linear[target][0] for target in own}
    return middle + FLOAT32 * sum(inputs.values())
