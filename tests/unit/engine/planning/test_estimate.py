"""The formulas against torch: what its allocator really hands out is counted."""

from pathlib import Path

import pytest

from practicum.core.config.config_sections import LoraConfig
from practicum.core.config.parse_config import build_config
from practicum.core.config.run_config import RunConfig
from practicum.engine.planning.memory import (
    BLOCK_TOKENS,
    CAPTURE_SIZES,
    CHUNK_LOGITS,
    DECODE_RUN_STEPS,
    EVALUATED_AT_ONCE,
    FIRST_SLOTS,
    MOST_SLOTS,
    STEP_TOKENS,
    Allotment,
    Heap,
    LearningSizes,
    _update_parts,
    estimate_memory,
    evaluation_tokens,
    fitting_slots,
    fused_bytes,
    needed_slots,
    rollout_tokens,
    sampling_bytes,
)
from practicum.engine.planning.model_shapes import KNOWN_SHAPES, ModelShape

pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("transformers")

from tests.unit.engine.planning import measured

TOKENS = 256
SMOL = KNOWN_SHAPES["smollm2-135m"]
QWEN = KNOWN_SHAPES["Qwen/Qwen2.5-0.5B-Instruct"]
FREE = {"name": "math", "actions": "free"}

ADAPTERS = {
    "full": {"preset": "full"},
    "light": {"preset": "light"},
    "dropout": {"preset": "full", "dropout": 0.1},
}
LEARNERS = [
    pytest.param("Llama", "full", id="joined"),
    pytest.param("Llama", "light", id="joined-light"),
    pytest.param("Qwen3", "full", id="joined-with-head-norms"),
    pytest.param("Granite", "full", id="module"),
    pytest.param("Granite", "light", id="module-light"),
    pytest.param("Qwen3", "dropout", id="dropout"),
]


def make_config(**values: object) -> RunConfig:
    return build_config({"env": "math", **values})


def allotted(tokens: int = 1024, *, checkpointed: bool = False, slots: int = 2048) -> Allotment:
    return Allotment(batch_tokens=tokens, checkpointed=checkpointed, kv_slots=slots)


def sizes(
    config: RunConfig, allotment: Allotment | None = None, shape: ModelShape = SMOL, **options
) -> dict[str, int]:
    parts = estimate_memory(shape, config, allotment, **options)
    return {part.name: part.bytes for part in parts}


def learning_sizes(model: measured.Model, lora: LoraConfig) -> LearningSizes:
    return LearningSizes(shape=model.shape, lora=lora, width=4, device="cpu")


@pytest.mark.parametrize(("family", "adapter"), LEARNERS)
def test_a_layer_keeps_what_the_formula_says(family: str, adapter: str, tmp_path: Path) -> None:
    """Two more layers keep two layers' worth more."""
    lora = LoraConfig.model_validate(ADAPTERS[adapter])
    kept = {}
    for layers in (2, 4):
        model = measured.build(family, layers, lora)
        states = lambda m=model: measured.learn(m, TOKENS, checkpointed=False)  # noqa: E731
        kept[layers] = measured.measure(states, tmp_path).kept

    layer = (kept[4] - kept[2]) / 2

    assert TOKENS * learning_sizes(model, lora).layer() == pytest.approx(layer, rel=0.001)


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize(("family", "adapter"), [p for p in LEARNERS if p.id != "joined-light"])
def test_an_update_is_never_larger_than_estimated_and_not_much_smaller(
    family: str, adapter: str, checkpointed: bool, tmp_path: Path
) -> None:
    """At its peak, with every token decided on. Checkpointed, little is kept to compare with."""
    lora = LoraConfig.model_validate(ADAPTERS[adapter])
    model = measured.build(family, 6, lora)
    config = make_config(env=FREE, rollouts={"max_turns": 1, "max_tokens": TOKENS - 152})

    found = measured.measure(
        lambda: measured.gradients(model, TOKENS, checkpointed=checkpointed), tmp_path
    )

    given = allotted(TOKENS, checkpointed=checkpointed)
    parts = _update_parts(learning_sizes(model, lora), config, given, Heap())
    estimate = sum(size for _, size, _ in parts)
    assert 1.0 <= estimate / found.peak <= (1.4 if checkpointed else 1.15)


