"""From traces that somebody left behind to a model that has learned from them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from practicum.assemble.driver import open_run_environment
from practicum.assemble.environments import open_environment
from practicum.assemble.policies import load_policy, record_episodes
from practicum.core.config.parse_config import build_config
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir
from practicum.store.trace_store import SqliteTraceStore

REPOSITORY = Path(__file__).parents[2]
CONFIG = REPOSITORY / "configs" / "from_traces.yaml"
TRACES = REPOSITORY / "examples" / "traces"


def words(folder: Path, *more: str) -> list[str]:
    return [
        str(CONFIG),
        f"runs_dir={folder}",
        f"data.source={folder / 'traces.sqlite'}",
        f"data.imports={TRACES}",
        "steps=8",
        "eval.every=4",
        "checkpoints.every=4",
        "hardware.threads=1",
        *more,
    ]


def steps_of(run: Path) -> list[dict[str, Any]]:
    rows, damaged = read_metrics(RunDir(run).metrics_path)
    assert damaged == []
    return [dict(row.values) for row in rows if row.kind == "step"]


def adapter(run: Path) -> bytes:
    found = CheckpointStore(run).load_latest().checkpoint
    assert found is not None
    return (found.path / "adapter_model.safetensors").read_bytes()


@pytest.fixture
def whole(practicum: Callable[..., Any], tmp_path: Path) -> Path:
    """The run of the shipped config, from the first step to the last."""
    folder = tmp_path / "whole"
    answer = practicum("train", *words(folder), "--name", "x")
    assert answer.code == 0, answer.err
    assert "held-out rows after 8 steps" in answer.err
    return folder / "x"


def test_the_shipped_config_imports_scores_builds_learns_and_reports(whole: Path) -> None:
    with SqliteTraceStore(whole.parent / "traces.sqlite", read_only=True) as store:
        scores = [episode.score.value for episode in store.query("")]
        labelled = {label.episode_id for label in store.labels()}
    assert len(scores) > 10
    assert 1.1 not in scores  # the store keeps the scores that came with the traces
    about = json.loads((whole / "data" / "stage_1" / "dataset.json").read_text())
    lines = (whole / "data" / "stage_1" / "train.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert {row["label"] for row in rows} == {True, False}
    unlabelled = [row for row in rows if row["id"] not in labelled]
    assert unlabelled
    assert all((row["reward"] >= 0.6) == row["label"] for row in unlabelled)
    assert about["statistics"]["heldout"]["rows"] >= 1
    steps = steps_of(whole)
    assert [step["stage"] for step in steps] == ["kto"] * 8
    assert steps[0]["heldout_loss_before"] == pytest.approx(0.5)  # the policy is the base model
    assert [i for i, s in enumerate(steps, 1) if "heldout_loss" in s] == [4, 8]
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert not (whole / "evals").exists()


@pytest.mark.rare
@pytest.mark.parametrize(
    ("failpoint", "saved"),
    [
        ("traces.commit.after:3", []),
        ("folder.rename.before:2", []),
        ("checkpoint.prune.after", [4]),
    ],
    ids=["while importing", "before the rows are kept", "after a checkpoint"],
)
def test_a_killed_run_ends_with_the_same_bytes(
    failpoint: str, saved: list[int], whole: Path, practicum: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    assert killed(words(folder), failpoint, tmp_path) == -signal.SIGKILL
    assert CheckpointStore(folder / "x").steps() == saved
    if saved:
        (folder / "traces.sqlite").unlink()  # what was learned from is kept with the run
    else:
        assert not (folder / "x" / "data" / "stage_1").exists()
    answer = practicum("train", "--resume", folder / "x")
    assert answer.code == 0, answer.err
    assert adapter(folder / "x") == adapter(whole)
    assert timeless(steps_of(folder / "x")) == timeless(steps_of(whole))


def timeless(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in step.items() if k != "update_s"} for step in steps]


def killed(train: Sequence[str], failpoint: str, folder: Path) -> int:
    """Train in a process of its own that dies at a failpoint; its exit code."""
    command = [sys.executable, "-m", "practicum.cli.main", "train", *train, "--name", "x"]
    environment = {**os.environ, "PRACTICUM_FAILPOINT": failpoint, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, check=False, cwd=folder)
    return done.returncode


STAGES = """
env: {{name: math, level: 1}}
model: tiny
runs_dir: {folder}
rollouts: {{tasks_per_step: 2, group_size: 3, max_turns: 3}}
stages:
  - steps: 3
    algorithm: {{name: {method}, batch: 8}}
    data: {{source: {source}, reward: turns, good_at: {good_at}, heldout: 0.25}}
  - steps: 1
    algorithm: {{name: grpo}}
