import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from practicum.core.errors import MissingExtra, UserError
from practicum.core.trace import Message
from practicum.engine.models.loading import base_fingerprint, load_model
from practicum.engine.models.tiny import save_tiny


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    save_tiny(made)
    return made


def test_a_loaded_model_is_frozen_and_in_eval_mode() -> None:
    loaded = load_model("tiny")
    assert not loaded.module.training
    assert not any(p.requires_grad for p in loaded.module.parameters())
    assert loaded.module.dtype == torch.float32
    assert (loaded.name, loaded.folder) == ("tiny", None)


def test_precision_and_attention_are_as_asked(folder: Path) -> None:
    for name in ("tiny", str(folder)):
        loaded = load_model(name, dtype="bfloat16", attn_implementation="eager")
        assert loaded.module.dtype == torch.bfloat16
        assert loaded.module.config._attn_implementation == "eager"


def test_a_folder_gives_the_same_model_as_the_name(folder: Path) -> None:
    ids = torch.tensor([list(b"3x + 7 = 16")])
    named, stored = load_model("tiny"), load_model(str(folder))
    with torch.no_grad():
        assert torch.equal(named.module(ids).logits, stored.module(ids).logits)
    hello = [Message(role="user", content="hello")]
    assert named.codec.open(hello) == stored.codec.open(hello)
    assert named.codec.end_of_turn_ids == stored.codec.end_of_turn_ids == {259}
    assert stored.folder == folder


def test_ids_the_generation_settings_end_with_end_a_turn(folder: Path) -> None:
    settings = json.loads((folder / "generation_config.json").read_text())
    settings["eos_token_id"] = [259, 11]
    (folder / "generation_config.json").write_text(json.dumps(settings))
    loaded = load_model(str(folder))
    assert loaded.codec.end_of_turn_ids == {259, 11}
    assert loaded.codec.turn_end_id == 259


def test_the_fingerprint_is_the_weights_and_not_where_they_lie_or_who_wrote_them(
    folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    save_tiny(copy)
    config = json.loads((copy / "config.json").read_text())
    config["transformers_version"] = "0.0"
    (copy / "config.json").write_text(json.dumps(config, indent=1))
    assert base_fingerprint(copy) == base_fingerprint(folder)
    assert load_model("tiny").fingerprint == load_model("tiny", dtype="bfloat16").fingerprint


def test_another_training_of_the_same_shape_has_another_fingerprint(
    folder: Path, tmp_path: Path
) -> None:
    trained = tmp_path / "trained"
    save_tiny(trained)
    weights = load_file(trained / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    weights[name] = weights[name] * 1.001
    save_file(weights, trained / "model.safetensors", metadata={"format": "pt"})
    sizes = [(f / "model.safetensors").stat().st_size for f in (folder, trained)]
    assert sizes[0] == sizes[1]
    assert base_fingerprint(trained) != base_fingerprint(folder)


def test_another_config_has_another_fingerprint(folder: Path) -> None:
    before = base_fingerprint(folder)
    config = json.loads((folder / "config.json").read_text())
    config["rms_norm_eps"] = 0.5
    (folder / "config.json").write_text(json.dumps(config))
    assert base_fingerprint(folder) != before


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("smolm2", r"no model 'smolm2'; did you mean 'smollm2-135m'\? known models: tiny, smoll"),
        ("gpt-nothing-like-it", r"no model 'gpt-nothing-like-it'; known models: tiny"),
        ("./no/such/folder", r"no file or folder './no/such/folder'; known models"),
        ("missing.gguf", r"no file or folder 'missing.gguf'"),
        (
            "someone/nothing",
            r"'someone/nothing' is no folder .* not asked \(HF_HUB_OFFLINE is set\); give a fold",
        ),
        ("Qwen/Qwen2.5-7B-Instruct", r"needs no hub: smollm2-135m, qwen2\.5-coder-1\.5b$"),
    ],
)
def test_a_name_that_leads_nowhere_gets_one_sentence(
    name: str, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=sentence) as caught:
        load_model(name)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(b"x")
    with pytest.raises(UserError, match=r"model\.bin' is not a \.gguf file"):
        load_model(str(file))


def test_a_folder_without_all_of_a_model_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"is not a whole model; it needs config\.json"):
        load_model(str(folder))


def test_an_adapters_folder_is_told_apart_from_a_models(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match="holds an adapter and not a model; give the base model"):
        load_model(str(tmp_path))


def test_damaged_weights_are_named(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=r"cannot be loaded from .*copy it again"):
        load_model(str(folder))


def test_a_model_without_a_chat_template_is_refused(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match="has no chat template"):
        load_model(str(folder))


def test_a_load_that_fetches_nothing_says_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError):
        load_model("someone/nothing")
    assert capsys.readouterr().err == ""  # the hub is off, and so it is not asked
    load_model(str(folder))
    assert capsys.readouterr().err == ""


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # importing it now fails, as if it were not installed
from practicum.core.errors import MissingExtra
from practicum.engine.models.loading import load_model
try:
    load_model("tiny")
except MissingExtra as error:
    print(error)
"""


def test_without_torch_the_sentence_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False
    )
    expected = str(MissingExtra.for_extra("train", "loading the model 'tiny'"))
    assert done.stdout == expected + "\n", done.stderr


@pytest.mark.smollm2
def test_smollm2_is_a_sane_instruct_model() -> None:
    loaded = load_model("smollm2-135m")
    codec = loaded.codec
    assert loaded.tokenizer.decode([codec.turn_end_id]) == "<|im_end|>"
    assert codec.end_of_turn_ids == {loaded.tokenizer.eos_token_id}
    assert sum(p.numel() for p in loaded.module.parameters()) == 134_515_008
    prompt = codec.open([Message(role="user", content="What is the capital of France?")])
    ids = torch.tensor([prompt])
    answer = loaded.module.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False
    )[0, len(prompt) :].tolist()
    assert answer[-1] == codec.turn_end_id
    assert codec.decode(answer) == "The capital of France is Paris."


@pytest.mark.smollm2
def test_smollm2_reads_digits_one_by_one() -> None:
    tokenizer = load_model("smollm2-135m").tokenizer
    tokens = tokenizer.convert_ids_to_tokens(tokenizer.encode("\n\n31x  = -207"))
    assert tokens == ["ĊĊ", "3", "1", "x", "Ġ", "Ġ=", "Ġ-", "2", "0", "7"]
