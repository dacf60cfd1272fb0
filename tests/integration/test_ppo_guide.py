"""The PPO recipe: epochs saved, gone on with and evaluated; and a step of the shipped config."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.machines import why_no_machine

from practicum.core.config.parse_config import build_config, parse_yaml

CONFIG = Path(__file__).parents[2] / "configs" / "shell_ppo.yaml"

SMALL = (
    "model=tiny",
    "rollouts.tasks_per_step=5",
    "rollouts.max_turns=2",
    "rollouts.max_tokens=8",
    "algorithm.minibatches=2",
    "algorithm.epochs=2",
    "eval.n=2",
    "hardware.threads=1",
)


def stats(checkpoint: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((checkpoint / "training_stats.json").read_text())
    return found


def test_the_recipe_is_the_guide_s() -> None:
    config = build_config(parse_yaml(CONFIG.read_text(encoding="utf-8"), "shell_ppo.yaml"))
    assert (config.steps, config.rollouts.tasks_per_step, config.rollouts.group_size) == (10, 50, 1)
    algorithm = config.algorithm
    assert (algorithm.lr, algorithm.epochs, algorithm.batch_size) == (1e-5, 4, 4)
    assert algorithm.for_episodes(50).minibatches == 13
    lora = config.lora
    assert (lora.r, lora.alpha, lora.dropout) == (16, 32, 0.1)
    assert lora.targets == ("q_proj", "k_proj", "v_proj", "o_proj")
    reward = config.reward
    assert (reward.correct, reward.incorrect, reward.unknown) == (1.0, -0.5, 0.0)


def test_epochs_are_saved_gone_on_with_and_evaluated(
    practicum: Callable[..., Any], tmp_path: Path
) -> None:
    train = ["math", *SMALL, "algorithm.name=ppo", "rollouts.group_size=1", "checkpoints.every=1"]
    train += ["checkpoints.layout=epoch", f"runs_dir={tmp_path}", "steps=2", "--name", "x"]
    answer = practicum("train", *train)
    assert answer.code == 0, answer.err
    answer = practicum("train", "--resume", tmp_path / "x", "steps=3")
    assert answer.code == 0, answer.err
    checkpoints = tmp_path / "x" / "checkpoints"
    folders = sorted(path.name for path in checkpoints.iterdir() if not path.is_symlink())
    assert folders == ["epoch_1", "epoch_2", "epoch_3"]
    for number in (1, 2, 3):
        found = stats(checkpoints / f"epoch_{number}")
        assert found["step"] == number
        assert len(found["rewards"]) == 5
        assert sum(found["rewards"]) / 5 == pytest.approx(found["last_step"]["reward"])
        assert found["accuracy"] == found["last_step"]["success"]
        adapter = json.loads((checkpoints / f"epoch_{number}" / "adapter_config.json").read_text())
        assert adapter["peft_type"] == "LORA"
    answer = practicum("eval", checkpoints / "epoch_2", "--n", "2", "--json")
    assert answer.code == 0, answer.err
    answer = practicum("runs", tmp_path / "x")
    assert answer.code == 0, answer.err
    assert "epoch_3 (latest" in " ".join(answer.out.split())


def test_a_step_of_the_shipped_config(practicum: Callable[..., Any], tmp_path: Path) -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(f"needs a sandbox with a machine in it: {reason}")
    answer = practicum(
        "train", CONFIG, *SMALL, f"runs_dir={tmp_path}", "steps=1", "eval.before=false", "--name=x"
    )
    assert answer.code == 0, answer.err
    found = stats(tmp_path / "x" / "checkpoints" / "epoch_1")
    assert found["last_step"]["applied"]
    assert len(found["rewards"]) == 5
    assert set(found["rewards"]) <= {1.0, -0.5, 0.0}
