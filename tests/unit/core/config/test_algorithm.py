from typing import Any, get_args

import pytest
import yaml

from practicum.core.config import AlgorithmConfig, build_config
from practicum.core.config.algorithm import METHOD_OPTIONS, OFFLINE, TAKES, AlgorithmName
from practicum.core.errors import ConfigError

NAMES: tuple[str, ...] = get_args(AlgorithmName)

NEEDED: dict[str, dict[str, Any]] = {"distill": {"teacher": "smollm2-1.7b"}}
OTHER: dict[str, Any] = {
    "baseline": False,
    "batch": 5,
    "beta": 0.7,
    "clip": 0.123,
    "clip_high": 0.456,
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


def test_every_method_has_a_row_of_options_and_every_option_a_trial_value() -> None:
    assert set(TAKES) == set(NAMES)
    assert set(OTHER) == METHOD_OPTIONS
    assert set(AlgorithmConfig.model_fields) >= METHOD_OPTIONS


@pytest.mark.parametrize("name", NAMES)
def test_a_method_has_its_own_defaults_and_none_of_the_others(name: str) -> None:
    config = build_config(run_with(settings(name))).algorithm
    for option in METHOD_OPTIONS:
        expected = settings(name).get(option, TAKES[name].get(option))
        assert getattr(config, option) == expected, option


@pytest.mark.parametrize("name", NAMES)
def test_a_resolved_method_reads_back_from_yaml_as_itself(name: str) -> None:
    config = build_config(run_with(settings(name, lr=1e-5)))
    text = yaml.safe_dump(config.model_dump(mode="json"))
    assert build_config(yaml.safe_load(text)) == config


@pytest.mark.parametrize("name", NAMES)
def test_every_option_that_a_method_takes_can_be_given(name: str) -> None:
    for option in TAKES[name]:
        given = {option: OTHER[option]}
        if option in {"kl_in", "reference"} and "kl" in TAKES[name]:
            given["kl"] = 0.1
        config = build_config(run_with(settings(name, **given))).algorithm
        assert getattr(config, option) == OTHER[option]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_that_a_method_does_not_take_is_refused(name: str) -> None:
    for option in METHOD_OPTIONS - TAKES[name].keys():
        said = complaint(run_with(settings(name, **{option: OTHER[option]})))
        assert f"{option} is not an option of {name}, which takes: " in said
        assert said.endswith(", ".join(sorted(TAKES[name])))


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        ({"name": "grop"}, "algorithm.name = 'grop' cannot be used: input should be 'grpo', "),
        ({"name": "distill"}, "distill needs algorithm.teacher, a model's name or the address"),
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
