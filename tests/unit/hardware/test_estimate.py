"""The formulas against torch: what it really keeps for a backward pass is counted."""

import pytest

from practicum.core.config import LoraConfig, RunConfig, build_config
from practicum.hardware.estimate import (
    CHUNK_LOGITS,
    MOST_SLOTS,
    _kept_bytes,
    cached_tokens,
    estimate_memory,
    is_heap_compact,
)
from practicum.hardware.shapes import KNOWN_SHAPES, ModelShape

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

TOKENS = 128
SMOL = KNOWN_SHAPES["smollm2-135m"]


def make_config(**values: object) -> RunConfig:
    return build_config({"env": "math", **values})


def sizes(config: RunConfig, shape: ModelShape = SMOL, **options) -> dict[str, int]:
    return {part.name: part.bytes for part in estimate_memory(shape, config, **options)}


def kept_by_torch(layers: int, lora: LoraConfig) -> int:
    """Bytes of all tensors an update of a small model keeps, its weights not counted."""
    from practicum.policy.attention import ATTENTION, register_attention
    from practicum.policy.tree_attention import TreePlan

    register_attention()
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=96,
        intermediate_size=160,
        num_hidden_layers=layers,
        num_attention_heads=6,
        num_key_value_heads=2,
        attn_implementation=ATTENTION,
    )
    model = transformers.LlamaForCausalLM(config)
    model.set_attn_implementation(ATTENTION)
    wrapped = peft.get_peft_model(
        model,
        peft.LoraConfig(
            r=lora.r,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules=list(lora.targets),
        ),
    )
    wrapped.train(lora.dropout > 0)
    weights = {p.untyped_storage().data_ptr() for p in wrapped.parameters()}
    kept: dict[int, int] = {}
    alive = []  # a freed tensor's address would be given out again and hide another one

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.base_model(
            input_ids=torch.arange(TOKENS)[None] % 64,
            position_ids=torch.arange(TOKENS)[None],
            use_cache=False,
            plan=TreePlan.of(torch.full((TOKENS,), TOKENS)),
        )
    return sum(kept.values())


@pytest.mark.parametrize(
    "lora",
    [
        {"preset": "light"},
        {"preset": "attention", "dropout": 0.0},
        {"preset": "full"},
        {"preset": "full", "dropout": 0.1},
        {"r": 4, "targets": ["gate_proj", "down_proj"]},
    ],
    ids=["light", "attention", "full", "dropout", "mlp"],
)
def test_a_layer_keeps_what_the_formula_says(lora: dict[str, object]) -> None:
    """Two more layers keep two layers' worth more."""
    settings = LoraConfig.model_validate(lora)
    shape = ModelShape(
        layers=2,
        hidden=96,
        intermediate=160,
        heads=6,
        kv_heads=2,
        head_dim=16,
        vocab=64,
        tied_embeddings=False,
    )

    layer = (kept_by_torch(4, settings) - kept_by_torch(2, settings)) / 2

    token = _kept_bytes(shape, settings, 4)
    assert TOKENS * token == pytest.approx(layer, rel=0.01)


def test_weights_and_adapter_follow_from_their_counts() -> None:
    found = sizes(make_config(lora="full"))

    assert found["weights"] == 134_515_008 * 4
    assert found["adapter"] == found["gradients"] == 4_884_480 * 4
    assert found["optimizer"] == 2 * found["adapter"]


def test_half_precision_halves_the_weights_and_not_the_adapter() -> None:
    single, half = sizes(make_config()), sizes(make_config(), dtype="bfloat16")

    assert half["weights"] * 2 == single["weights"]
    assert half["KV cache"] * 2 == single["KV cache"]
    assert half["adapter"] == single["adapter"]
    assert half["activations"] < single["activations"]


@pytest.mark.parametrize(
    ("tokens", "preset", "measured_mib"),
    [
        (256, "full", 590),
        (512, "full", 1147),
        (512, "light", 744),
        (512, "attention", 847),
    ],
)
def test_the_estimate_is_0_to_30_percent_above_a_measured_update(
    tokens: int, preset: str, measured_mib: int
) -> None:
    """Peak resident memory of one update of SmolLM2-135M with one long path, float32."""
    config = make_config(
        lora={"preset": preset, "dropout": 0.0},
        algorithm={"micro_batch_tokens": tokens},
        rollouts={"max_turns": 64},
    )

    found = sizes(config, compact_heap=False)

    estimate = found["activations"] + found["attention"] + found["gradients"]
    assert 1.0 <= estimate / (measured_mib << 20) <= 1.3


def test_activations_grow_with_the_micro_batch_and_attention_with_the_path_too() -> None:
    short, long = {"max_turns": 1}, {"max_turns": 20}
    small = sizes(make_config(algorithm={"micro_batch_tokens": 512}, rollouts=short))
    large = sizes(make_config(algorithm={"micro_batch_tokens": 1024}, rollouts=short))
    deep = sizes(make_config(algorithm={"micro_batch_tokens": 1024}, rollouts=long))

    assert large["activations"] == pytest.approx(2 * small["activations"], rel=1e-6)
    assert large["attention"] == pytest.approx(2 * small["attention"], rel=1e-6)
    assert deep["activations"] == large["activations"]
    assert deep["attention"] > 1.5 * large["attention"]


def test_free_text_needs_the_logits_of_the_whole_vocabulary() -> None:
    chosen = sizes(make_config())
    written = sizes(make_config(env={"name": "math", "actions": "free"}))

    assert 5 * CHUNK_LOGITS * 4 <= written["logits"] < 1024 * SMOL.vocab * 4
    assert chosen["logits"] < written["logits"]
    assert chosen["KV cache"] < written["KV cache"]


def test_the_cache_holds_the_episodes_of_a_step_and_no_more_than_its_limit() -> None:
    few = make_config(rollouts={"tasks_per_step": 1, "group_size": 2, "max_turns": 1})
    many = make_config(rollouts={"tasks_per_step": 64, "group_size": 64, "max_turns": 32})

    assert cached_tokens(few) == 128 + 2 * (8 + 24)
    assert cached_tokens(many) == MOST_SLOTS
    assert sizes(many)["KV cache"] == MOST_SLOTS * 2 * 30 * 192 * 4


def test_a_heap_that_gives_memory_back_holds_less(monkeypatch) -> None:
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    assert not is_heap_compact()
    loose = sizes(make_config())["activations"]
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    assert is_heap_compact()

    assert sizes(make_config())["activations"] < 0.7 * loose
