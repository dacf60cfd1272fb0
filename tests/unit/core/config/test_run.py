import pytest
from pydantic import ValidationError

from practicum.core.config import LoraConfig, RunConfig, build_config


def test_an_environment_alone_is_a_whole_run() -> None:
    config = build_config({"env": "math"})
    assert (config.env.name, config.model.name, config.steps) == ("math", "smollm2-135m", 30)


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


def test_the_environment_is_the_only_key_that_must_be_given() -> None:
    with pytest.raises(ValidationError) as caught:
        RunConfig.model_validate({})
    assert [error["loc"] for error in caught.value.errors()] == [("env",)]
