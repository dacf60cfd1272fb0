import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import build_policy, stock_model
from tests.unit.engine.training_cases import (
    plain_gradients,
    play,
    relative_error,
    row_logprob,
    sampled_batches,
    samples_of,
)

from practicum.core.interfaces import Need
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Sample
from practicum.engine.decoder.head import ValueHead
from practicum.engine.models.lora import trainable
from practicum.engine.policy import TorchPolicy
from practicum.training.algorithms.ppo import Ppo
from practicum.training.prefix_tree import build_batches


def set_value_head(policy: TorchPolicy, seed: int = 5) -> ValueHead:
    """A head that does not say 0 everywhere."""
    head = policy.learner._value_head
    assert head is not None
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    return head


def row_values(stock: Any, sample: Sample, weight: torch.Tensor, bias: torch.Tensor) -> Any:
    """Values before each loss token, by the book: states of size 1, then a linear map."""
    row = torch.tensor([sample.token_ids.tolist()])
    states = stock.get_base_model().model(input_ids=row, use_cache=False).last_hidden_state[0]
    states = states[torch.from_numpy(np.flatnonzero(sample.loss_mask) - 1)]
    size = (states**2).mean(-1, keepdim=True)
    return (states / (size + 1e-6) ** 0.5) @ weight[0] + bias[0]


@dataclass(frozen=True)
class SquaredError:
    """The policy's log-likelihood and the error of the values, both with gradient."""

    epochs: int = 1
    loss_needs: frozenset[Need] = frozenset({"values"})
    by_sequence: bool = False
    from_policy: bool = False

    def loss(self, terms: LossTerms) -> LossReport:
        errors = (terms.values - terms.returns).square()
        loss = (terms.weights * (errors - terms.advantages * terms.logprobs)).sum()
        return LossReport(loss=loss, clipped=torch.zeros(()), value_loss=errors.sum().detach())


def with_returns(samples: list[Sample]) -> list[Sample]:
    return [
        replace(s, returns=np.float32(np.cos(np.arange(s.token_ids.size) + n)))
        for n, s in enumerate(samples)
    ]


def test_a_new_head_expects_nothing() -> None:
    head = ValueHead(8, "cpu")
    assert head(torch.randn(5, 8, dtype=torch.bfloat16)).tolist() == [0.0] * 5
    assert head(torch.randn(5, 8, dtype=torch.bfloat16)).dtype == torch.float32


def test_values_do_not_depend_on_the_size_of_the_states() -> None:
    head = ValueHead(8, "cpu")
    torch.nn.init.normal_(head.linear.weight, generator=torch.Generator().manual_seed(0))
    states = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(head(1000 * states), head(states), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("budget_tokens", [10_000, 70])
def test_gradients_of_head_and_adapter_are_those_of_plain_rows(budget_tokens: int) -> None:
    policy = build_policy(value_lr=0.1, max_grad_norm=1e9)
    samples = with_returns(samples_of(asyncio.run(play(policy))))
    head = set_value_head(policy)
    weight = head.linear.weight.detach().clone().requires_grad_()
    bias = head.linear.bias.detach().clone().requires_grad_()
    stock = stock_model(policy)
    loss = torch.zeros(())
    for s in samples:
        mask = torch.from_numpy(s.loss_mask)
        errors = (row_values(stock, s, weight, bias) - torch.from_numpy(s.returns)[mask]) ** 2
        gained = torch.from_numpy(s.advantages)[mask] * row_logprob(stock, s)
        loss = loss + s.weight * (errors - gained).sum()
    expected_head = torch.autograd.grad(loss, (weight, bias), retain_graph=True)
    expected = plain_gradients(stock, loss)
    kept: dict[str, torch.Tensor] = {}

    def keep(*_: object) -> None:
        kept.update((n, p.grad.clone()) for n, p in trainable(policy.model))
        kept.update({"weight": head.linear.weight.grad, "bias": head.linear.bias.grad})

    policy.learner._optimizer.register_step_pre_hook(keep)
    report = policy.learner.update(build_batches(samples, budget_tokens), SquaredError())
    assert report.loss == pytest.approx(float(loss.detach()), rel=1e-5)
    torch.testing.assert_close(kept.pop("weight"), expected_head[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(kept.pop("bias"), expected_head[1], rtol=1e-4, atol=1e-6)
    assert relative_error(kept, expected) <= 1e-5


def test_the_head_has_a_learning_rate_and_a_bound_of_its_own() -> None:
    """AdamW's first step is the learning rate times the gradient's sign."""
    policy = build_policy(lr=1e-4, value_lr=0.25)
    samples = with_returns(samples_of(asyncio.run(play(policy))))
    head = set_value_head(policy)
    before = head.linear.weight.detach().clone()
    policy.learner.update(build_batches(samples, 10_000), SquaredError())
    moved = (head.linear.weight.detach() - before).abs()
    assert float(moved.median()) == pytest.approx(0.25, rel=1e-3)


def test_values_are_refused_where_there_is_no_head() -> None:
    policy = build_policy()
    with pytest.raises(ValueError, match="built without a value head"):
        policy.learner.measure(sampled_batches(policy), frozenset({"values"}))


def files(policy: TorchPolicy, folder: Path) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    policy.learner.save(folder)
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_a_learner_with_a_head_goes_on_from_its_files_bit_for_bit(tmp_path: Path) -> None:
    method = Ppo(gae="token", epochs=2)
    policy = build_policy(value_lr=1e-2)

    def learn(one: TorchPolicy) -> Any:
        samples = with_returns(samples_of(asyncio.run(play(one))))
        return one.learner.update(build_batches(samples, 70), method)

    set_value_head(policy)
    assert learn(policy).value_loss > 0
    written = files(policy, tmp_path / "a")
    assert "value_head.safetensors" in written
    other = build_policy(value_lr=1e-2, seed=9)
    other.learner.load(tmp_path / "a")
    assert files(other, tmp_path / "b") == written
    assert learn(other) == learn(policy)
    assert files(other, tmp_path / "b") == files(policy, tmp_path / "a")


def test_a_checkpoint_from_before_the_head_leaves_it_as_it_is(tmp_path: Path) -> None:
    files(build_policy(), tmp_path / "a")
    policy = build_policy(value_lr=1e-2)
    head = set_value_head(policy)
    before = head.linear.weight.detach().clone()
    policy.learner.load(tmp_path / "a")
    assert torch.equal(head.linear.weight, before)