def test_the_formulas_know_the_sizes_that_the_policy_uses() -> None:
    from practicum.engine.decoder import head, tree_attention
    from practicum.engine.decoder import layers as parts
    from practicum.engine.planning import model_shapes as shapes
    from practicum.engine.sampling import sampling_engine as engine
    from practicum.evaluation.evaluate import TASKS_AT_ONCE

    assert CHUNK_LOGITS["cpu"] == CHUNK_LOGITS["mps"] == head.CHUNK_LOGITS
    assert CHUNK_LOGITS["cuda"] == head.CHUNK_LOGITS_CUDA
    assert tree_attention.BLOCK == BLOCK_TOKENS
    assert (engine.FIRST_SLOTS, engine.BURST_STEPS) == (FIRST_SLOTS, DECODE_RUN_STEPS)
    assert STEP_TOKENS["cpu"] == STEP_TOKENS["mps"] == engine.STEP_TOKENS
    assert STEP_TOKENS["cuda"] == engine.STEP_TOKENS_CUDA
    assert TASKS_AT_ONCE == EVALUATED_AT_ONCE
    assert shapes.FUSED_FAMILIES == parts.FAMILIES
    assert shapes.SUPPORTED_ROPE == parts.FIXED_ROTATIONS


def test_steps_are_captured_for_the_batch_sizes_of_the_policy() -> None:
    pytest.importorskip("triton")
    from practicum.engine.decoder import cuda_graphs as graphs

    assert graphs.RUNGS == CAPTURE_SIZES


@pytest.mark.parametrize("preset", ["light", "attention", "full"])
def test_joined_weights_hold_the_counted_copy_of_the_adapters(preset: str) -> None:
    from practicum.engine.decoder.layers import take_apart

    lora = LoraConfig.model_validate({"preset": preset})
    model = measured.build("Llama", 2, lora)
    linear = sum(inputs * outputs for inputs, outputs in model.shape.projections().values())

    storages = {
        p.base.untyped_storage().data_ptr(): p.base.untyped_storage().nbytes()
        for layer in take_apart(model.causal_lm).layers
        for p in layer.projections
    }

    assert sum(storages.values()) == fused_bytes(model.shape, lora, 4) + 2 * linear * 4


def test_packed_weights_are_a_copy_of_every_layer_and_of_the_output() -> None:
    """The rest of what sampling needs is the same in both shapes."""
    config = make_config()
    packed = sampling_bytes(SMOL, config, FIRST_SLOTS, width=4, device="cpu")
    plain = sampling_bytes(SMOL, config, FIRST_SLOTS, width=4, device="cuda")
    step = 8192 - 4096  # a device computes more of the prompts at once
    row = 4 * SMOL.intermediate + 4 * SMOL.hidden + 6 * (SMOL.query_width + SMOL.kv_width)

    making = 2 * 2 * SMOL.hidden * SMOL.intermediate
    norms = SMOL.layers * 2 * SMOL.hidden + SMOL.hidden

    assert packed - (plain - step * row * 4) == (SMOL.parameters - norms + making) * 4


def test_weights_and_adapter_follow_from_their_counts() -> None:
    found = sizes(make_config(lora="full"))
    copy = fused_bytes(SMOL, LoraConfig.model_validate({"preset": "full"}), 4)

    assert found["weights"] == 134_515_008 * 4
    assert found["adapter"] - copy == found["gradients"] == 4_884_480 * 4
    assert found["optimizer"] == 2 * found["gradients"]


def test_half_precision_halves_the_weights_and_not_the_optimizer() -> None:
    single, half = sizes(make_config()), sizes(make_config(), dtype="bfloat16")

    assert half["weights"] * 2 == single["weights"]
    assert half["KV cache"] * 2 == single["KV cache"]
    assert half["optimizer"] == single["optimizer"]
    assert half["activations"] < single["activations"]


