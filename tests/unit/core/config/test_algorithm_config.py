from typing import Any

import pytest
import yaml

from practicum.core.config.algorithm_config import ALGORITHMS, AlgorithmConfig
from practicum.core.config.parse_config import apply_overrides, build_config
from practicum.core.errors import ConfigError

NAMES = tuple(ALGORITHMS)
OFFLINE = {name for name, model in ALGORITHMS.items() if model.is_offline}

NEEDED: dict[str, dict[str, Any]] = {"distill": {"teacher": "smollm2-1.7b"}}
OTHER: dict[str, Any] = {
    "baseline": False,
    "batch": 5,
    "beta": 0.7,
    "clip": 0.123,
    "clip_high": 0.456,
    "batch_size": 5,
    "credit": "episode",
    "desirable": 1.5,
    "discount": 0.9,
    "entropy": 0.01,
    "epochs": 3,
    "filter_cut_off": True,
    "gae": "token",
    "gae_lambda": 0.5,
    "kl": 0.05,
    "kl_in": "reward",
    "label_smoothing": 0.1,
    "loss": "hinge",
    "max_ratio": 3.5,
    "minibatches": 7,
    "reference": "start",
    "reward_coef": 0.5,
    "scale": "none",
    "teacher": "tiny",
    "temperature": 2.0,
    "undesirable": 0.5,
    "updates": 3,
    "value_clip": 0.3,
    "value_coef": 0.9,
    "value_lr": 0.01,
    "weigh": "positive",
}
"""For every option a value that no method has unless told; `scale` is one of two."""


def run_with(algorithm: dict[str, Any]) -> dict[str, Any]:
    data = {"data": "reference"} if algorithm["name"] in OFFLINE else {}
    return {"env": "math", "algorithm": algorithm, **data}


def settings(name: str, **options: Any) -> dict[str, Any]:
    return {"name": name, **NEEDED.get(name, {}), **options}


def complaint(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        build_config(values, "run.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def own_options(name: str) -> set[str]:
    """What a method takes besides what all of them take."""
    return ALGORITHMS[name].model_fields.keys() - AlgorithmConfig.model_fields.keys()


def test_every_option_has_a_trial_value_and_a_help_text() -> None:
    assert set(OTHER) == set.union(*map(own_options, NAMES))
    for name in NAMES:
        fields = ALGORITHMS[name].model_fields
        assert [key for key in own_options(name) if not fields[key].description] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_resolved_method_reads_back_from_yaml_as_itself(name: str) -> None:
    config = build_config(run_with(settings(name, lr=1e-5)))
    text = yaml.safe_dump(config.model_dump(mode="json"))
    assert build_config(yaml.safe_load(text)) == config


@pytest.mark.parametrize("name", NAMES)
def test_every_option_that_a_method_takes_can_be_given(name: str) -> None:
    for option in own_options(name):
        given = {option: OTHER[option]}
        if option in {"kl_in", "reference"} and "kl" in own_options(name):
            given["kl"] = 0.1
        config = build_config(run_with(settings(name, **given))).algorithm
        assert getattr(config, option) == OTHER[option]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_that_a_method_does_not_take_is_refused(name: str) -> None:
    takes = ", ".join(sorted(ALGORITHMS[name].model_fields))
    for option in OTHER.keys() - own_options(name):
        said = complaint(run_with(settings(name, **{option: OTHER[option]})))
        assert f"{option} is not an option of {name}, which takes: {takes}" in said


def test_an_option_of_another_method_is_refused_with_the_nearest_of_its_own() -> None:
    said = complaint({"env": "math", "algorithm": {"name": "grpo", "clip_high": 0.3}})
    assert said.startswith(
        "run.yaml: algorithm.clip_high is not an option of grpo, which takes: batch_size, clip"
    )
    assert said.endswith("; did you mean 'algorithm.clip'?")
    stages = [{"steps": 1, "algorithm": {"name": "ppo", "gae_lamda": 1}}]
    assert complaint({"stages": stages}).endswith("mean 'stages.0.algorithm.gae_lambda'?")


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        ({"name": "grop"}, "algorithm.name = 'grop' cannot be used: choose one of grpo, "),
        ({"name": "grop"}, "did you mean 'grpo'?"),
        ({"name": "distill"}, "the key 'algorithm.teacher' is missing; add `algorithm.teacher"),
        ({"name": "grpo", "kl_in": "reward"}, "kl_in: reward changes nothing while kl is 0"),
        ({"name": "ppo", "reference": "start"}, "reference: start changes nothing while kl is 0"),
        ({"name": "dpo", "loss": "ipo", "label_smoothing": 0.1}, "goes with loss: sigmoid"),
        ({"name": "grpo", "credit": "episode", "discount": 0.9}, "discount changes nothing"),
        (
            {"name": "weighted_sft", "weigh": "positive", "temperature": 0.5},
            "temperature changes nothing with weigh: positive",
        ),
        ({"name": "kto", "batch": 1}, "kto compares the examples of an update with each other"),
        ({"name": "grpo", "clip": 0}, "algorithm.clip = 0 cannot be used"),
        ({"name": "dpo", "label_smoothing": 0.5}, "algorithm.label_smoothing = 0.5 cannot"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(
    algorithm: dict[str, Any], said: str
) -> None:
    assert said in complaint(run_with(algorithm))


def test_an_option_left_empty_is_the_methods_own() -> None:
    assert build_config(run_with({"name": "ppo", "epochs": None})).algorithm.epochs == 4


def test_a_method_chosen_by_an_override_has_its_own_defaults() -> None:
    words = ["algorithm=ppo", "algorithm.epochs=2"]
    found = build_config(apply_overrides({"env": "math", "algorithm": "grpo"}, words)).algorithm
    assert (found.name, found.epochs, found.minibatches) == ("ppo", 2, 4)


def test_a_config_that_older_versions_resolved_with_every_methods_keys_is_read() -> None:
    """They wrote an empty value for each option that the method does not take."""
    given = settings("ppo", lr=1e-5, epochs=2)
    old = {**dict.fromkeys(OTHER), **given}
    assert build_config(run_with(old)) == build_config(run_with(given))


def test_a_batch_size_is_as_many_minibatches_as_a_step_s_episodes_make() -> None:
    values = {
        "env": "math",
        "rollouts": {"tasks_per_step": 10, "group_size": 5},
        "algorithm": {"name": "ppo", "batch_size": 4},
    }
    config = build_config(values)
    view = config.of_stage(config.all_stages[0])
    assert view.algorithm.minibatches == 13
    again = build_config(config.model_dump())  # as a resumed run reads it
    assert again.of_stage(again.all_stages[0]).algorithm.minibatches == 13
    said = complaint(
        {"env": "math", "algorithm": {"name": "sft", "batch_size": 4}, "data": "reference"}
    )
    assert "did you mean 'algorithm.batch'?" in said
