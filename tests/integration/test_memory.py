"""Memory over a whole run: one plan, and what running out of it changes."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_art_style import group, policy_of, registered
from tests.unit.engine.learning.test_micro_batch_splitting import SmallMemory
from tests.unit.rewards.learned.talks import mixed_pool

from practicum import AgenticTrainer
from practicum.assemble.build_policy import build_policy
from practicum.assemble.driver import trainer_for
from practicum.compat.pipeline import TrainingLines
from practicum.core.config.parse_config import build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import NotEnoughMemory
from practicum.engine.learning.learner_state import steps_taken
from practicum.engine.planning.machine import Machine, detect_machine
from practicum.engine.policy import load_for_policy
from practicum.rewards.learned.labeler import Labeler, save_labeler
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir

GIB = 1 << 30


@dataclass
class Free:
    """A machine of 16 GiB of which so much is free."""

    bytes: int = 16 * GIB

    def look(self, **_: object) -> Machine:
        here = detect_machine(look_for_devices=False)
        return replace(here, memory_bytes=16 * GIB, available_bytes=self.bytes)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Iterator[Free]:
    free = Free()
    monkeypatch.setattr("practicum.assemble.build_policy.detect_machine", free.look)
    monkeypatch.setattr("practicum.assemble.driver.detect_machine", free.look)
    monkeypatch.setattr("practicum.engine.planning.machine.detect_machine", free.look)
    return free


def config(runs_dir: Path, **changes: Any) -> RunConfig:
    values = {
        "env": "math",
        "model": {"name": "tiny", "device": "cpu"},
        "steps": 2,
        "runs_dir": str(runs_dir),
        "rollouts": {"tasks_per_step": 2, "group_size": 3, "max_turns": 3},
        "eval": {"n": 2, "before": False},
        "hardware": {"threads": 1},
    }
    return build_config(values | changes)


def test_a_run_that_runs_out_of_memory_says_so_and_counts_it(runs_dir: Path) -> None:
    settings, lines = config(runs_dir), TrainingLines(steps=2, is_quiet=True)
    run = RunDir.create(runs_dir, settings, name="x")
    policy = build_policy(settings)
    policy.learner._decoder = SmallMemory(policy.decoder, 500)  # type: ignore[assignment]
    with run.hold(), trainer_for(settings, run, policy, lines) as trainer:
        asyncio.run(trainer.run())
    rows = [r.values for r in read_metrics(run.metrics_path).rows if r.kind == "step"]
    assert rows[0]["out_of_memory"] > 0
    assert all(row["micro_batch_splits"] > 0 for row in rows)
    assert not any(row["gradient_checkpointing"] for row in rows)
    assert lines.warnings[0].startswith("step 1: the update ran out of memory and went on: ")
    assert len(lines.warnings) == sum(row["out_of_memory"] > 0 for row in rows)


def test_a_run_keeps_to_the_plan_of_its_dry_run_whatever_is_loaded(
    practicum, runs_dir: Path, tiny_run, free: Free, monkeypatch
) -> None:
    def load(*words: Any) -> Any:
        free.bytes = 1  # as if the weights had taken all of it
        return load_for_policy(*words)

    monkeypatch.setattr("practicum.engine.policy.load_for_policy", load)
    monkeypatch.setenv("COLUMNS", "120")
    words = (*tiny_run, "model.device=cpu", f"runs_dir={runs_dir}")
    planned = practicum("train", *words, "--dry-run")
    assert "checkpointing │ off" in planned.out
    assert practicum("train", *words, "--name", "x").code == 0
    assert free.bytes == 1
    rows = read_metrics(RunDir(runs_dir / "x").metrics_path).rows
    assert {r.values["gradient_checkpointing"] for r in rows if r.kind == "step"} == {False}
    assert practicum("train", *words).code == 2  # nothing is free before this one


def test_a_model_that_is_loaded_is_not_counted_again(tmp_path: Path, free: Free) -> None:
    one = AgenticTrainer("tiny", runs_dir=tmp_path, overrides=("hardware.threads=1",))
    rows = [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}]
    dataset = one.prepare_training_data(rows)
    one.setup_model()
    free.bytes = 1
    assert len(one.train(dataset, steps=1, quiet=True)) == 1
    with pytest.raises(NotEnoughMemory):
        one.setup_model()


async def test_less_free_memory_leaves_the_moments_of_adam(tmp_path: Path, free: Free) -> None:
    async with registered(tmp_path) as model:
        optimizer = policy_of(model).policy.learner._optimizer
        await model.train([await group(model, 0.0, 1.0)])
        free.bytes = 1
        await model.train([await group(model, 0.0, 1.0)])
        assert policy_of(model).policy.learner._optimizer is optimizer
        assert steps_taken(optimizer) == 2


def test_a_dry_run_counts_the_embedder_of_a_learned_reward_and_does_not_load_it(
    practicum, tmp_path: Path, tiny_run, monkeypatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    pool, truth = mixed_pool(60, seed=0)
    taught = Labeler.fit(pool, truth)[0]
    pages = []
    for name in ("smollm2-135m", "someone/never-heard-of"):
        folder = tmp_path / name.replace("/", "-")
        save_labeler(replace(taught, embedder=f"{name} (other weights, 9 tokens)"), folder)
        part = f"{{name: learned, labeler: {folder}}}"
        answer = practicum("train", *tiny_run, f"reward.components=[{part}]", "--dry-run")
        assert answer.code == 0, answer.err
        pages.append(answer.out)
    assert "reward (smollm2-135m)" in pages[0]
    assert "not counted: embedder someone/never-heard-of" in pages[1]
    refused = practicum(
        "train", *tiny_run, "reward.components=[{name: learned, labeler: /nowhere}]", "--dry-run"
    )
    assert "holds no labeler" in refused.sentence
