import pytest
from pydantic import ValidationError

from practicum.core.config.algorithm_config import GrpoConfig
from practicum.core.config.config_sections import (
    LORA_PRESETS,
    ConfigModel,
    EnvConfig,
    HardwareConfig,
    LoraConfig,
    RolloutConfig,
)


def all_stages(kind: type[ConfigModel] = ConfigModel) -> list[type[ConfigModel]]:
    found = kind.__subclasses__()
    return [*found, *(inner for stage in found for inner in all_stages(stage))]


OURS = [stage for stage in all_stages() if stage.__module__.startswith("practicum.core.config")]

NEEDED: dict[str, dict[str, object]] = {
    "EfficiencyComponent": {"turns": 8},
    "JudgeComponent": {"model": "tiny"},
    "LengthComponent": {"limit": 100},
    "TrainingStageConfig": {"steps": 3},
}
"""What must be said where a word is not enough."""


@pytest.mark.parametrize(
    ("preset", "r", "alpha", "dropout", "targets"),
    [
        ("light", 8, 16, 0.0, ("q_proj", "v_proj")),
        ("attention", 16, 32, 0.1, ("q_proj", "k_proj", "v_proj", "o_proj")),
    ],
)
def test_a_preset_sets_the_adapter(
    preset: str, r: int, alpha: int, dropout: float, targets: tuple[str, ...]
) -> None:
    lora = LoraConfig.model_validate({"preset": preset})
    assert (lora.r, lora.alpha, lora.dropout, lora.targets) == (r, alpha, dropout, targets)


def test_the_full_preset_adapts_all_seven_projections() -> None:
    assert len(set(LoraConfig.model_validate({"preset": "full"}).targets)) == 7


def test_a_field_beside_a_preset_wins_over_it() -> None:
    lora = LoraConfig.model_validate({"preset": "light", "r": 4})
    assert (lora.r, lora.alpha) == (4, 16)


@pytest.mark.parametrize("preset", LORA_PRESETS)
def test_a_saved_adapter_config_reads_back_as_itself(preset: str) -> None:
    lora = LoraConfig.model_validate({"preset": preset, "dropout": 0.2})
    assert LoraConfig.model_validate(lora.model_dump()) == lora


def test_an_environment_keeps_options_this_folder_does_not_know() -> None:
    env = EnvConfig.model_validate({"name": "math", "level": [1, 2], "actions": "free"})
    assert env.options == {"level": [1, 2], "actions": "free"}
    assert env.model_dump() == {"name": "math", "level": [1, 2], "actions": "free"}


def test_a_config_cannot_be_edited() -> None:
    config = RolloutConfig()
    with pytest.raises(ValidationError, match="frozen"):
        config.group_size = 3  # type: ignore[misc]


@pytest.mark.parametrize("stage", OURS, ids=lambda s: s.__name__)
def test_every_default_is_a_value_the_model_would_accept(stage: type[ConfigModel]) -> None:
    required = {name: "math" for name, field in stage.model_fields.items() if field.is_required()}
    config = stage.model_validate({**required, **NEEDED.get(stage.__name__, {})})
    assert stage.model_validate(config.model_dump()) == config


def test_the_micro_batch_is_left_to_the_machine_unless_told() -> None:
    assert GrpoConfig().micro_batch_tokens == 0
    assert GrpoConfig(micro_batch_tokens=512).micro_batch_tokens == 512
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        GrpoConfig(micro_batch_tokens=-1)


def test_rounding_to_bfloat16_is_allowed_for_and_a_limit_given_wins() -> None:
    limits = HardwareConfig()
    assert (limits.gap_limit("float32"), limits.gap_limit("bfloat16")) == (1e-4, 0.5)
    assert HardwareConfig(max_logprob_gap=0.01).gap_limit("bfloat16") == 0.01
