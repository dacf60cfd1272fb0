"""How a run starts vLLM: in an environment of its own, with room for every version."""

import sys
from pathlib import Path

import pytest

from practicum.assemble.elsewhere import _command
from practicum.config_files import read_config
from practicum.core.errors import UserError


def words_of(*words: str) -> list[str]:
    config = read_config(
        "math",
        [
            "model=tiny",
            "model.device=cpu",
            "sampler=vllm",
            f"sampler.python={sys.executable}",
            *words,
        ],
    )
    command, _ = _command(config, "key", config.rollouts.staleness)
    return list(command(8123))


def value_of(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_it_is_a_program_of_its_own_with_the_settings_that_exactness_needs() -> None:
    words = words_of("lora.r=12", "sampler.args=[--max-model-len=300]")
    assert words[:3] == [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    assert "--enable-lora" in words
    assert value_of(words, "--logprobs-mode") == "processed_logprobs"
    assert value_of(words, "--dtype") == "float32"
    assert value_of(words, "--max-lora-rank") == "16"  # one that vLLM takes
    assert value_of(words, "--port") == "8123"
    assert words[-1] == "--max-model-len=300"
    assert (Path(value_of(words, "--model")) / "model.safetensors").is_file()


@pytest.mark.parametrize(("staleness", "versions"), [(0, "3"), (2, "5")])
def test_it_has_room_for_the_versions_that_are_kept_and_the_one_that_comes(
    staleness: int, versions: str
) -> None:
    words = words_of(f"rollouts.staleness={staleness}")
    assert value_of(words, "--max-loras") == value_of(words, "--max-cpu-loras") == versions


def test_its_key_is_no_word_of_the_command_line() -> None:
    config = read_config("math", ["model=tiny", "sampler=vllm", f"sampler.python={sys.executable}"])
    command, environment = _command(config, "secret-key", 0)
    assert "secret-key" not in command(1)
    assert environment["VLLM_API_KEY"] == "secret-key"


@pytest.mark.parametrize(
    ("word", "sentence"),
    [("sampler.python=/no/python", "is no program; name the Python"), ("steps=1", "none is named")],
)
def test_a_missing_vllm_is_said_with_what_to_type(
    word: str, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    config = read_config("math", ["model=tiny", "sampler=vllm", word])
    with pytest.raises(UserError, match=sentence):
        _command(config, "key", 0)
