"""Recorded conversations of the tiny model's tokens, and what plain padded batches say of them."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from tests.unit.engine.reference import build_policy, stock_model

from practicum.core.interfaces import OfflineMethod
from practicum.core.sample import Sample
from practicum.engine.models.lora import trainable
from practicum.engine.policy import TorchPolicy
from practicum.training.example_steps import ExampleSteps, OfflineExample

PAD = 257


def make_row(number: int, **known: Any) -> OfflineExample:
    """Two turns after two given parts; every third row begins alike."""
    chance = np.random.default_rng(number)
    shared = np.random.default_rng(1000 + number % 3).integers(0, 250, 9)
    sizes = [int(n) for n in chance.integers(2, 7, 3)]
    parts = [shared, *(chance.integers(0, 250, n) for n in sizes)]
    mask = [np.full(len(p), place in (1, 3)) for place, p in enumerate(parts)]
    token_ids, loss_mask = np.concatenate(parts), np.concatenate(mask)
    sample = Sample(
        token_ids=token_ids.astype(np.int64),
        loss_mask=loss_mask,
        old_logprobs=np.zeros(token_ids.size, np.float32),
        advantages=np.zeros(token_ids.size, np.float32),
        temperatures=np.ones(token_ids.size, np.float32),
        choices={},
        trace_id=f"row {number}",
    )
    return OfflineExample(sample=sample, **known)


def padded(samples: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Token ids, attention mask and loss mask of rows of one length."""
    length = max(s.token_ids.size for s in samples)
    ids = torch.full((len(samples), length), PAD)
    attention = torch.zeros((len(samples), length), dtype=torch.int64)
    mask = torch.zeros((len(samples), length), dtype=torch.bool)
    for number, sample in enumerate(samples):
        size = sample.token_ids.size
        ids[number, :size] = torch.from_numpy(sample.token_ids)
        attention[number, :size] = 1
        mask[number, :size] = torch.from_numpy(sample.loss_mask)
    return ids, attention, mask


def padded_logits(model: Any, samples: Sequence[Sample]) -> torch.Tensor:
    ids, attention, _ = padded(samples)
    logits: torch.Tensor = model(input_ids=ids, attention_mask=attention, use_cache=False).logits
    return logits


def padded_sums(model: Any, samples: Sequence[Sample]) -> torch.Tensor:
    """The log-probability of each row's loss tokens, from one padded batch."""
    ids, _, mask = padded(samples)
    log_p = torch.log_softmax(padded_logits(model, samples)[:, :-1], -1)
    found = log_p.gather(2, ids[:, 1:, None])[:, :, 0]
    return (found * mask[:, 1:]).sum(1)


def base_sums(model: Any, samples: Sequence[Sample]) -> torch.Tensor:
    with torch.no_grad(), model.disable_adapter():
        return padded_sums(model, samples)


def steps_over(
    policy: TorchPolicy,
    method: OfflineMethod,
    units: Sequence[tuple[OfflineExample, ...]],
    *,
    batch: int = 100,
    budget_tokens: int = 10_000,
    first: int = 1,
    seed: int = 0,
) -> ExampleSteps:
    from practicum.training.algorithms.losses import Likelihood

    async def load() -> Sequence[tuple[OfflineExample, ...]]:
        return units

    return ExampleSteps(
        load=load,
        method=method,
        objective=Likelihood(),
        learner=policy.learner,
        batch=batch,
        first=first,
        seed=seed,
        micro_batch_tokens=budget_tokens,
    )


def watch_gradients(policy: TorchPolicy) -> dict[str, torch.Tensor]:
    """Filled with the gradient of the next optimizer step, before it is taken."""
    kept: dict[str, torch.Tensor] = {}

    def keep(*_: object) -> None:
        kept.update((n, p.grad.clone()) for n, p in trainable(policy.model) if p.grad is not None)

    policy.learner._optimizer.register_step_pre_hook(keep)
    return kept


def unclipped_policy() -> TorchPolicy:
    return build_policy(max_grad_norm=1e9)


@functools.cache
def untrained_stock() -> Any:
    """The plain model with the weights that every `unclipped_policy` starts with."""
    return stock_model(unclipped_policy())


def plain(loss_of: Callable[[Any], torch.Tensor]) -> tuple[float, dict[str, torch.Tensor]]:
    """A loss of the plain model, and its gradients."""
    model = untrained_stock()
    loss = loss_of(model)
    names, tensors = zip(*trainable(model), strict=True)
    return loss.item(), dict(zip(names, torch.autograd.grad(loss, tensors), strict=True))
