import json
from dataclasses import replace
from pathlib import Path

import pytest

from practicum.config_files import read_config
from practicum.core.config.parse_config import build_config
from practicum.core.errors import ConfigError, NotEnoughMemory
from practicum.engine.planning.config_checks import check_processes, check_sizes, odd_settings
from practicum.engine.planning.machine import detect_machine

MACHINE = replace(detect_machine(look_for_devices=False), allowed_cores=4, memory_bytes=8 << 30)


@pytest.mark.parametrize(
    ("word", "give"),
    [
        ("rollouts.group_size=100000000", "give rollouts.group_size=65536 or less"),
        ("rollouts.tasks_per_step=100000000", "give rollouts.tasks_per_step=65536 or less"),
        ("eval.n=100000000", "give eval.n=524288 or less"),
        ("eval.k=100000000", "give eval.k=5242 or less"),
    ],
)
def test_episodes_that_cannot_fit_are_refused_with_the_most_that_can(word: str, give: str) -> None:
    with pytest.raises(NotEnoughMemory) as refused:
        check_sizes(read_config("math", [word]), MACHINE)
    assert word in str(refused.value)
    assert give in str(refused.value)


def test_usual_settings_fit_and_are_not_odd() -> None:
    config = read_config("math", [])
    check_sizes(config, MACHINE)
    assert odd_settings(config, MACHINE) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rollouts.temperature=0"], "nothing will be learned; give rollouts.temperature=1"),
        (["algorithm=rloo", "rollouts.temperature=0"], "rloo learns from their differences"),
        (["algorithm.lr=1e30"], "algorithm.lr=1e+30 is far above"),
        (["hardware.threads=64"], "more than the 4 cores there are"),
    ],
)
def test_what_will_not_do_what_one_hopes_for_is_told_with_its_reason(
    words: list[str], said: str
) -> None:
    (told,) = odd_settings(read_config("math", words), MACHINE)
    assert said in told


def test_a_method_that_compares_nothing_may_be_cold() -> None:
    words = ["algorithm=ppo", "rollouts.temperature=0"]
    assert odd_settings(read_config("math", words), MACHINE) == []


def test_tiny_is_said_to_be_no_model_for_a_task_of_ones_own() -> None:
    (told,) = odd_settings(read_config("mine.py:Mine", ["model=tiny"]), MACHINE)
    assert "leave model= out to train smollm2-135m" in told
    assert odd_settings(read_config("mine.py:Mine", []), MACHINE) == []
    assert odd_settings(read_config("math", ["model=tiny"]), MACHINE) == []


def test_an_algorithm_of_ones_own_learns_in_one_process() -> None:
    own = {"env": "math", "algorithm": "mine.py:Mine"}
    check_processes(build_config(own))
    check_processes(build_config({"env": "math", "hardware": {"processes": 2}}))
    with pytest.raises(ConfigError, match=r"'mine.py:Mine' .* leave out hardware\.processes=2"):
        check_processes(build_config({**own, "hardware": {"processes": 2}}))


def test_a_family_that_runs_through_transformers_layers_is_told_to_be_slower(
    tmp_path: Path,
) -> None:
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "vocab_size": 320}
    shape = {"model_type": "gemma2", "num_attention_heads": 4, **sizes}
    (tmp_path / "config.json").write_text(json.dumps(shape))
    (told,) = odd_settings(read_config("math", [f"model={tmp_path}"]), MACHINE)
    assert "runs through transformers" in told
