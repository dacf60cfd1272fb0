"""Presets find their layers in families that call them otherwise; such models sample and learn."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from practicum import train
from practicum.core.config.config_sections import LoraConfig
from practicum.core.errors import ConfigError, UserError
from practicum.engine.models.gguf import require_chat_template
from practicum.engine.models.loading import load_model
from practicum.engine.models.lora import attach_adapter
from practicum.engine.models.tiny import build_tiny_tokenizer

SIZES = {"vocab_size": 320, "eos_token_id": 259, "bos_token_id": 256, "pad_token_id": 257}
WIDE = {
    **SIZES,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 2048,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "GPT2": {**SIZES, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 2048},
    "GPTNeoX": WIDE,
    "Phi": WIDE,
    "Phi3": {**WIDE, "num_key_value_heads": 2},
    "Gemma": {**WIDE, "num_key_value_heads": 2, "head_dim": 8},
    "Gemma2": {**WIDE, "num_key_value_heads": 2, "head_dim": 8},  # with softcaps, as by default
    "Gemma3": {},
    "Bloom": {**SIZES, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "Falcon": {**SIZES, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    "Opt": {},
    "Lfm2": {**WIDE, "num_key_value_heads": 2, "layer_types": ["full_attention", "conv"]},
}


def build(family: str) -> Any:
    name = {"Gemma3": "Gemma3Text", "Opt": "OPT"}.get(family, family)
    sizes: dict[str, Any] = FAMILIES[family]
    if family == "Gemma3":
        sizes = {**WIDE, "num_key_value_heads": 2, "head_dim": 8}
    if family == "Opt":
        sizes = {**SIZES, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2}
        sizes |= {"num_attention_heads": 4, "word_embed_proj_dim": 32}
    config = getattr(transformers, f"{name}Config")(**sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config)
    return model.eval().requires_grad_(False)


def targets(family: str, preset: str) -> set[str]:
    lora = LoraConfig.model_validate({"preset": preset})
    model = attach_adapter(build(family), lora, 0, family)
    return set(model.peft_config["default"].target_modules)


@pytest.mark.parametrize(
    ("family", "light", "full"),
    [
        ("GPT2", {"c_attn"}, {"c_attn", "c_proj", "c_fc"}),
        ("GPTNeoX", {"query_key_value"}, {"query_key_value", "dense", "dense_h_to_4h"}),
        ("Phi", {"q_proj", "v_proj"}, {"q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"}),
        ("Phi3", {"qkv_proj"}, {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}),
        ("Gemma", {"q_proj", "v_proj"}, {"q_proj", "o_proj", "gate_proj", "down_proj"}),
        ("Gemma3", {"q_proj", "v_proj"}, {"q_proj", "o_proj", "gate_proj", "down_proj"}),
        ("Bloom", {"query_key_value"}, {"query_key_value", "dense"}),
        ("Falcon", {"query_key_value"}, {"query_key_value", "dense"}),
        ("Opt", {"q_proj", "v_proj"}, {"q_proj", "out_proj", "fc1", "fc2"}),
    ],
)
def test_a_preset_means_a_familys_own_layers(family: str, light: set[str], full: set[str]) -> None:
    assert targets(family, "light") == light
    assert targets(family, "full") >= full
    assert "lm_head" not in targets(family, "full")


def test_names_that_the_user_spells_out_must_be_there() -> None:
    lora = LoraConfig(targets=("q_proj", "w1"))
    with pytest.raises(ConfigError, match=r"has q_proj, w1, .*some of: c_attn, c_fc, c_proj"):
        attach_adapter(build("GPT2"), lora, 0, "gpt2")


def saved(family: str, folder: Path, *, template: bool) -> Path:
    tokenizer = build_tiny_tokenizer()
    if not template:
        tokenizer.chat_template = None
    build(family).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("family", ["GPT2", "Phi", "Gemma2", "Gemma3", "Opt"])
def test_a_base_model_of_another_family_trains_with_a_template_it_is_given(
    family: str, tmp_path: Path
) -> None:
    folder = saved(family, tmp_path / "base", template=False)
    with pytest.raises(UserError, match=r"give the template: model\.chat_template=chatml"):
        load_model(str(folder))
    run = train(
        "math",
        model={"name": str(folder), "chat_template": "chatml"},
        steps=2,
        warm_start="none",
        rollouts={"tasks_per_step": 2, "group_size": 4, "max_turns": 3},
        eval={"n": 2},
        hardware={"threads": 1},
        runs_dir=str(tmp_path / "runs"),
        quiet=True,
    )
    assert len(run.metrics) == 2
    assert all(row["logprob_gap_max"] < 1e-3 for row in run.metrics if "logprob_gap_max" in row)


@pytest.mark.parametrize(
    ("family", "way"), [("Bloom", "computes attention by code of its own"), ("Lfm2", "conv")]
)
def test_a_family_that_is_not_computed_is_refused_before_a_run_is_made(
    family: str, way: str, tmp_path: Path
) -> None:
    folder = saved(family, tmp_path / "base", template=True)
    with pytest.raises(UserError, match=rf"family {family.lower()}, .*{way}.* such as Qwen2"):
        train("math", model=str(folder), steps=2, runs_dir=str(tmp_path / "runs"), quiet=True)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("family", ["GPT2", "Opt"])
def test_a_base_models_own_dropout_is_never_drawn(family: str, tmp_path: Path) -> None:
    folder = saved(family, tmp_path / "base", template=True)
    assert dropouts(build(family))  # pretrained with some
    module = load_model(str(folder), attn_implementation="eager").module
    assert dropouts(module) == set()
    token_ids = torch.arange(3, 13)[None]
    with torch.no_grad():
        calm = module(input_ids=token_ids).logits
        assert torch.equal(module.train()(input_ids=token_ids).logits, calm)


def dropouts(module: Any) -> set[str]:
    """Parts that leave something out while they are trained."""
    named = ("p", "dropout", "attention_dropout", "layerdrop")
    return {
        f"{name}.{key}"
        for name, part in module.named_modules()
        for key in named
        if isinstance(getattr(part, key, None), float) and getattr(part, key) > 0
    }


def test_a_template_can_be_a_file(tmp_path: Path) -> None:
    folder = saved("GPT2", tmp_path / "base", template=False)
    own = tmp_path / "own.jinja"
    own.write_text("{% for m in messages %}{{ m['content'] + eos_token }}{% endfor %}")
    loaded = load_model(str(folder), chat_template=str(own))
    assert loaded.tokenizer.chat_template == own.read_text()
    with pytest.raises(ConfigError, match="neither chatml nor a file"):
        load_model(str(folder), chat_template="chatlm")
    own.write_text("hello")
    with pytest.raises(ConfigError, match="does not mention messages"):
        load_model(str(folder), chat_template=str(own))


def test_a_gguf_file_without_a_template_is_refused_before_it_is_converted(tmp_path: Path) -> None:
    from gguf import GGUFWriter

    path = tmp_path / "base.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_string("tokenizer.ggml.model", "gpt2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(UserError, match=r"no chat template.*model\.chat_template=chatml"):
        require_chat_template(path)
    with pytest.raises(UserError, match=r"no chat template.*model\.chat_template=chatml"):
        load_model(str(path))
