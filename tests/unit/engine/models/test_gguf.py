"""Reading .gguf files. The ones read here hold the tiny model, laid out as llama.cpp does it."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from practicum.core.errors import UserError
from practicum.engine.models.gguf import _tie_twins, convert_gguf, float32_bytes
from practicum.engine.models.loading import load_model
from practicum.engine.models.tiny import build_tiny
from practicum.engine.planning.model_shapes import KNOWN_SHAPES, find_shape

NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}

MERGED = 318
"""Where reserved tokens give way to `ab` and `cd`: a file without merges cannot be read."""


def write_tiny_gguf(path: Path, *, splitting: str = "gpt-2", quantised: bool = False) -> None:
    """The tiny model, with its matrices in 8 bits where `quantised`."""
    model, tokenizer = build_tiny()
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    _add_vocabulary(writer, tokenizer, splitting)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue  # tied to the embedding
        values = tensor.numpy()
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        for projection, count in heads.items():
            if projection in name:
                values = _interleave(values, count)
        _add_tensor(writer, _gguf_name(name), values, quantised=quantised)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer: gguf.GGUFWriter, tokenizer: Any, splitting: str) -> None:
    tokens = tokenizer.convert_ids_to_tokens(list(range(320)))
    tokens[MERGED:] = ["ab", "cd"]
    kinds = [gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * 64
    kinds[MERGED:] = [gguf.TokenType.NORMAL] * 2
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["a b", "c d"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(259)
    writer.add_pad_token_id(257)
    writer.add_add_bos_token(False)
    writer.add_chat_template(tokenizer.chat_template)


def _gguf_name(name: str) -> str:
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, *rest, _ = name.split(".")
    return f"blk.{layer}.{NAMES['.'.join(rest)]}.weight"


def _interleave(values: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """The order of rows that llama.cpp rotates: pairs side by side, not half a head apart."""
    rows, columns = values.shape
    paired = values.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2)
    return np.ascontiguousarray(paired.reshape(rows, columns))


def _add_tensor(
    writer: gguf.GGUFWriter, name: str, values: npt.NDArray[np.float32], *, quantised: bool
) -> None:
    if quantised and values.ndim == 2:
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    else:
        writer.add_tensor(name, values)


def convert(file: Path) -> Path:
    folder = file.with_suffix("")
    folder.mkdir()
    convert_gguf(file, folder)
    return folder


def test_plain_weights_come_through_to_the_bit(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_tiny_gguf(file)
    found = AutoModelForCausalLM.from_pretrained(convert(file)).state_dict()
    expected = build_tiny()[0].state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_quantised_weights_become_exactly_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_tiny_gguf(file, quantised=True)
    found = AutoModelForCausalLM.from_pretrained(convert(file)).state_dict()
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    for name in ("model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight"):
        stored = tensors[_gguf_name(name)]
        assert stored.tensor_type == gguf.GGMLQuantizationType.Q8_0
        expected = gguf.quants.dequantize(stored.data, stored.tensor_type)
        np.testing.assert_array_equal(found[name].numpy(), expected)


def test_the_folder_is_a_plain_model_in_float32(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_tiny_gguf(file, quantised=True)
    folder = convert(file)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    assert not hasattr(model.config, "quantization_config")
    assert not getattr(model, "is_quantized", False)
    assert sum(p.numel() for p in model.parameters()) * 4 == float32_bytes(file)
    modes = {path.name: path.stat().st_mode for path in folder.iterdir()}
    assert modes["model.safetensors"] == modes["config.json"]


def test_tokenizer_template_and_context_length_come_along(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_tiny_gguf(file)
    tokenizer = AutoTokenizer.from_pretrained(convert(file))
    expected = build_tiny()[1]
    assert tokenizer.chat_template == expected.chat_template
    assert tokenizer.special_tokens_map == {
        "bos_token": "<|bos|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|pad|>",
    }
    assert tokenizer.decode(tokenizer.encode("▁a ,b")) == "▁a ,b"
    assert tokenizer.encode("x<|im_end|>é ab") == [*b"x", 259, *"é ".encode(), MERGED]
    assert tokenizer.model_max_length == expected.model_max_length


@pytest.mark.parametrize(("splitting", "pieces"), [("smollm", 4), ("gpt-2", 3)])
def test_digits_stand_alone_where_the_vocabulary_was_made_so(
    tmp_path: Path, splitting: str, pieces: int
) -> None:
    file = tmp_path / "tiny.gguf"
    write_tiny_gguf(file, splitting=splitting)
    tokenizer = AutoTokenizer.from_pretrained(convert(file))
    words = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str("x  42")
    assert len(words) == pieces, words


def test_a_gguf_file_is_converted_once_for_each_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path / "cache"))
    first, second = tmp_path / "first.gguf", tmp_path / "second.gguf"
    write_tiny_gguf(first)
    second.write_bytes(first.read_bytes())
    stages: list[str] = []
    loaded = [
        load_model(str(file), progress=lambda stage, done, total: stages.append(stage))
        for file in (first, second)
    ]
    assert loaded[0].folder == loaded[1].folder
    assert loaded[0].fingerprint == loaded[1].fingerprint
    assert stages.count("converting to float32") == 1
    write_tiny_gguf(second, quantised=True)
    other = load_model(str(second))
    assert other.folder != loaded[0].folder
    assert other.fingerprint != loaded[0].fingerprint


@pytest.mark.parametrize("kept", [0, 4, 200, 100_000])
def test_a_file_that_is_damaged_is_named_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "cut.gguf"
    write_tiny_gguf(file)
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(UserError, match=r"'cut\.gguf' is not a sound \.gguf file"):
        load_model(str(file))
    assert not list((tmp_path / "cache" / "models").glob("gguf-*"))


def test_an_architecture_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "odd.gguf"
    writer = gguf.GGUFWriter(file, "abacus")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UserError, match=r"'odd\.gguf' cannot be read as a model .*abacus"):
        convert_gguf(file, tmp_path)


def test_an_output_layer_that_is_the_embedding_in_more_bits_is_made_one_with_it() -> None:
    model, _ = build_tiny()
    finer = model.get_input_embeddings().weight.detach().clone()
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(finer)
    coarse = (finer * 8 / finer.abs().max()).round() * finer.abs().max() / 8
    model.model.embed_tokens.weight = torch.nn.Parameter(coarse + 0.0)
    _tie_twins(model)
    assert model.config.tie_word_embeddings
    assert model.get_input_embeddings().weight is model.lm_head.weight
    assert torch.equal(model.lm_head.weight, finer)


def test_an_output_layer_of_its_own_stays_its_own() -> None:
    model, _ = build_tiny()
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    before = model.get_input_embeddings().weight
    _tie_twins(model)
    assert model.get_input_embeddings().weight is before
    assert not model.config.tie_word_embeddings


def test_the_shape_of_a_file_is_read_from_its_header(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_tiny_gguf(file)
    assert find_shape(str(file)) == KNOWN_SHAPES["tiny"]
    assert find_shape(str(tmp_path / "none.gguf")) is None
