import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from tests.unit.engine.reference import FULL, build_policy, perturb, row_logits
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from practicum.core.config.config_sections import LoraConfig
from practicum.core.errors import CheckpointError, ConfigError
from practicum.engine.models.lora import (
    attach_adapter,
    load_adapter,
    policy_fingerprint,
    read_adapter,
    save_adapter,
    trainable,
    trainable_share,
)
from practicum.engine.models.tiny import build_tiny_model

LIGHT = LoraConfig.model_validate({"preset": "light"})
ATTENTION = LoraConfig.model_validate({"preset": "attention"})


def qwen_half_b() -> Any:
    """The shape of Qwen2.5-0.5B, without memory for its numbers."""
    config = Qwen2Config(
        vocab_size=151_936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        return Qwen2ForCausalLM(config)


@pytest.mark.parametrize(
    ("lora", "expected"),
    [
        # r (in + out) for q 896 -> 896 and v 896 -> 128, in 24 layers
        (LIGHT, 24 * 8 * ((896 + 896) + (896 + 128))),
        (ATTENTION, 24 * 16 * (2 * (896 + 896) + 2 * (896 + 128))),
        (FULL, 24 * 16 * (2 * (896 + 896) + 2 * (896 + 128) + 3 * (896 + 4864))),
    ],
)
def test_presets_train_what_they_say_on_a_half_billion_qwen(
    lora: LoraConfig, expected: int
) -> None:
    model = qwen_half_b()
    base_parameters = sum(p.numel() for p in model.parameters())
    model.requires_grad_(False)
    assert trainable_share(attach_adapter(model, lora, 0, "qwen")) == (expected, base_parameters)


def test_light_is_a_tenth_of_a_percent_of_it() -> None:
    model = qwen_half_b()
    model.requires_grad_(False)
    learning, base = trainable_share(attach_adapter(model, LIGHT, 0, "qwen"))
    assert learning == 540_672
    assert f"{100 * learning / base:.2f} %" == "0.11 %"


def test_scale_rank_dropout_and_targets_reach_the_layers() -> None:
    model = attach_adapter(build_tiny_model(), ATTENTION, 0, "tiny")
    layer = model.get_base_model().model.layers[0]
    adapted = layer.self_attn.q_proj
    assert adapted.r["default"] == 16
    assert adapted.scaling["default"] == 2.0
    assert adapted.lora_dropout["default"].p == 0.1
    assert not hasattr(layer.mlp.up_proj, "lora_A")


def test_the_seed_alone_decides_the_first_values() -> None:
    torch.manual_seed(5)
    first = attach_adapter(build_tiny_model(), FULL, 3, "tiny")
    state = torch.get_rng_state()
    second = attach_adapter(build_tiny_model(), FULL, 3, "tiny")
    other = attach_adapter(build_tiny_model(), FULL, 4, "tiny")
    assert torch.equal(state, torch.get_rng_state())
    assert policy_fingerprint(first, "b") == policy_fingerprint(second, "b")
    assert policy_fingerprint(first, "b") != policy_fingerprint(other, "b")


def test_a_fresh_adapter_changes_nothing() -> None:
    adapted = attach_adapter(build_tiny_model(), FULL, 0, "tiny").eval()
    assert torch.equal(row_logits(adapted, range(9)), row_logits(build_tiny_model(), range(9)))


@pytest.mark.parametrize(
    "targets", [("q_proj", "qproj"), ("mlp",), ("norm",), ("lm_head",), ("embed_tokens",), ()]
)
def test_targets_that_are_no_linear_layer_are_refused_with_the_names_that_are(
    targets: tuple[str, ...],
) -> None:
    with pytest.raises(
        ConfigError, match=r"lora\.targets has .*set lora\.targets to some of: "
    ) as e:
        attach_adapter(build_tiny_model(), LoraConfig(targets=targets), 0, "tiny")
    named = str(e.value).rsplit(": ", 1)[1].split(", ")
    assert named == sorted(FULL.targets)


def test_saved_files_load_with_plain_peft_and_give_the_same_logits(tmp_path: Path) -> None:
    policy = build_policy()
    save_adapter(policy.model, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    plain = peft.PeftModel.from_pretrained(build_tiny_model(), str(tmp_path)).eval()
    torch.testing.assert_close(
        row_logits(plain, range(20)),
        row_logits(stock_of(policy.model), range(20)),
        rtol=0,
        atol=0,
    )
    base = row_logits(build_tiny_model(), range(20))
    assert not torch.allclose(row_logits(plain, range(20)), base, atol=0.1)


def stock_of(model: Any) -> Any:
    """The policy's own module, switched to stock attention."""
    model.get_base_model().set_attn_implementation("sdpa")
    return model


def test_reading_gives_the_same_fingerprint_and_stays_trainable(tmp_path: Path) -> None:
    policy = build_policy()
    save_adapter(policy.model, tmp_path)
    model = read_adapter(build_tiny_model(), tmp_path)
    assert policy_fingerprint(model, "b") == policy_fingerprint(policy.model, "b")
    assert [n for n, _ in trainable(model)] == [n for n, _ in trainable(policy.model)]


def test_loading_puts_the_saved_bits_in(tmp_path: Path) -> None:
    policy = build_policy()
    save_adapter(policy.model, tmp_path)
    before = policy_fingerprint(policy.model, "b")
    perturb(policy.model, seed=77)
    assert policy_fingerprint(policy.model, "b") != before
    load_adapter(policy.model, tmp_path)
    assert policy_fingerprint(policy.model, "b") == before


def test_an_adapter_of_other_settings_is_refused(tmp_path: Path) -> None:
    save_adapter(build_policy(LIGHT).model, tmp_path)
    model = build_policy(FULL).model
    before = policy_fingerprint(model, "b")
    with pytest.raises(CheckpointError, match="other lora settings"):
        load_adapter(model, tmp_path)
    assert policy_fingerprint(model, "b") == before


@pytest.mark.filterwarnings("ignore:Found missing adapter keys")
def test_an_adapter_of_another_model_or_a_damaged_one_is_not_read(tmp_path: Path) -> None:
    save_adapter(build_policy().model, tmp_path)
    config = build_tiny_model().config
    for change in ({"num_hidden_layers": 3}, {"hidden_size": 32, "head_dim": 16}):
        other = LlamaForCausalLM(LlamaConfig(**{**config.to_dict(), **change}))
        with pytest.raises(CheckpointError, match=r"another model|cannot be read"):
            read_adapter(other, tmp_path)
    weights = tmp_path / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_adapter(build_tiny_model(), tmp_path)


def test_the_saved_config_does_not_depend_on_the_order_of_a_set(tmp_path: Path) -> None:
    """`peft` keeps the targets as a set, whose order changes from process to process."""
    save_adapter(build_policy().model, tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["target_modules"] == sorted(FULL.targets)
    assert list(config) == sorted(config)


def test_a_run_can_start_from_a_saved_adapter(tmp_path: Path) -> None:
    trained = build_policy(seed=3)
    save_adapter(trained.model, tmp_path)
    started = FULL.model_copy(update={"start": str(tmp_path)})
    model = attach_adapter(build_tiny_model(), started, 0, "tiny")
    mine, theirs = dict(trainable(model)), dict(trainable(trained.model))
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"alpha": 8}, "has alpha 32 and rank 16, and lora has 8 and 16; set lora.alpha"),
        ({"r": 4}, "another model or other lora settings"),
        ({"start": "nowhere"}, "'nowhere', and no adapter can be read there"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(
    changed: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    save_adapter(build_policy().model, tmp_path)
    lora = FULL.model_copy(update={"start": str(tmp_path), **changed})
    with pytest.raises((ConfigError, CheckpointError), match=sentence):
        attach_adapter(build_tiny_model(), lora, 0, "tiny")
