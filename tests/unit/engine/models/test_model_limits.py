"""Models and adapters of strangers: whatever their files say is loaded or is one sentence."""

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from practicum.core.config.config_sections import LoraConfig
from practicum.core.errors import CheckpointError, UserError
from practicum.engine.chat.template_trial import try_template
from practicum.engine.models.gguf import float32_bytes
from practicum.engine.models.loading import check_model_name, load_model
from practicum.engine.models.lora import attach_adapter, read_adapter, save_adapter
from practicum.engine.models.model_limits import (
    ADAPTER_BYTES,
    check_adapter_limits,
    check_model_files,
    is_slow_pattern,
)
from practicum.engine.models.tiny import build_tiny, build_tiny_model
from practicum.engine.planning.model_shapes import find_shape
from practicum.store.checkpoints import base_of_adapter


@pytest.fixture(scope="module")
def whole_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    model, tokenizer = build_tiny()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def model_config(whole_model: Path) -> Any:
    """Writes the model's config with some keys changed; it is put back afterwards."""
    path = whole_model / "config.json"
    kept = path.read_text()

    def write(**changed: Any) -> Path:
        path.write_text(json.dumps({**json.loads(kept), **changed}))
        return whole_model

    yield write
    path.write_text(kept)


@pytest.fixture(scope="module")
def saved_adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    light = LoraConfig.model_validate({"preset": "light"})
    save_adapter(attach_adapter(build_tiny_model(), light, 0, "tiny"), folder)
    return folder


@pytest.fixture
def adapter_config(saved_adapter: Path) -> Any:
    path = saved_adapter / "adapter_config.json"
    kept = path.read_text()

    def write(**changed: Any) -> Path:
        path.write_text(json.dumps({**json.loads(kept), **changed}))
        return saved_adapter

    yield write
    path.write_text(kept)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1e+09, and a model has 1 to 2,000"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0, and a model has 1 to 4,096"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ({"text_config": {"num_hidden_layers": 10**9}}, "num_hidden_layers is 1e+09"),
        ({"vocab_size": 10**12}, "vocab_size is 1e+12"),
        ({"vocab_size": 10**400}, "vocab_size is inf"),
        ({"num_hidden_layers": 2000, "num_local_experts": 4000}, "2000 layers of 4000 experts"),
    ],
)
def test_a_model_that_no_machine_could_build_is_one_sentence_at_once(
    changed: dict[str, Any], said: str, model_config: Any
) -> None:
    folder = model_config(**changed)
    for look in (check_model_name, find_shape, load_model):
        with pytest.raises(UserError) as wrong:
            look(str(folder))
        assert said in str(wrong.value)


NUMBERS = st.one_of(
    st.integers(-3, 300), st.sampled_from([10**9, 10**400, -(10**12), 0, 2**31]), st.floats()
)
VALUES = st.one_of(NUMBERS, st.none(), st.text(max_size=5), st.lists(NUMBERS, max_size=2))


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(data=st.data())
def test_any_numbers_in_a_model_config_load_or_are_one_sentence(
    data: st.DataObject, model_config: Any
) -> None:
    keys = sorted(json.loads((model_config() / "config.json").read_text()))
    changed = data.draw(st.dictionaries(st.sampled_from(keys), VALUES, min_size=1, max_size=2))
    with suppress(UserError):
        find_shape(str(folder := model_config(**changed)))
        load_model(str(folder))