@pytest.mark.parametrize(
    ("shape", "preset", "tokens", "measured_mib"),
    [
        (SMOL, "full", 256, 322),
        (SMOL, "full", 512, 582),
        (SMOL, "full", 1024, 1180),
        (SMOL, "full", 2048, 2026),
        (SMOL, "light", 512, 660),
        (SMOL, "light", 1024, 1357),
        (SMOL, "light", 2048, 2269),
        (SMOL, "attention", 1024, 1148),
        (QWEN, "full", 512, 1078),
        (QWEN, "full", 1024, 2159),
    ],
)
def test_the_estimate_is_0_to_30_percent_above_a_measured_process(
    shape: ModelShape, preset: str, tokens: int, measured_mib: int
) -> None:
    """How far resident memory grew in updates of random weights of these shapes, float32."""
    config = make_config(
        env=FREE,
        lora={"preset": preset, "dropout": 0.0},
        rollouts={"max_turns": 1, "max_tokens": 8},
    )

    found = sizes(config, allotted(tokens), shape, compact_heap=False)

    names = ("gradients", "optimizer", "activations", "attention", "logits")
    assert 1.0 <= sum(found[name] for name in names) / (measured_mib << 20) <= 1.3


@pytest.mark.parametrize(("preset", "tokens", "mib"), [("full", 1024, 332), ("light", 2048, 293)])
def test_a_checkpointed_process_stays_below_its_estimate(
    preset: str, tokens: int, mib: int
) -> None:
    """The same with a heap that gives large pieces back, which a checkpointed run makes."""
    config = make_config(env=FREE, lora=preset, rollouts={"max_turns": 1, "max_tokens": 8})

    found = sizes(config, allotted(tokens, checkpointed=True), compact_heap=False)

    names = ("gradients", "optimizer", "activations", "attention", "logits")
    assert 1.0 <= sum(found[name] for name in names) / (mib << 20) <= 1.3


def test_activations_grow_with_the_micro_batch() -> None:
    small = sizes(make_config(), allotted(1024))["activations"]
    large = sizes(make_config(), allotted(2048))["activations"]

    assert large == pytest.approx(2 * small, rel=1e-6)


def test_a_conversation_longer_than_the_micro_batch_counts_whole() -> None:
    long = make_config(rollouts={"max_turns": 100})

    assert sizes(long, allotted(512)) == sizes(long, allotted(128 + 100 * 32))


def test_free_text_needs_the_logits_of_the_whole_vocabulary_in_chunks() -> None:
    chosen, written = make_config(), make_config(env=FREE)
    on_card = sizes(written, allotted(4096), device="cuda", dtype="bfloat16")
    larger = sizes(written, allotted(8192), device="cuda", dtype="bfloat16")

    assert sizes(chosen, allotted())["logits"] < sizes(written, allotted(16))["logits"]
    assert on_card["logits"] + on_card["activations"] > 2 * 4 * CHUNK_LOGITS["cuda"]
    assert larger["logits"] < 1.1 * on_card["logits"]


def test_only_free_draws_on_a_card_are_captured() -> None:
    free = make_config(env=FREE)
    narrowed = make_config(env=FREE, rollouts={"top_p": 0.9})

    def captured(config: RunConfig, device: str) -> int:
        return sizes(config, device=device)["captured steps"]

    assert captured(free, "cuda") > 0
    assert captured(free, "cpu") == captured(make_config(), "cuda") == 0
    assert captured(narrowed, "cuda") == 0


def test_the_cache_has_slots_for_the_episodes_of_a_step_up_to_its_limit() -> None:
    few = make_config(rollouts={"tasks_per_step": 1, "group_size": 2, "max_turns": 1})
    many = make_config(rollouts={"tasks_per_step": 64, "group_size": 64, "max_turns": 32})

    assert rollout_tokens(few) == 128 + 2 * (8 + 24)
    assert evaluation_tokens(few) == 64 * (128 + 32)
    assert (needed_slots(few), needed_slots(many)) == (FIRST_SLOTS, MOST_SLOTS)
    assert fitting_slots(8193) == 16_384
    assert sizes(many)["KV cache"] == (MOST_SLOTS + 1) * 2 * 30 * 192 * 4


def test_sampling_counts_only_beyond_learning() -> None:
    little, much = sizes(make_config(), allotted(256)), sizes(make_config(), allotted(4096))

    assert little["sampling"] > 0
    assert much["sampling"] == 0


def test_a_heap_that_gives_memory_back_holds_less() -> None:
    loose = sizes(make_config(), allotted(), compact_heap=False)
    tight = sizes(make_config(), allotted(), compact_heap=True)

    assert tight["activations"] < 0.75 * loose["activations"]
