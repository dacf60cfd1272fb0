"""Episodes sampled from the tiny policy, and what a plain row-by-row computation makes of them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from tests.unit.engine.reference import ACTIONS, ask, choose_among, row_logits

from practicum.core.interfaces import Need
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Batch, Credit, Sample
from practicum.core.sampling import ActionForm, Completion
from practicum.core.trace import Node, SampledSpan, Trace
from practicum.engine.models.lora import trainable
from practicum.engine.policy import TorchPolicy
from practicum.training.algorithms.grpo import Grpo
from practicum.training.prefix_tree import build_batches, episode_samples

HOW: dict[str, dict[str, Any]] = {
    "free": {},
    "constrained": {"actions": ACTIONS, "max_tokens": 20},
    "warm": {"temperature": 1.7},
    "cold, cut": {"temperature": 0.6, "top_k": 20, "top_p": 0.9},
    "constrained, cut, warm": {"actions": ACTIONS, "temperature": 1.4, "top_p": 0.8},
}
every_way = pytest.mark.parametrize("how", HOW.values(), ids=HOW.keys())

ADVANTAGES = (1.5, -0.5, 0.7, -1.2, 0.3, -0.9)


async def play(
    policy: TorchPolicy,
    *,
    episodes: int = 6,
    turns: int = 2,
    actions: tuple[ActionForm, ...] = (),
    **params: Any,
) -> list[Trace]:
    """Episodes that open alike and go on with what they sampled."""

    async def one(number: int) -> Trace:
        nodes: list[Node] = []
        path: tuple[int, ...] = ()
        for turn in range(turns):
            given = tuple(range(30)) if not turn else (100 + turn, 7)
            seed = 1000 * number + turn
            options = {"max_tokens": 8, "seed": seed, **params}
            completion = await policy.sampler.sample(ask(*path, *given, actions=actions, **options))
            path += given + completion.token_ids
            for ids, span in ((given, None), (completion.token_ids, span_of(completion))):
                parent = len(nodes) - 1 if nodes else None
                nodes.append(Node(parent=parent, messages=(), token_ids=ids, sampled=span))
        return Trace(id=f"episode {number}", task_id="t", env="e", nodes=tuple(nodes))

    return list(await asyncio.gather(*(one(number) for number in range(episodes))))


def span_of(completion: Completion) -> SampledSpan:
    return SampledSpan(
        logprobs=completion.logprobs,
        loss_mask=completion.loss_mask,
        log_kept=completion.log_kept,
        choices=completion.choices,
        temperature=completion.temperature,
        fingerprint=completion.fingerprint,
    )


def samples_of(traces: Sequence[Trace]) -> list[Sample]:
    """One sample an episode, each turn with an advantage of its own."""
    return [
        sample
        for number, trace in enumerate(traces)
        for sample in episode_samples(
            trace,
            Credit(
                advantages=tuple(
                    ADVANTAGES[(number + turn) % 6] for turn in range(len(trace.turns))
                )
            ),
            1 / len(traces),
        )
    ]


def batches_of(traces: Sequence[Trace], budget_tokens: int = 10_000) -> list[Batch]:
    return build_batches(samples_of(traces), budget_tokens)


def sampled_batches(policy: TorchPolicy, budget_tokens: int = 10_000, **how: Any) -> list[Batch]:
    """Episodes of this policy, ready to learn from."""
    return batches_of(asyncio.run(play(policy, **how)), budget_tokens)


def row_log_distributions(model: Any, sample: Sample) -> list[torch.Tensor]:
    """The distribution each loss token was drawn from, its row computed whole and alone."""
    logits = row_logits(model, sample.token_ids.tolist())
    return [
        torch.log_softmax(
            choose_among(logits[at - 1], sample.choices.get(at, ()))
            / float(sample.temperatures[at]),
            -1,
        )
        for at in sample.loss_mask.nonzero()[0].tolist()
    ]


def row_logprob(model: Any, sample: Sample) -> torch.Tensor:
    """Log-probabilities of a sample's loss tokens."""
    targets = sample.token_ids[sample.loss_mask].tolist()
    found = row_log_distributions(model, sample)
    return torch.stack([log_p[t] for log_p, t in zip(found, targets, strict=True)])


def plain_loss(model: Any, samples: Sequence[Sample], *, clip: float, kl: float) -> torch.Tensor:
    """GRPO's loss written out row by row: - min(r A, clip(r) A) + kl (e^d - d - 1)."""
    total = torch.zeros(())
    for sample in samples:
        logprobs = row_logprob(model, sample)
        mask = torch.from_numpy(sample.loss_mask)
        old = torch.from_numpy(sample.old_logprobs)[mask]
        advantages = torch.from_numpy(sample.advantages)[mask]
        ratio = (logprobs - old).exp()
        gain = torch.stack([ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages])
        per_token = -gain.amin(0)
        if kl:
            with torch.no_grad(), model.disable_adapter():
                base = row_logprob(model, sample)
            distance = base - logprobs
            per_token = per_token + kl * (distance.exp() - distance - 1)
        total = total + sample.weight * per_token.sum()
    return total


def plain_gradients(model: Any, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    names, tensors = zip(*trainable(model), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, tensors), strict=True))


@dataclass(kw_only=True)
class WatchedGrpo:
    """GRPO that also keeps the gradient of every loss it returns."""

    model: Any
    inner: Grpo
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        return self.inner.epochs

    @property
    def loss_needs(self) -> frozenset[Need]:
        return self.inner.loss_needs

    @property
    def by_sequence(self) -> bool:
        return self.inner.by_sequence

    @property
    def from_policy(self) -> bool:
        return self.inner.from_policy

    def loss(self, terms: LossTerms) -> LossReport:
        report = self.inner.loss(terms)
        names, tensors = zip(*trainable(self.model), strict=True)
        found = torch.autograd.grad(report.loss, tensors, retain_graph=True)
        for name, gradient in zip(names, found, strict=True):
            self.gradients[name] = self.gradients.get(name, 0) + gradient
        return report


def relative_error(
    ours: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor]
) -> float:
    """Distance of all gradients together, relative to the reference's length."""
    assert ours.keys() == reference.keys()
    apart = sum(float((ours[n].double() - reference[n].double()).square().sum()) for n in ours)
    length = sum(float(reference[n].double().square().sum()) for n in ours)
    return float((apart / length) ** 0.5)