def test_a_model_with_code_of_its_own_does_not_run_it(
    model_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where transformers knows the family by itself, nor where it does not."""
    auto = {"AutoConfig": "planted.Config", "AutoModelForCausalLM": "planted.Model"}
    folder = model_config(auto_map=auto)
    mark = folder / "mark"
    (folder / "planted.py").write_text(f"open({str(mark)!r}, 'w')\n")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    load_model(str(folder))
    assert not mark.exists()
    model_config(auto_map=auto, model_type="planted", architectures=["PlantedModel"])
    with pytest.raises(UserError, match="brings Python code of its own"):
        load_model(str(folder))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rank_pattern": {"q_proj": 10**7}}, "it asks for rank 10000000"),
        ({"rank_pattern": {f"l{i}": 8 for i in range(3000)}}, "3,000 entries"),
        ({"r": 10**7}, "it asks for rank 10000000"),
        ({"peft_type": "NOSUCH"}, "peft_type is 'NOSUCH', and only LORA is read here"),
        ({"peft_type": ["LORA"]}, "only LORA is read here"),
        ({"target_modules": "(.*)*q_proj"}, "a pattern that may take for ever"),
        ({"megatron_config": {"a": 1}, "megatron_core": "planted"}, "megatron_config is set"),
        ({"layer_replication": [[0, 10**9]]}, "layer_replication is set"),
        ({"target_modules": 5}, "cannot be read"),
        ({"no_such_setting": "x" * ADAPTER_BYTES}, "more than 1,048,576 bytes"),
    ],
)
def test_an_adapter_that_asks_for_too_much_is_one_sentence_at_once(
    changed: dict[str, Any], said: str, adapter_config: Any
) -> None:
    with pytest.raises(CheckpointError) as wrong:
        read_adapter(build_tiny_model(), adapter_config(**changed))
    assert said in str(wrong.value)


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 10**9), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=4,
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(data=st.data())
def test_any_adapter_config_is_read_or_is_one_sentence(
    data: st.DataObject, adapter_config: Any, tiny_base: Any
) -> None:
    keys = sorted(json.loads((adapter_config() / "adapter_config.json").read_text()))
    changed = data.draw(st.dictionaries(st.sampled_from(keys), JSON_VALUES, max_size=2))
    with suppress(CheckpointError):
        base_of_adapter(adapter_config(**changed))
        read_adapter(copy.deepcopy(tiny_base), adapter_config(**changed))


@pytest.fixture(scope="module")
def tiny_base() -> Any:
    return build_tiny_model()


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "7", '{"r": 1}', ""])
def test_an_adapter_config_of_another_form_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(text)
    for look in (base_of_adapter, check_adapter_limits):
        with pytest.raises(CheckpointError):
            look(tmp_path)


@pytest.mark.parametrize("pattern", ["(a*)*", "(a|ab)+c", "(.*\\.)+x", ".*" * 8, "(a{2,})*"])
def test_a_pattern_whose_tries_multiply_is_slow(pattern: str) -> None:
    assert is_slow_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "q_proj",
        r".*\.(q_proj|v_proj)$",
        r"(?:.*?(?:language|text).*?(?:self_attn|mlp).*?(?:q_proj|k_proj))|(?:\bmodel\.x)",
        r"model\.layers\.[0-9]+\.self_attn\.q_proj",
    ],
)
def test_patterns_of_usual_adapters_are_not(pattern: str) -> None:
    assert not is_slow_pattern(pattern)


@pytest.mark.parametrize(
    "template",
    [
        '{{ "x" * 10**10 }}',
        pytest.param(
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            marks=pytest.mark.slow,
        ),
        "{% for i in range(99999) %}{% for j in range(99999) %}yyyyyyy{% endfor %}{% endfor %}",
        "{% set n = namespace(x='x') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}"
        "{% endfor %}",
        "{% generation %}{{ '%9999999999d' % 1 }}{% endgeneration %}",
        "{{ 'x'.center(9999999999) }}",
        "x" * 2_000_000,
    ],
)
def test_a_template_that_would_never_end_is_one_sentence(template: str) -> None:
    with pytest.raises(UserError, match="the chat template of theirs"):
        try_template(template, "theirs")


@pytest.mark.parametrize(
    "template", ["{{ messages[0].content }}", "{% broken", "{{ nothing.at.all }}"]
)
def test_a_template_that_ends_is_left_to_its_reader(template: str) -> None:
    try_template(template, "theirs")


def test_a_large_template_file_is_one_sentence(whole_model: Path) -> None:
    path = whole_model / "chat_template.jinja"
    kept = path.read_bytes() if path.exists() else None
    with path.open("wb") as file:
        file.truncate(10**10)  # it takes no place on the disk
    try:
        with pytest.raises(UserError, match=r"chat_template.jinja has 10,000,000,000 bytes"):
            check_model_files(whole_model)
    finally:
        path.unlink()
        if kept is not None:
            path.write_bytes(kept)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("llama.block_count", 10**9, "llama.block_count is 1e+09"),
        ("llama.attention.head_count", 0, "llama.attention.head_count is 0"),
    ],
)
def test_a_gguf_file_that_no_machine_could_build_is_one_sentence(
    key: str, value: int, said: str, tmp_path: Path
) -> None:
    writer = GGUFWriter(tmp_path / "theirs.gguf", "llama")
    writer.add_uint32(key, value)
    _written(writer)
    with pytest.raises(UserError) as wrong:
        float32_bytes(tmp_path / "theirs.gguf")
    assert said in str(wrong.value)


def test_nested_arrays_of_a_gguf_file_are_one_sentence(tmp_path: Path) -> None:
    """An array of arrays of arrays: 4 bytes of type and 8 of length for each."""
    import struct

    array = struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 3000 + struct.pack("<IQ", 4, 0)
    name = b"theirs"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    path = tmp_path / "theirs.gguf"
    path.write_bytes(head + struct.pack("<Q", len(name)) + name + array)
    with pytest.raises(UserError, match=r"is not a sound \.gguf file"):
        float32_bytes(path)


def _written(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
