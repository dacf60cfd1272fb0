"""The command lines of a guide to PPO on os_interaction, as they are written there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.integration.conftest import Answer

SMALL = (
    *("algorithm.name=ppo", "model=tiny", "rollouts.group_size=1", "rollouts.max_tokens=8"),
    *("rollouts.max_turns=2", "eval.n=2", "hardware.threads=1"),
    *("checkpoints.layout=epoch", "checkpoints.every=1", "checkpoints.adapter_bin=true"),
)
FLAGS = (
    *("--samples_per_epoch", "3", "--learning_rate", "1e-5", "--batch_size", "2"),
    *("--ppo_epochs", "1", "--lora_r", "4", "--lora_alpha", "8"),
)
TRAIN = ("src/train_lora_rl.py", "--config_path", "math", "--output_dir", "./lora_checkpoints")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lora")


@pytest.fixture
def practicum_there(
    practicum: Callable[..., Answer], trained: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    """The command line in a folder where the guide's training has been done."""
    monkeypatch.chdir(trained)
    if not Path("lora_checkpoints").exists():
        answer = practicum(*TRAIN, *FLAGS, "--num_epochs", "2", *SMALL)
        assert answer.code == 0, answer.err
    return practicum


def test_epochs_are_where_the_guide_has_them(practicum_there: Callable[..., Answer]) -> None:
    for epoch in (1, 2):
        folder = Path("lora_checkpoints") / f"epoch_{epoch}"
        names = {path.name for path in folder.iterdir()}
        assert {"adapter_config.json", "adapter_model.bin", "training_stats.json"} <= names
        stats: dict[str, Any] = json.loads((folder / "training_stats.json").read_text())
        assert len(stats["rewards"]) == 3


def test_the_bin_file_has_plain_tensors_the_same_as_the_safetensors(
    practicum_there: Callable[..., Answer],
) -> None:
    folder = Path("lora_checkpoints") / "epoch_2"
    as_bin = torch.load(folder / "adapter_model.bin", weights_only=True)
    kept = load_file(folder / "adapter_model.safetensors")
    assert as_bin.keys() == kept.keys()
    assert all(torch.equal(as_bin[name], kept[name]) for name in kept)


def test_the_bin_file_is_not_read_here(practicum_there: Callable[..., Answer]) -> None:
    weights = Path("lora_checkpoints") / "epoch_2" / "adapter_model.safetensors"
    aside = weights.with_name("aside")
    weights.rename(aside)
    try:
        answer = practicum_there("eval", "./lora_checkpoints/epoch_2", "--n", "1")
    finally:
        aside.rename(weights)
    assert answer.code != 0
    assert "adapter_model.safetensors is missing" in answer.err


def test_an_epoch_is_evaluated_by_its_path(practicum_there: Callable[..., Answer]) -> None:
    line = "--mode evaluate --config_path standard.yaml --num_samples 2"
    weights = ("--lora_weights_path", "./lora_checkpoints/epoch_1")
    answer = practicum_there("src/evaluate_lora.py", *line.split(), *weights)
    assert answer.code == 0, answer.err
    assert "taking lora_checkpoints/checkpoints/epoch_1" in answer.err


@pytest.mark.slow
def test_an_epoch_is_merged_and_the_merged_model_evaluated(
    practicum_there: Callable[..., Answer],
) -> None:
    weights = ("--lora_weights_path", "./lora_checkpoints/epoch_2")
    merged = ("--merged_model_path", "./merged_model")
    script = "src/evaluate_lora.py"
    answer = practicum_there(script, "--mode", "merge", *weights, *merged, "--num_samples", "2")
    assert answer.code == 0, answer.err
    assert Path("merged_model/model.safetensors").is_file()
    words = ("--mode", "evaluate", *weights, "--use_merged_model", *merged, "--num_samples", "2")
    answer = practicum_there(script, *words, "--env", "math")
    assert answer.code == 0, answer.err
    assert "math" in answer.out
    answer = practicum_there("./scripts/evaluate_lora.sh", "standard.yaml", weights[1], "both", "2")
    assert answer.code == 0, answer.err
    assert "merged" in answer.out


def test_an_earlier_epoch_goes_on_as_a_new_run_and_the_last_one_in_place(
    practicum_there: Callable[..., Answer],
) -> None:
    epochs = ("--num_epochs", "3")
    first = ("--resume_from", "./lora_checkpoints/epoch_1")
    answer = practicum_there(*TRAIN, *FLAGS, *epochs, *SMALL, *first)
    assert answer.code == 2
    assert "has gone on to step 2 since ./lora_checkpoints/epoch_1" in answer.err
    elsewhere = (*TRAIN[:-1], "./other_checkpoints")
    answer = practicum_there(*elsewhere, *FLAGS, *epochs, *SMALL, *first)
    assert answer.code == 0, answer.err
    assert Path("other_checkpoints/epoch_3/adapter_config.json").is_file()
    assert not Path("lora_checkpoints/epoch_3").exists()
    answer = practicum_there("train", "--resume", "./other_checkpoints/epoch_2", "--name", "./x/y")
    assert answer.code == 2
    assert "lies beside the old one" in answer.err


def test_links_to_epochs_that_are_gone_go_too(
    practicum: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train = [*TRAIN[:-1], "a", *FLAGS, *SMALL]
    answer = practicum(*train, "checkpoints.keep=1", "steps=3", "eval.n=0")
    assert answer.code == 0, answer.err
    assert [path.name for path in Path("a").glob("epoch_*")] == ["epoch_3"]
    assert (Path("a") / "epoch_3").resolve() == (Path("a") / "checkpoints" / "epoch_3").resolve()


def test_a_launcher_of_several_processes_is_refused_and_of_one_is_told(
    practicum: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train = ("train", "math", *SMALL, "steps=1", "eval.n=0", "rollouts.tasks_per_step=2")
    monkeypatch.setenv("WORLD_SIZE", "2")
    answer = practicum(*train)
    assert answer.code == 2
    assert "one of 2 (WORLD_SIZE)" in answer.err
    assert not Path("runs").exists()
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    answer = practicum(*train)
    assert answer.code == 0, answer.err
    assert "accelerate launch changes nothing here" in answer.err
