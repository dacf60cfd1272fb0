"""ART's options as a config's words."""

from typing import Any

import pytest

from practicum.compat.art.local import INERT, LocalBackend, model_words, read_options
from practicum.compat.art.model import TrainableModel
from practicum.core.config.parse_config import build_config
from practicum.core.errors import UserError


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, {"name": "grpo", "lr": 5e-6}),
        ({"learning_rate": 1e-4}, {"name": "grpo", "lr": 1e-4}),
        ({"loss_fn": "ppo", "epsilon": 0.1}, {"name": "grpo", "lr": 5e-6, "clip": 0.1}),
        (
            {"loss_fn": "cispo", "epsilon": 0.5, "epsilon_high": 3.0},
            {"name": "cispo", "lr": 5e-6, "clip": 0.5, "clip_high": 3.0},
        ),
        (
            {"epsilon": 0.2, "epsilon_high": 0.3},
            {"name": "dapo", "lr": 5e-6, "clip": 0.2, "clip_high": 0.3},
        ),
        ({"importance_sampling_level": "sequence"}, {"name": "gspo", "lr": 5e-6}),
        ({"scale_rewards": False}, {"name": "grpo", "lr": 5e-6, "scale": "none"}),
        ({"normalize_advantages": False}, {"name": "grpo", "lr": 5e-6, "scale": "none"}),
        (
            {"kl_penalty_coef": 0.1},
            {"name": "grpo", "lr": 5e-6, "kl": 0.1, "kl_in": "reward"},
        ),
        ({"beta": 0.1}, {"name": "grpo", "lr": 5e-6, "kl": 0.1, "kl_in": "loss"}),
        ({"algorithm": "rloo"}, {"name": "rloo", "lr": 5e-6}),
    ],
)
def test_options_are_words_that_a_config_takes(
    options: dict[str, Any], words: dict[str, Any]
) -> None:
    assert read_options(options, {}) == words
    config = build_config({"env": "art", "algorithm": words}, "a test")
    assert config.algorithm.name == words["name"]


def test_a_call_says_more_than_what_was_chosen_before() -> None:
    chosen = {"name": "dr_grpo", "lr": 1e-3, "max_grad_norm": 0.1, "clip": 0.3}
    assert read_options({}, chosen) == chosen
    assert read_options({"learning_rate": 1e-5}, chosen) == {**chosen, "lr": 1e-5}
    assert read_options({"algorithm": "rloo"}, chosen) == {
        "name": "rloo",
        "lr": 1e-3,
        "max_grad_norm": 0.1,
    }


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lerning_rate": 1.0}, "train has no option 'lerning_rate'; it takes learning_rate"),
        ({"kimi_k2_tau": 1.0}, "train cannot do kimi_k2_tau=1.0"),
        ({"loss_fn": "dpo"}, "loss_fn='dpo' is not known; choose one of grpo, ppo, cispo"),
        ({"importance_sampling_level": "x"}, "importance_sampling_level='x' is not known"),
    ],
)
def test_what_is_not_covered_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        read_options(options, {})
    assert sentence in str(refused.value)


def test_arts_other_options_at_their_defaults_change_nothing() -> None:
    defaults = {name: (None if value is ... else value) for name, value in INERT.items()}
    assert read_options(defaults, {}) == read_options({}, {})


def test_a_models_own_words_reach_adapter_and_optimizer() -> None:
    words = model_words(
        {
            "init_args": {"max_seq_length": 8192},
            "peft_args": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]},
            "trainer_args": {"max_grad_norm": 0.1, "optim": "paged_adamw_8bit"},
        }
    )
    assert words == {
        "lora": {"r": 4, "alpha": 8, "targets": ["q_proj"]},
        "algorithm": {"max_grad_norm": 0.1},
    }
    assert model_words(None) == {}


def test_a_backend_invents_no_environment() -> None:
    model = TrainableModel(name="m", project="p", base_model="tiny")
    assert LocalBackend()._config(model, {}).env is None
