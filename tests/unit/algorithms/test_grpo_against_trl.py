"""The same numbers through TRL's own trainer: its generation, its advantages, its loss."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.policy.reference import build_policy, stock_model
from tests.unit.policy.training_cases import WatchedGrpo, relative_error

from practicum.algorithms import Grpo
from practicum.algorithms.credit import episode_advantages
from practicum.algorithms.grpo import grpo_loss
from practicum.batching import build_batches
from practicum.core.loss import LossTerms
from practicum.core.sample import Sample
from practicum.policy.lora import trainable
from practicum.policy.tiny import build_tiny_tokenizer

pytest.importorskip("trl", reason="needs the extra 'peers'; type: pip install 'practicum[peers]'")
pytestmark = pytest.mark.filterwarnings("ignore")

REWARDS = [1.0, 0.0, 0.5, 2.0, 3.0, 3.0, 1.0, -0.5]
GROUP = 4


def build_trainer(folder: Path, beta: float) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    settings = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=len(REWARDS),
        num_generations=GROUP,
        max_completion_length=10,
        loss_type="grpo",
        beta=beta,
        use_bias_correction_kl=False,  # the penalty as the GRPO paper has it
        epsilon=0.2,
        scale_rewards="group",
        temperature=1.0,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        seed=1,
    )
    return GRPOTrainer(
        model=stock_model(build_policy()),
        reward_funcs=lambda completions, **_: REWARDS,
        args=settings,
        train_dataset=Dataset.from_list([{"prompt": "solve"}] * len(REWARDS)),
        processing_class=build_tiny_tokenizer(),
    )


@pytest.fixture(params=[0.0, 0.1], ids=["no penalty", "penalty"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, dict[str, torch.Tensor]]:
    """A trainer, and two groups it has sampled and scored, as its loss takes them."""
    trainer = build_trainer(tmp_path, beta=request.param)
    trainer.current_gradient_accumulation_steps = 1
    prompts = [{"prompt": "solve"}] * GROUP + [{"prompt": "another one"}] * GROUP
    inputs = trainer._generate_and_score_completions(prompts)
    now = token_logprobs(trainer, inputs)
    wave = 0.3 * torch.sin(torch.arange(now.numel()).float()).view_as(now)
    inputs["old_per_token_logps"] = now + wave  # ratios away from 1, some of them clipped
    with trainer.model.disable_adapter():
        inputs["ref_per_token_logps"] = token_logprobs(trainer, inputs)
    return trainer, inputs


def token_logprobs(trainer: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """TRL's log-probabilities of the completions' tokens, padding included."""
    with torch.no_grad():
        found: torch.Tensor = trainer._get_per_token_logps_and_entropies(
            trainer.model,
            torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1),
            inputs["completion_ids"].size(1),
        )[0]
    return found


def as_samples(inputs: dict[str, torch.Tensor]) -> list[Sample]:
    """TRL's padded rows as our samples."""
    samples = []
    for row in range(len(REWARDS)):
        prompt = inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()]
        real = inputs["completion_mask"][row].bool()
        tokens = torch.cat([prompt, inputs["completion_ids"][row][real]]).numpy()
        old = inputs["old_per_token_logps"][row][real].numpy()
        given, n = prompt.numel(), tokens.size
        samples.append(
            Sample(
                token_ids=tokens,
                loss_mask=np.arange(n) >= given,
                old_logprobs=np.concatenate([np.zeros(given, np.float32), old]),
                advantages=np.full(n, inputs["advantages"][row].item(), np.float32),
                temperatures=np.ones(n, np.float32),
                choices={},
                weight=1 / len(REWARDS) / (n - given),
                trace_id=str(row),
            )
        )
    return samples


def test_advantages_are_trls(case: Any) -> None:
    _, inputs = case
    ours = [
        advantage
        for begin in range(0, len(REWARDS), GROUP)
        for advantage in episode_advantages(tuple(REWARDS[begin : begin + GROUP]), "std")
    ]
    assert ours == pytest.approx(inputs["advantages"].tolist(), abs=1e-6)


def test_the_loss_of_the_same_log_probabilities_is_trls(case: Any) -> None:
    trainer, inputs = case
    mask = inputs["completion_mask"].bool()
    weights = (mask / mask.sum(1, keepdim=True) / len(REWARDS))[mask]
    advantages = inputs["advantages"][:, None].expand_as(mask)[mask]
    terms = LossTerms(
        logprobs=token_logprobs(trainer, inputs)[mask],
        old_logprobs=inputs["old_per_token_logps"][mask],
        advantages=advantages,
        weights=weights,
        base_logprobs=inputs["ref_per_token_logps"][mask],
    )
    report = grpo_loss(terms, clip_low=0.2, clip_high=0.2, kl=trainer.beta)
    with torch.no_grad():
        expected = trainer.compute_loss(trainer.model, inputs).item()
    assert report.loss.item() == pytest.approx(expected, abs=1e-6)
    assert abs(expected) > 1e-3
    assert report.clipped.item() > 0


def test_loss_and_gradients_of_an_update_are_trls(case: Any) -> None:
    trainer, inputs = case
    names, tensors = zip(*trainable(trainer.model), strict=True)
    loss = trainer.compute_loss(trainer.model, inputs)
    theirs = dict(zip(names, torch.autograd.grad(loss, tensors), strict=True))
    policy = build_policy(max_logprob_gap=1.0)
    watched = WatchedGrpo(model=policy.model, inner=Grpo(clip=0.2, kl=trainer.beta))
    report = policy.learner.update(build_batches(as_samples(inputs), 10_000), watched)
    assert report.loss == pytest.approx(loss.item(), abs=1e-6)
    assert report.tokens < report.row_tokens
    assert relative_error(watched.gradients, theirs) <= 1e-5
