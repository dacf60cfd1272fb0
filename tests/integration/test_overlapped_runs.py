"""Whole runs with episodes under way while the model learns, on the tiny model."""

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from practicum.assemble.build_policy import build_policy
from practicum.assemble.driver import trainer_for
from practicum.core.config.parse_config import build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import PolicyMismatch
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir
from practicum.store.trace_store import SqliteTraceStore


class Watcher:
    """Says nothing, and can be given something to do at an episode or a step."""

    def __init__(self) -> None:
        self.at_episode = lambda: None
        self.at_step = lambda step: None

    def episode_done(self, episode: Any) -> None:
        self.at_episode()

    def step_done(self, step: int, metrics: Any) -> None:
        self.at_step(step)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def config(runs_dir: Path, **rollouts: Any) -> RunConfig:
    return build_config(
        {
            "env": "math",
            "model": "tiny",
            "steps": 6,
            "runs_dir": str(runs_dir),
            "algorithm": {"name": "grpo", "lr": 3e-3, "max_ratio": 1.2},
            "rollouts": {
                "tasks_per_step": 2,
                "group_size": 3,
                "max_turns": 3,
                "staleness": 2,
                **rollouts,
            },
            "eval": {"n": 2, "before": False, "every": 3},
            "checkpoints": {"every": 2},
            "hardware": {"threads": 1},
        }
    )


def train(settings: RunConfig, run: RunDir, watcher: Watcher) -> Any:
    policy = build_policy(settings)
    observer: Any = watcher
    with run.hold(), trainer_for(settings, run, policy, observer) as trainer:
        return asyncio.run(trainer.run())


def steps(run: RunDir) -> list[dict[str, Any]]:
    return [dict(r.values) for r in read_metrics(run.metrics_path).rows if r.kind == "step"]


def names(run: RunDir) -> list[str]:
    with SqliteTraceStore(run.traces_path, read_only=True) as store:
        return [e.trace.id for e in store.episodes() if e.trace.id.startswith("train/")]


def test_stale_tokens_are_learned_from_and_present_ones_checked(runs_dir: Path) -> None:
    settings = config(runs_dir)
    run = RunDir.create(runs_dir, settings, name="x")
    result = train(settings, run, Watcher())
    found = steps(run)
    assert result.state.step == len(found) == 6
    assert sorted(result.reports) == [3, 6]
    assert max(row["staleness_max"] for row in found) in (1, 2)
    assert all(0.0 <= row["truncated_share"] < 1.0 for row in found)
    assert all(row["largest_gap"] < 1e-4 for row in found)
    assert found[0]["present_share"] == 1.0
    assert found[0]["logprob_gap"] > 0.0  # what the present weights sampled was compared
    assert len({row["fingerprint"] for row in found if row.get("fingerprint")}) > 3


def test_an_interrupted_run_resumes_and_has_every_task_once(runs_dir: Path) -> None:
    settings, watcher = config(runs_dir), Watcher()
    run = RunDir.create(runs_dir, settings, name="x")

    def interrupt(step: int) -> None:
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    watcher.at_step = interrupt
    first = train(settings, run, watcher)
    assert first.interrupted
    assert 3 <= first.state.step < 6
    second = train(settings, run, Watcher())
    assert second.state.step == 6
    found = names(run)
    assert len(found) == len(set(found))
    tasks = [name.split("/", 4)[4].rpartition("/")[0] for name in found]
    assert sorted({name.split("/")[1] for name in found}) == list("123456")
    steps = {task: {name.split("/")[1] for name in found if f"/{task}/" in name} for task in tasks}
    assert all(len(used) == 1 for used in steps.values())
    assert all(tasks.count(task) % 3 == 0 for task in steps)  # whole groups


def test_weights_changed_by_someone_else_stop_the_run(runs_dir: Path) -> None:
    settings, watcher = config(runs_dir), Watcher()
    run = RunDir.create(runs_dir, settings, name="x")
    policy = build_policy(settings)
    adapter: torch.Tensor = next(p for n, p in policy.model.named_parameters() if "lora_B" in n)
    observer: Any = watcher

    def meddle() -> None:
        adapter.data.add_(0.01)
        watcher.at_episode = lambda: None

    watcher.at_step = lambda step: setattr(watcher, "at_episode", meddle) if step == 2 else None
    with (
        run.hold(),
        trainer_for(settings, run, policy, observer) as trainer,
        pytest.raises(PolicyMismatch, match="the last update left weights"),
    ):
        asyncio.run(trainer.run())


def test_a_run_cancelled_in_an_update_is_saved_as_the_step_that_it_is(runs_dir: Path) -> None:
    settings = config(runs_dir).model_copy(update={"steps": 3})
    run = RunDir.create(runs_dir, settings, name="x")
    policy = build_policy(settings)
    observer: Any = Watcher()

    async def cancelled(work: Any) -> None:
        job, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
        told = threading.Event()

        def cancel(*_: Any) -> None:
            loop.call_soon_threadsafe(lambda: (job.cancel(), told.set()))
            told.wait()

        hook = register_optimizer_step_pre_hook(cancel)
        try:
            await job
        finally:
            hook.remove()

    with (
        run.hold(),
        trainer_for(settings, run, policy, observer) as trainer,
        pytest.raises(asyncio.CancelledError),
    ):
        asyncio.run(cancelled(trainer.run()))
    saved = CheckpointStore(run.path).load_latest().checkpoint
    assert saved is not None
    assert [row["fingerprint"] for row in steps(run)] == [saved.fingerprint]
    assert saved.step == 1
