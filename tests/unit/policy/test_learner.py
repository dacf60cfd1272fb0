import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from practicum.algorithms import Grpo
from practicum.batching import build_batches
from practicum.core.config import LoraConfig
from practicum.core.errors import PolicyMismatch
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Batch
from practicum.policy.lora import trainable
from practicum.policy.torch_policy import TorchPolicy
from tests.unit.policy.reference import (
    ACTIONS,
    ask,
    build_fresh_policy,
    build_policy,
    perturb,
    stock_model,
)
from tests.unit.policy.training_cases import (
    WatchedGrpo,
    batches_of,
    plain_gradients,
    plain_loss,
    play,
    relative_error,
    row_logprob,
    sampled_batches,
    samples_of,
)

SAME_GRADIENT = 1e-5
DROPOUT = LoraConfig.model_validate({"preset": "attention"})

HOW: dict[str, dict[str, Any]] = {
    "free": {},
    "constrained": {"actions": ACTIONS, "max_tokens": 20},
    "warm": {"temperature": 1.7},
    "cold, cut": {"temperature": 0.6, "top_k": 20, "top_p": 0.9},
    "constrained, cut, warm": {"actions": ACTIONS, "temperature": 1.4, "top_p": 0.8},
}


def saved(policy: TorchPolicy, folder: Path) -> dict[str, bytes]:
    """Everything a checkpoint keeps of a learner, as bytes."""
    folder.mkdir(exist_ok=True)
    policy.learner.save(folder)
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def weights(policy: TorchPolicy) -> list[torch.Tensor]:
    return [parameter.detach().clone() for _, parameter in trainable(policy.model)]


@pytest.mark.parametrize("how", HOW.values(), ids=HOW.keys())
@pytest.mark.parametrize("kl", [0.0, 0.1])
async def test_loss_and_gradients_are_those_of_plain_rows(how: dict[str, Any], kl: float) -> None:
    policy = build_policy()
    traces = await play(policy, **how)
    # Rollouts a little off the policy, so that ratios differ from 1 and some are clipped.
    samples = [
        replace(s, old_logprobs=np.float32(s.old_logprobs + 0.3 * np.sin(np.arange(s.token_ids.size))))
        for s in samples_of(traces)
    ]
    stock = stock_model(policy)
    loss = plain_loss(stock, samples, clip=0.2, kl=kl)
    algorithm = WatchedGrpo(model=policy.model, inner=Grpo(clip=0.2, kl=kl))
    learner = build_policy(max_logprob_gap=1.0)
    algorithm.model = learner.model
    report = learner.learner.update(build_batches(samples, 10_000), algorithm)
    assert report.loss == pytest.approx(float(loss), abs=2e-6)
    assert report.clip_share > 0
    assert relative_error(algorithm.gradients, plain_gradients(stock, loss)) <= SAME_GRADIENT
