"""The stock `transformers` model as the judge of ours: whole rows, no cache, no tree, no plan."""

import asyncio
import copy
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import peft
import torch

from practicum.core.config.config_sections import LoraConfig
from practicum.core.sampling import (
    ActionForm,
    Completion,
    NextCharacters,
    SamplingParams,
    SamplingRequest,
)
from practicum.engine.learning.learner import LearnerSettings
from practicum.engine.models.loading import LoadedModel
from practicum.engine.models.lora import trainable
from practicum.engine.models.tiny import build_tiny_model
from practicum.engine.policy import TorchPolicy, load_for_policy
from practicum.engine.sampling.sampling_engine import TorchEngine

FULL = LoraConfig.model_validate({"preset": "full"})
END = 259
"""The tiny model's end-of-turn token."""


def bits(written: str) -> NextCharacters:
    """The syntax of an argument: one or two binary digits."""
    return NextCharacters(allowed="01" if len(written) < 2 else "", may_end=len(written) > 0)


ACTIONS = (
    ActionForm(name="add", argument=bits),
    ActionForm(name="add_all"),
    ActionForm(name="simplify"),
    ActionForm(name="state", argument=bits),
)


def build_policy(lora: LoraConfig = FULL, *, seed: int = 0, **settings: Any) -> TorchPolicy:
    """A policy over a fresh copy of the tiny model, with an adapter that is not zero."""
    policy = build_fresh_policy(lora, seed=seed, **settings)
    perturb(policy.model, seed=seed + 1)
    policy.learner.publish()
    return policy


def build_fresh_policy(lora: LoraConfig = FULL, *, seed: int = 0, **settings: Any) -> TorchPolicy:
    """A policy as a run starts with it: its adapter adds nothing yet."""
    loaded = load_for_policy("tiny", "float32", "cpu")
    return TorchPolicy.build(loaded, lora, LearnerSettings(**{"lr": 1e-3, **settings}), seed)


@functools.cache
def tiny() -> LoadedModel:
    """The tiny model for its tokenizer and codec; its weights are nobody's policy."""
    return load_for_policy("tiny", "float32", "cpu")


def build_engine(
    policy: TorchPolicy, max_slots: int = 65_536, fingerprint: Callable[[], str] | None = None
) -> TorchEngine:
    """Another sampler over the policy's weights, with a cache of its own."""
    loaded = tiny()
    return TorchEngine(
        policy.model.get_base_model(),
        policy.decoder,
        loaded.tokenizer,
        loaded.codec,
        fingerprint=fingerprint or policy.sampler.fingerprint,
        max_slots=max_slots,
    )


def perturb(model: Any, seed: int, size: float = 0.1) -> None:
    """Move every trainable tensor."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in trainable(model):
            parameter += size * torch.randn(parameter.shape, generator=generator)


def stock_model(policy: TorchPolicy, attention: str = "sdpa") -> Any:
    """The same base weights and adapter in a model that knows nothing of Practicum."""
    base = build_tiny_model()
    base.set_attn_implementation(attention)
    base.requires_grad_(False)
    config = copy.deepcopy(policy.model.peft_config["default"])
    config.base_model_name_or_path = None
    model = peft.get_peft_model(base, config)
    here = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in trainable(policy.model):
            here[name].copy_(tensor)
    return model.eval()


def row_logits(model: Any, token_ids: Sequence[int]) -> torch.Tensor:
    """(T, V) for one row, computed whole."""
    row = torch.tensor([list(token_ids)])
    logits: torch.Tensor = model(input_ids=row, use_cache=False).logits[0]
    return logits


def choose_among(logits: torch.Tensor, allowed: Sequence[int]) -> torch.Tensor:
    """Logits with everything but the allowed ids out of the question."""
    if not allowed:
        return logits
    kept = torch.full_like(logits, float("-inf"))
    return kept.index_copy(0, torch.tensor(allowed), logits[list(allowed)])


def row_logprobs(model: Any, request: SamplingRequest, completion: Completion) -> list[float]:
    """What the stock model says of each sampled token, before top-k and top-p."""
    path = [*request.prompt_ids, *completion.token_ids]
    with torch.no_grad():
        logits = row_logits(model, path).double() / request.params.temperature
    found = []
    for i, token in enumerate(completion.token_ids):
        allowed = completion.choices[i] if completion.choices else ()
        scores = choose_among(logits[len(request.prompt_ids) + i - 1], allowed)
        found.append(float(torch.log_softmax(scores, -1)[token]))
    return found


def recorded(completion: Completion) -> npt.NDArray[np.float64]:
    """Recorded log-probabilities before top-k and top-p, which is what a learner recomputes."""
    logprobs = np.asarray(completion.logprobs)
    return logprobs + np.asarray(completion.log_kept) if completion.log_kept else logprobs


def random_requests(seed: int, count: int) -> list[SamplingRequest]:
    """Prompts that begin alike, repeat and contain each other; free and constrained, all ways."""
    chance = random.Random(seed)
    prompts = [tuple(chance.randrange(256) for _ in range(chance.randrange(1, 30)))]
    requests = []
    for _ in range(count):
        prompt = chance.choice(prompts)
        fate = chance.random()
        if fate < 0.5:
            prompt += tuple(chance.randrange(256) for _ in range(chance.randrange(1, 8)))
        elif fate < 0.7:
            prompt = prompt[: chance.randrange(1, len(prompt) + 1)]
        prompts.append(prompt)
        params = SamplingParams(
            temperature=chance.choice([0.7, 1.0, 1.5]),
            top_p=chance.choice([1.0, 1.0, 0.8]),
            top_k=chance.choice([0, 0, 5]),
            max_tokens=chance.randrange(1, 14),
            seed=chance.randrange(2**60),
        )
        actions = ACTIONS if chance.random() < 0.4 else ()
        requests.append(SamplingRequest(prompt_ids=prompt, params=params, actions=actions))
    return requests


async def sample_all(sampler: Any, requests: Sequence[SamplingRequest]) -> list[Completion]:
    """Every request at once."""
    return list(await asyncio.gather(*(sampler.sample(request) for request in requests)))


def ask(*prompt: int, actions: tuple[ActionForm, ...] = (), **params: Any) -> SamplingRequest:
    """A request in few words."""
    return SamplingRequest(
        prompt_ids=prompt, params=SamplingParams(**{"max_tokens": 8, **params}), actions=actions
    )
