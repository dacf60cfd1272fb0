import json
from pathlib import Path

import pytest

from practicum.core.config.config_sections import LoraConfig
from practicum.engine.planning.model_shapes import (
    KNOWN_SHAPES,
    ModelShape,
    find_shape,
    lora_parameters,
)

QWEN_HALF = "Qwen/Qwen2.5-0.5B-Instruct"
QWEN_HALF_CONFIG = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("tiny", 94_528),
        ("smollm2-135m", 134_515_008),
        (QWEN_HALF, 494_032_768),
        ("Qwen/Qwen2.5-1.5B-Instruct", 1_543_714_304),
        ("Qwen/Qwen2.5-3B-Instruct", 3_085_938_688),
        ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512),
        ("Qwen/Qwen2.5-32B-Instruct", 32_763_876_352),
    ],
)
def test_known_shapes_have_the_published_number_of_parameters(name: str, published: int) -> None:
    assert KNOWN_SHAPES[name].parameters == published


def test_a_hub_config_gives_the_known_shape() -> None:
    assert ModelShape.from_config(QWEN_HALF_CONFIG) == KNOWN_SHAPES[QWEN_HALF]


def test_what_a_config_leaves_out_has_the_defaults_of_the_family() -> None:
    shape = ModelShape.from_config(
        {
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "vocab_size": 10,
        }
    )

    assert (shape.kv_heads, shape.head_dim, shape.tied_embeddings) == (4, 16, False)


@pytest.mark.parametrize(
    ("changes", "is_fused"),
    [
        ({}, True),
        ({"model_type": "granite"}, False),
        ({"hidden_act": "gelu"}, False),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, True),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, False),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, True),
    ],
)
def test_a_config_says_whether_the_policy_computes_the_decoder_itself(
    changes: dict[str, object], is_fused: bool
) -> None:
    assert ModelShape.from_config({**QWEN_HALF_CONFIG, **changes}).is_fused == is_fused


def test_light_trains_0_11_percent_of_a_half_billion_qwen() -> None:
    shape = KNOWN_SHAPES[QWEN_HALF]
    light = LoraConfig.model_validate({"preset": "light"})

    learning = lora_parameters(shape, light)

    assert (learning, shape.parameters) == (540_672, 494_032_768)
    assert f"{learning / shape.parameters:.2%}" == "0.11%"


@pytest.mark.parametrize("preset", ["light", "attention", "full"])
def test_peft_makes_as_many_adapter_parameters_as_counted(preset: str) -> None:
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    shape = KNOWN_SHAPES["tiny"]
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=shape.vocab,
            hidden_size=shape.hidden,
            intermediate_size=shape.intermediate,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            tie_word_embeddings=True,
        )
    )
    assert sum(p.numel() for p in model.parameters()) == shape.parameters
    lora = LoraConfig.model_validate({"preset": preset})
    wrapped = peft.get_peft_model(
        model, peft.LoraConfig(r=lora.r, lora_alpha=lora.alpha, target_modules=list(lora.targets))
    )

    learning = sum(p.numel() for p in wrapped.parameters() if p.requires_grad)

    assert lora_parameters(shape, lora) == learning


@pytest.mark.parametrize("name", ["SmolLM2-135M", "qwen2.5-0.5b-instruct", QWEN_HALF])
def test_known_names_are_found_without_a_care_for_capitals_or_owner(name: str) -> None:
    assert find_shape(name) in KNOWN_SHAPES.values()


def test_a_model_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN_HALF_CONFIG))

    assert find_shape(str(tmp_path)) == KNOWN_SHAPES[QWEN_HALF]


def test_a_hub_id_in_the_local_cache_is_read(tmp_path: Path, monkeypatch) -> None:
    snapshot = tmp_path / "hub" / "models--someone--half" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(QWEN_HALF_CONFIG))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))

    assert find_shape("someone/half") == KNOWN_SHAPES[QWEN_HALF]


def test_unknown_models_and_other_kinds_of_model_have_no_shape(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "nothing"))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')

    assert find_shape("someone/unknown") is None
    assert find_shape(str(tmp_path)) is None