eval: {{n: 4}}
hardware: {{threads: 1}}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes of the model itself on training tasks."""
    store = tmp_path_factory.mktemp("recorded") / "own.sqlite"
    config = build_config(
        {
            "env": {"name": "math", "level": 1},
            "model": "tiny",
            "rollouts": {"max_turns": 3},
            "eval": {"n": 16, "k": 4},
        }
    )
    player = load_policy(config.model, None, config.rollouts, temperature=1.0)
    environment = open_environment(config.env)
    made = record_episodes(player, environment, config, store, lambda episode: None)
    assert len({episode.score.value for episode in asyncio.run(made)}) > 2
    return store


@pytest.mark.parametrize(
    "method", ["kto", *(pytest.param(m, marks=pytest.mark.rare) for m in ("dpo", "weighted_sft"))]
)
def test_a_model_learns_from_what_it_did_and_then_goes_on_acting(
    method: str, recorded: Path, practicum: Callable[..., Any], tmp_path: Path
) -> None:
    config = tmp_path / "two.yaml"
    with SqliteTraceStore(recorded, read_only=True) as store:
        middle = median(episode.score.value or 0.0 for episode in store.query(""))
    config.write_text(
        STAGES.format(folder=tmp_path, method=method, source=recorded, good_at=middle)
    )
    answer = practicum("train", config, "--name", "x")
    assert answer.code == 0, answer.err
    steps = steps_of(tmp_path / "x")
    assert [step["stage"] for step in steps] == [method] * 3 + ["grpo"]
    assert "heldout_loss" in steps[2]
    lines = (tmp_path / "x" / "data" / "stage_1" / "rows.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    # The choices that the model had are learned from, not the text it came to write.
    assert all(row["choices"] for row in rows)
    assert any(row["logprobs"] for row in rows)
    assert sorted(p.name for p in (tmp_path / "x" / "evals").iterdir()) == [
        "step_0.json",
        "step_3.json",
        "step_4.json",
    ]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["data.where=env = nowhere"], "has nothing that kto could learn from where env = nowhere"),
        (["data.source=somewhere.jsonl"], "data.imports brings traces into a store"),
        (["data.imports=nothing.jsonl"], "nothing.jsonl"),
        (["data.format=xml"], "xml"),
        (["data.where=colour = red"], "colour"),
        (["data.reward.components=[{name: judge, model: tiny}]"], "'judge' compares episodes"),
        (["algorithm.name=grpo", "algorithm.batch=null"], "grpo learns from episodes it makes"),
        (["env=nowhere"], "nowhere"),
    ],
)
def test_data_that_cannot_be_used_is_one_sentence(
    more: list[str], sentence: str, practicum: Callable[..., Any], tmp_path: Path
) -> None:
    answer = practicum("train", *words(tmp_path, *more), "--name", "x")
    assert answer.code == 2, answer.err
    assert sentence in answer.sentence


def test_a_config_without_an_environment_cannot_act(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").touch()
    with pytest.raises(ValueError, match="grpo learns from episodes it makes, and env is none"):
        open_run_environment(build_config({}))
    with pytest.raises(ValueError, match="plays an environment's solutions, and env is none"):
        open_run_environment(build_config({"algorithm": "sft", "data": "reference"}))
    assert open_run_environment(build_config({"algorithm": "sft", "data": "a.jsonl"})) is None
    reward = {"components": [{"name": "outcome"}], "combine": "normalise"}
    data = {"source": "a.sqlite", "reward": reward}
    with pytest.raises(ValueError, match="traces are scored one by one"):
        build_config({"algorithm": "kto", "data": data})
    with pytest.raises(ValueError, match="where is for recorded traces"):
        build_config(
            {"env": "math", "algorithm": "sft", "data": {"source": "reference", "where": "success"}}
        )
