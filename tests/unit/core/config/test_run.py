from typing import Any

import pytest

from practicum.core.config.config_sections import LoraConfig
from practicum.core.config.parse_config import build_config
from practicum.core.errors import ConfigError


def test_an_environment_alone_is_a_whole_run() -> None:
    config = build_config({"env": "math"})
    assert (config.env_name, config.model.name, config.steps) == ("math", "smollm2-135m", 80)


def test_the_default_adapter_is_the_full_preset_with_its_fields_filled_in() -> None:
    assert build_config({"env": "math"}).lora == LoraConfig.model_validate({"preset": "full"})


def test_parts_may_be_given_as_one_word() -> None:
    config = build_config({"env": "math", "model": "tiny", "lora": "light", "algorithm": "grpo"})
    assert (config.model.name, config.lora.r, config.algorithm.name) == ("tiny", 8, "grpo")


def test_a_resolved_config_reads_back_as_itself() -> None:
    config = build_config(
        {"env": {"name": "math", "level": 3}, "lora": "attention", "algorithm": {"lr": "1e-5"}}
    )
    assert build_config(config.model_dump(mode="json")) == config


@pytest.mark.parametrize("without", [{}, {"env": None}, {"env": "none"}, {"env": {"name": "none"}}])
def test_a_run_may_have_no_environment(without: dict[str, Any]) -> None:
    config = build_config({**without, "algorithm": "kto", "data": "a.sqlite"})
    assert (config.env, config.env_name, config.acts, config.needs_env) == (None, "none", False, "")
    assert build_config(config.model_dump(mode="json")) == config


def test_what_makes_its_own_episodes_needs_an_environment() -> None:
    assert build_config({}).needs_env.startswith("grpo learns from episodes it makes, and env is n")
    played = build_config({"algorithm": "sft", "data": "reference"})
    assert "plays an environment's solutions, and env is none" in played.needs_env
    with pytest.raises(ConfigError, match="env: none takes no options, and has level"):
        build_config({"env": {"name": "none", "level": 1}})
