"""Training stops when the tokens were not sampled by the weights being trained."""

import asyncio
from pathlib import Path

import pytest
import torch

from practicum.assemble.build_policy import build_policy
from practicum.assemble.driver import trainer_for
from practicum.core.config.parse_config import build_config
from practicum.core.errors import PolicyMismatch
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir


class Silent:
    """An observer that says nothing and can be given something to do at an episode."""

    def __init__(self) -> None:
        self.meddle = lambda: None

    def step_started(self, step, episodes):
        self.step = step

    def episode_done(self, episode):
        self.meddle()

    def step_done(self, step, metrics):
        self.metrics = metrics

    def evaluation_started(self, step, episodes):
        pass

    def evaluated(self, step, report):
        pass

    def warned(self, sentence):
        pass


def config(runs_dir: Path, **changes):
    values = {
        "env": "math",
        "model": "tiny",
        "steps": 3,
        "runs_dir": str(runs_dir),
        "rollouts": {"tasks_per_step": 2, "group_size": 3, "max_turns": 3},
        "eval": {"n": 2, "before": False},
        "checkpoints": {"every": 1},
        "hardware": {"threads": 1},
    }
    return build_config(values | changes)


def sampled_from(policy) -> torch.Tensor:
    """A weight as the sampler has it, with the adapter folded in."""
    return policy.model.get_base_model().model.layers[0].self_attn.q_proj.base_layer.weight


def adapter_of(policy) -> torch.Tensor:
    return next(p for n, p in policy.model.named_parameters() if "lora_B" in n)


def test_weights_changed_under_the_sampler_stop_the_run_at_that_step(runs_dir: Path) -> None:
    settings, watcher = config(runs_dir), Silent()
    run = RunDir.create(runs_dir, settings, name="x")
    policy = build_policy(settings)
    with run.hold(), trainer_for(settings, run, policy, watcher) as trainer:

        def meddle() -> None:
            if watcher.step == 2:
                adapter_of(policy).data.add_(0.01)
                watcher.meddle = lambda: None

        watcher.meddle = meddle
        with pytest.raises(PolicyMismatch, match="nothing was updated"):
            asyncio.run(trainer.run())
    assert CheckpointStore(run.path).pointed("latest") == 1
    assert [row.step for row in read_metrics(run.metrics_path).rows] == [1]


def test_a_sampler_whose_fingerprint_lies_is_caught_by_its_log_probabilities(
    runs_dir: Path,
) -> None:
    settings, watcher = config(runs_dir), Silent()
    run = RunDir.create(runs_dir, settings, name="x")
    policy = build_policy(settings)
    with run.hold(), trainer_for(settings, run, policy, watcher) as trainer:

        def meddle() -> None:
            # Only what the sampler reads: the learner finds its own weights, so that both name
            # the same fingerprint.
            sampled_from(policy).data.add_(0.05)
            watcher.meddle = lambda: None

        watcher.meddle = meddle
        with pytest.raises(PolicyMismatch, match="log-probabilities differ"):
            asyncio.run(trainer.run())
    assert CheckpointStore(run.path).steps() == []


def test_the_gap_is_recorded_and_tiny_at_every_step(runs_dir: Path) -> None:
    settings = config(runs_dir)
    run = RunDir.create(runs_dir, settings, name="x")
    policy = build_policy(settings)
    with run.hold(), trainer_for(settings, run, policy, Silent()) as trainer:
        asyncio.run(trainer.run())
    gaps = [
        r.values["largest_gap"] for r in read_metrics(run.metrics_path).rows if r.kind == "step"
    ]
    assert len(gaps) == 3
    assert 0 < max(gaps) < 1e-4
