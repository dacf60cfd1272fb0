from typing import Any

import pytest
import yaml

from practicum.core.config.parse_config import apply_overrides, build_config, changed_keys
from practicum.core.errors import ConfigError

WARM_START: dict[str, Any] = {
    "env": "math",
    "stages": [
        {"steps": 5, "algorithm": {"name": "sft", "lr": 1e-3}, "data": "reference"},
        {"steps": 10, "algorithm": "grpo", "rollouts": {"group_size": 4}},
        {"steps": 2, "algorithm": "ppo"},
    ],
}


def complaint(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        build_config(values, "run.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def stages(*rows: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"env": "math", "stages": list(rows), **others}


def test_the_steps_of_a_run_are_those_of_its_stages() -> None:
    config = build_config(WARM_START)
    assert config.steps == 17
    assert [s.algorithm.name for s in config.all_stages] == ["sft", "grpo", "ppo"]


def test_a_run_without_stages_is_one_stage() -> None:
    config = build_config({"env": "math", "steps": 7, "algorithm": "kto", "data": "a.sqlite"})
    [stage] = config.all_stages
    assert (stage.steps, stage.algorithm, stage.data) == (7, config.algorithm, config.data)
    assert stage.data is not None
    assert stage.data.source == "a.sqlite"


def test_a_stage_has_rollouts_of_its_own_or_the_runs() -> None:
    config = build_config({**WARM_START, "rollouts": {"group_size": 6}})
    sizes = [config.rollouts_of(stage).group_size for stage in config.all_stages]
    assert sizes == [6, 4, 6]


def test_stages_read_back_from_yaml_as_themselves() -> None:
    config = build_config(WARM_START)
    text = yaml.safe_dump(config.model_dump(mode="json"))
    again = build_config(yaml.safe_load(text))
    assert again == config
    assert changed_keys(config, again) == []


def test_a_changed_stage_is_seen() -> None:
    other = {**WARM_START, "stages": [WARM_START["stages"][0]]}
    assert changed_keys(build_config(WARM_START), build_config(other))


SFT = {"steps": 3, "algorithm": "sft", "data": "reference"}
GRPO = {"steps": 4, "algorithm": "grpo"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (stages(SFT, GRPO, algorithm="ppo"), "algorithm and stages exclude each other"),
        (stages(SFT, GRPO, data="reference"), "data and stages exclude each other"),
        (stages(SFT, GRPO, steps=9), "steps = 9 and stages exclude each other, whose steps add up"),
        (stages({**GRPO, "data": "reference"}), "grpo learns from episodes it makes"),
        (stages(SFT, {"steps": 2, "algorithm": "dpo"}), "stages[2] has no data"),
        (stages({"algorithm": "grpo"}), "the key 'stages.0.steps' is missing"),
        (stages({**SFT, "steps": 0}), "stages.0.steps = 0 cannot be used"),
        (stages({**GRPO, "steps": "many"}), "stages.0.steps = 'many' cannot be used"),
        (stages({**SFT, "algorithm": {"name": "sft", "clip": 0.2}}), "not an option of sft"),
        (stages(SFT, {**GRPO, "rollouts": {"group_size": 1}}), "rollouts.group_size is 1"),
        ({"env": "math", "algorithm": "sft"}, "sft learns from recorded examples and the run has"),
        ({"env": "math", "data": "reference"}, "so the data of the run would not be used"),
        (
            {"env": "math", "algorithm": "rloo", "rollouts": {"group_size": 1}},
            "rloo compares the episodes of a group, and rollouts.group_size is 1; give at least 2",
        ),
        (
            {"env": "math", "algorithm": "reinforce++", "rollouts": {"group_size": 1}},
            "give at least 2, or baseline: false",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(values: dict[str, Any], said: str) -> None:
    assert said in complaint(values)


def test_steps_that_agree_with_the_stages_are_no_contradiction() -> None:
    assert build_config(stages(SFT, GRPO, steps=7)).steps == 7


@pytest.mark.parametrize("algorithm", ["ppo", {"name": "reinforce++", "baseline": False}])
def test_methods_that_compare_nothing_take_episodes_alone(algorithm: Any) -> None:
    config = build_config({"env": "math", "algorithm": algorithm, "rollouts": {"group_size": 1}})
    assert config.rollouts.group_size == 1


def test_data_may_be_one_word_and_still_be_overridden_inside() -> None:
    values = apply_overrides({"env": "math", "data": "reference"}, ["data.n=20", "algorithm=sft"])
    config = build_config(values)
    assert config.data is not None
    assert (config.data.source, config.data.n) == ("reference", 20)
