"""GRPO's family through TRL's own trainer: its generation, its advantages, its loss."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.engine.reference import build_policy
from tests.unit.engine.training_cases import WatchedGrpo, relative_error
from tests.unit.training.algorithms.trl_cases import (
    GROUP,
    PROMPTS,
    REWARDS,
    as_samples,
    moved,
    online_trainer,
    token_logprobs,
)
from tests.unit.training.recorded_rows import steps_over, watch_gradients

from practicum.engine.models.lora import trainable
from practicum.training.algorithms.build_algorithms import objective_of
from practicum.training.algorithms.cispo import Cispo
from practicum.training.algorithms.credit import episode_advantages
from practicum.training.algorithms.dapo import Dapo
from practicum.training.algorithms.grpo import DrGrpo, Grpo
from practicum.training.algorithms.gspo import Gspo
from practicum.training.algorithms.offline_grpo import OfflineGrpo
from practicum.training.example_steps import OfflineExample, units
from practicum.training.prefix_tree import build_batches

pytest.importorskip("trl", reason="needs the extra 'peers'; type: pip install 'practicum[peers]'")
pytestmark = [pytest.mark.rare, pytest.mark.filterwarnings("ignore")]


@dataclass(frozen=True)
class Case:
    """One of our methods, and what TRL calls it."""

    name: str
    method: Any
    settings: dict[str, Any]


CASES = [
    Case("grpo", Grpo(), {"loss_type": "grpo"}),
    Case("grpo with kl", Grpo(kl=0.1), {"loss_type": "grpo", "beta": 0.1}),
    Case("dr_grpo", DrGrpo(), {"loss_type": "dr_grpo", "scale_rewards": "none"}),
    Case("dapo", Dapo(), {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28}),
    Case("cispo", Cispo(clip_high=0.1), {"loss_type": "cispo", "epsilon_high": 1.1}),
    Case(
        "gspo",
        Gspo(clip=0.01, clip_high=0.02, kl=0.2),
        {
            "loss_type": "grpo",
            "importance_sampling_level": "sequence",
            "epsilon": 0.01,
            "epsilon_high": 0.02,
            "beta": 0.2,
        },
    ),
]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any, dict[str, Any]]:
    """Our method, TRL's trainer, and two groups it has sampled and scored."""
    from trl import GRPOConfig, GRPOTrainer

    given: Case = request.param
    settings = {"beta": 0.0, "epsilon": 0.2, "scale_rewards": "group", **given.settings}
    # The penalty as the GRPO paper has it.
    settings["use_bias_correction_kl"] = False
    trainer = online_trainer(GRPOTrainer, GRPOConfig, tmp_path, **settings)
    inputs = trainer._generate_and_score_completions(PROMPTS)
    inputs["old_per_token_logps"] = moved(token_logprobs(trainer, inputs))
    with trainer.model.disable_adapter():
        inputs["ref_per_token_logps"] = token_logprobs(trainer, inputs)
    return given.method, trainer, inputs


def test_advantages_are_trls(case: Any) -> None:
    method, _, inputs = case
    ours = [
        advantage
        for begin in range(0, len(REWARDS), GROUP)
        for advantage in episode_advantages(
            tuple(REWARDS[begin : begin + GROUP]), method.config.scale
        )
    ]
    assert ours == pytest.approx(inputs["advantages"].tolist(), abs=1e-6)


def test_loss_and_gradients_of_an_update_are_trls(case: Any) -> None:
    method, trainer, inputs = case
    names, tensors = zip(*trainable(trainer.model), strict=True)
    loss = trainer.compute_loss(trainer.model, inputs)
    theirs = dict(zip(names, torch.autograd.grad(loss, tensors), strict=True))
    policy = build_policy(max_logprob_gap=1.0)
    watched = WatchedGrpo(model=policy.model, inner=method)
    samples = as_samples(inputs, inputs["old_per_token_logps"], method.averaging)
    report = policy.learner.update(build_batches(samples, 10_000), watched)
    assert report.loss == pytest.approx(loss.item(), abs=1e-6)
    assert abs(loss.item()) > 1e-3
    assert report.clip_share > 0
    assert report.tokens < report.row_tokens
    assert relative_error(watched.gradients, theirs) <= 1e-5


def test_recorded_groups_have_trls_loss_and_gradients(case: Any) -> None:
    method, trainer, inputs = case
    if method.name != "grpo" or method.config.kl:
        pytest.skip("TRL's other losses have no form for recorded groups here")
    names, tensors = zip(*trainable(trainer.model), strict=True)
    loss = trainer.compute_loss(trainer.model, inputs)
    theirs = dict(zip(names, torch.autograd.grad(loss, tensors), strict=True))
    recorded = OfflineGrpo(max_ratio=None)
    samples = as_samples(inputs, inputs["old_per_token_logps"])
    rows = [
        OfflineExample(sample=sample, pair=str(number // GROUP), reward=reward)
        for number, (sample, reward) in enumerate(zip(samples, REWARDS, strict=True))
    ]
    policy = build_policy(max_grad_norm=1e9)
    steps = steps_over(policy, recorded, units(rows, "grpo"))
    steps.objective = objective_of(recorded)
    gradients = watch_gradients(policy)
    result = steps.learn(1, asyncio.run(steps.gather(1)))
    assert result.metrics["loss"] == pytest.approx(loss.item(), abs=1e-6)
    assert relative_error(gradients, theirs) <= 1e-5
