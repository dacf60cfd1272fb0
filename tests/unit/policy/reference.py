"""The stock `transformers` model as the judge of ours: whole rows, no cache, no tree, no plan."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import peft
import torch

from practicum.core.config import LoraConfig
from practicum.core.sampling import Completion, SamplingParams, SamplingRequest

from practicum.policy.engine import TorchEngine
from practicum.policy.learner import LearnerSettings
from practicum.policy.lora import trainable
from practicum.policy.tiny import build_tiny_model
from practicum.policy.torch_policy import TorchPolicy, load_for_policy

FULL = LoraConfig.model_validate({"preset": "full"})
END = 259
"""The tiny model's end-of-turn token."""


def build_policy(lora: LoraConfig = FULL, *, seed: int = 0, **settings: Any) -> TorchPolicy:
    """A policy over a fresh copy of the tiny model, with an adapter that is not zero."""
    loaded = load_for_policy("tiny", "float32", "cpu")
    policy = TorchPolicy.build(loaded, lora, LearnerSettings(**{"lr": 1e-3, **settings}), seed)
    perturb(policy.model, seed=seed + 1)
    return policy


def build_engine(policy: TorchPolicy, max_slots: int) -> TorchEngine:
    """Another sampler over the policy's weights, with a cache of its own."""
    loaded = load_for_policy("tiny", "float32", "cpu")
    return TorchEngine(
        policy.model.get_base_model(),
        loaded.tokenizer,
        loaded.codec,
        fingerprint=policy.learner.fingerprint,
        max_slots=max_slots,
    )


def perturb(model: Any, seed: int, size: float = 0.1) -> None:
    """Move every trainable tensor; a fresh adapter has a matrix of zeros and does nothing."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in trainable(model):
            parameter += size * torch.randn(parameter.shape, generator=generator)


def stock_model(policy: TorchPolicy, attention: str = "sdpa") -> Any:
    """The same base weights and adapter in a model that knows nothing of Practicum."""
    base = build_tiny_model()
    base.set_attn_implementation(attention)
    base.requires_grad_(False)
    model = peft.get_peft_model(base, policy.model.peft_config["default"])
    peft.set_peft_model_state_dict(model, peft.get_peft_model_state_dict(policy.model))
    return model.eval()


def row_logits(model: Any, token_ids: Sequence[int]) -> torch.Tensor:
    """(T, V) for one row, computed whole."""
    row = torch.tensor([list(token_ids)])
    logits: torch.Tensor = model(input_ids=row, use_cache=False).logits[0]
    return logits


def row_logprobs(
    model: Any, prompt: Sequence[int], completion: Completion, params: SamplingParams
) -> list[float]:
    """What the stock model says of each sampled token, before top-k and top-p."""
    with torch.no_grad():
        logits = row_logits(model, [*prompt, *completion.token_ids]).double()
    found = []
    for i, token in enumerate(completion.token_ids):
        scores = logits[len(prompt) + i - 1] / params.temperature
        if completion.choices and completion.choices[i]:
            allowed = torch.full_like(scores, float("-inf"))
            ids = list(completion.choices[i])
            allowed[ids] = scores[ids]
            scores = allowed
        found.append(float(torch.log_softmax(scores, -1)[token]))
    return found


def untruncated(completion: Completion) -> np.ndarray:
    """Recorded log-probabilities before top-k and top-p, which is what a learner recomputes."""
    logprobs = np.asarray(completion.logprobs)
    return logprobs + np.asarray(completion.log_kept) if completion.log_kept else logprobs


async def sample_all(
    sampler: Any, requests: Sequence[SamplingRequest]
) -> list[Completion]:
    """All at once."""
    return list(await asyncio.gather(*(sampler.sample(request) for request in requests)))
