"""`ModelShape`: layer counts and widths of a model, from which its memory is estimated."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from practicum.core.config.config_sections import LoraConfig
from practicum.core.model_names import model_name
from practicum.engine.models.gguf_header import read_gguf_header
from practicum.engine.models.model_limits import check_model_files

FUSED_FAMILIES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Values of `model_type` that the fused decoder computes; it keeps fewer activations than the
`transformers` modules of other families."""

SUPPORTED_ROPE = frozenset({"default", "linear", "llama3", "yarn"})
"""Types of rotary embedding that the fused decoder computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder of the Llama family: gated MLP, RMS norms, grouped keys and values."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied_embeddings: bool
    """Whether the output layer is the input embedding."""
    has_qkv_bias: bool = False
    has_head_norms: bool = False
    """Whether queries and keys have an RMS norm per head (Qwen3)."""
    is_fused: bool = True
    """Whether the fused decoder computes the model; otherwise its `transformers` module does."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "ModelShape":
        """From the `config.json` of a `transformers` model; raises KeyError for a missing key."""
        heads = int(config["num_attention_heads"])
        hidden = int(config["hidden_size"])
        return cls(
            layers=int(config["num_hidden_layers"]),
            hidden=hidden,
            intermediate=int(config["intermediate_size"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            vocab=int(config["vocab_size"]),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            has_qkv_bias=config.get("model_type") == "qwen2" or bool(config.get("attention_bias")),
            has_head_norms=config.get("model_type") == "qwen3",
            is_fused=_is_fused(config),
        )

    @property
    def query_width(self) -> int:
        """Query heads times head dimension."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Key heads times head dimension; the values have the same width."""
        return self.kv_heads * self.head_dim

    def projections(self) -> dict[str, tuple[int, int]]:
        """Input and output widths of a layer's linear layers, by the names LoRA targets use."""
        return {
            "q_proj": (self.hidden, self.query_width),
            "k_proj": (self.hidden, self.kv_width),
            "v_proj": (self.hidden, self.kv_width),
            "o_proj": (self.query_width, self.hidden),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        linear = sum(inputs * outputs for inputs, outputs in self.projections().values())
        bias = self.query_width + 2 * self.kv_width if self.has_qkv_bias else 0
        layer = linear + bias + 2 * self.hidden
        embeddings = self.vocab * self.hidden * (1 if self.tied_embeddings else 2)
        return embeddings + self.layers * layer + self.hidden


def _is_fused(config: Mapping[str, Any]) -> bool:
    rotation = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rotation.get("rope_type") or rotation.get("type") or "default"
    return (
        config.get("model_type") in FUSED_FAMILIES
        and config.get("hidden_act", "silu") == "silu"
        and kind in SUPPORTED_ROPE
    )


def lora_parameters(shape: ModelShape, lora: LoraConfig) -> int:
    """Number of LoRA parameters: r * (inputs + outputs) for each target of each layer.

    >>> light = LoraConfig.model_validate({"preset": "light"})
    >>> learning = lora_parameters(KNOWN_SHAPES["Qwen/Qwen2.5-0.5B-Instruct"], light)
    >>> f"{learning:,} of 494,032,768 is {learning / 494_032_768:.2%}"
    '540,672 of 494,032,768 is 0.11%'
    """
    linear = shape.projections()
    widths = (sum(linear[target]) for target in lora.targets if target in linear)
    return shape.layers * lora.r * sum(widths)


def _shape(
    layers: int, hidden: int, intermediate: int, heads: tuple[int, int], vocab: int
) -> ModelShape:
    return ModelShape(
        layers=layers,
        hidden=hidden,
        intermediate=intermediate,
        heads=heads[0],
        kv_heads=heads[1],
        head_dim=hidden // heads[0],
        vocab=vocab,
        tied_embeddings=True,
    )


def _qwen(
    layers: int, hidden: int, intermediate: int, heads: tuple[int, int], *, tied: bool
) -> ModelShape:
    shape = _shape(layers, hidden, intermediate, heads, 151_936 if tied else 152_064)
    return replace(shape, tied_embeddings=tied, has_qkv_bias=True)


KNOWN_SHAPES: dict[str, ModelShape] = {
    "tiny": _shape(2, 64, 128, (4, 2), 320),
    "smollm2-135m": _shape(30, 576, 1536, (9, 3), 49_152),
    "Qwen/Qwen2.5-0.5B-Instruct": _qwen(24, 896, 4864, (14, 2), tied=True),
    "Qwen/Qwen2.5-1.5B-Instruct": _qwen(28, 1536, 8960, (12, 2), tied=True),
    "qwen2.5-coder-1.5b": _qwen(28, 1536, 8960, (12, 2), tied=True),
    "Qwen/Qwen2.5-3B-Instruct": _qwen(36, 2048, 11_008, (16, 2), tied=True),
    "Qwen/Qwen2.5-7B-Instruct": _qwen(28, 3584, 18_944, (28, 4), tied=False),
    "Qwen/Qwen2.5-32B-Instruct": _qwen(64, 5120, 27_648, (40, 8), tied=False),
}
"""Shapes of the documented models, smallest first, so that a plan needs no download."""


def find_shape(model: str) -> ModelShape | None:
    """The shape of a known name, a folder, a .gguf file or a cached hub id; None if unknown."""
    model = model_name(model)
    wanted = model.casefold()
    for name, shape in KNOWN_SHAPES.items():
        if wanted in (name.casefold(), name.rpartition("/")[2].casefold()):
            return shape
    if model.endswith(".gguf"):
        return _gguf_shape(Path(model).expanduser())
    for file in (Path(model) / "config.json", *_cached_configs(model)):
        if file.is_file():
            return _read_shape(file)
    return None


GGUF_KEYS = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
}
"""What a `config.json` calls a number, and what a .gguf file calls it."""


def _gguf_shape(file: Path) -> ModelShape | None:
    """The shape that a .gguf file's header tells."""
    if not file.is_file():
        return None
    header = read_gguf_header(file)
    config: dict[str, Any] = {ours: header.of_model(key) for ours, key in GGUF_KEYS.items()}
    config["model_type"] = header.metadata.get("general.architecture")
    config["vocab_size"] = header.metadata.get("tokenizer.ggml.tokens")
    # A separate output layer of a tied model is made one with the embedding when it is converted:
    # which of the two it is, only the weights tell, so room is planned for both.
    config["tie_word_embeddings"] = "output.weight" not in header.tensors
    return _shape_of(config)


def _cached_configs(hub_id: str) -> list[Path]:
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    folder = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    return sorted(folder.glob(f"models--{hub_id.replace('/', '--')}/snapshots/*/config.json"))


def _read_shape(file: Path) -> ModelShape | None:
    check_model_files(file.parent)
    try:
        return _shape_of(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _shape_of(config: Mapping[str, Any]) -> ModelShape | None:
    try:
        return ModelShape.from_config(config)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        return None  # not a decoder of this kind; loading it raises the error
