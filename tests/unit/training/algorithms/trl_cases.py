"""TRL's own trainers over the tiny model, and its padded rows as our samples."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.unit.engine.reference import build_policy, stock_model

from practicum.core.sample import Sample
from practicum.engine.models.tiny import build_tiny_tokenizer

REWARDS = [1.0, 0.0, 0.5, 2.0, 3.0, 3.0, 1.0, -0.5]
GROUP = 4
MAX_LENGTH = 10
PROMPTS = [{"prompt": "solve"}] * GROUP + [{"prompt": "another one"}] * GROUP


def online_trainer(trainer: Any, config: Any, folder: Path, **settings: Any) -> Any:
    """A trainer that samples and scores two groups of four."""
    from datasets import Dataset

    arguments = config(
        output_dir=str(folder),
        per_device_train_batch_size=len(REWARDS),
        num_generations=GROUP,
        max_completion_length=MAX_LENGTH,
        temperature=1.0,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        seed=1,
        **settings,
    )
    built = trainer(
        model=stock_model(build_policy()),
        reward_funcs=lambda completions, **_: REWARDS,
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": "solve"}] * len(REWARDS)),
        processing_class=build_tiny_tokenizer(),
    )
    built.current_gradient_accumulation_steps = 1
    return built


def token_logprobs(trainer: Any, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """TRL's log-probabilities of the completions' tokens, padding included."""
    with torch.no_grad():
        found: torch.Tensor = trainer._get_per_token_logps_and_entropies(
            trainer.model,
            torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1),
            inputs["completion_ids"].size(1),
        )[0]
    return found


def moved(logprobs: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of a sampler a little way off: ratios away from 1, some of them clipped."""
    return logprobs + 0.3 * torch.sin(torch.arange(logprobs.numel()).float()).view_as(logprobs)


def as_samples(
    inputs: Mapping[str, torch.Tensor], old: torch.Tensor, averaging: str = "episode"
) -> list[Sample]:
    """TRL's padded rows as our samples, weighted for a mean over episodes, tokens or a constant."""
    samples = []
    total = int(inputs["completion_mask"].sum())
    for row in range(len(REWARDS)):
        prompt = inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()]
        real = inputs["completion_mask"][row].bool()
        tokens = torch.cat([prompt, inputs["completion_ids"][row][real]]).numpy()
        given, n = prompt.numel(), tokens.size
        weight = {
            "episode": 1 / len(REWARDS) / (n - given),
            "token": 1 / total,
            "constant": 1 / len(REWARDS) / MAX_LENGTH,
        }[averaging]
        samples.append(
            Sample(
                token_ids=tokens,
                loss_mask=np.arange(n) >= given,
                old_logprobs=np.concatenate([np.zeros(given, np.float32), old[row][real].numpy()]),
                advantages=np.full(n, inputs["advantages"][row].item(), np.float32),
                temperatures=np.ones(n, np.float32),
                choices={},
                weight=weight,
                trace_id=str(row),
            )
        )
    return samples
