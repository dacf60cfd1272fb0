"""Right after sampling, every online method makes the plain policy gradient step."""

import dataclasses

import pytest
import torch
from tests.unit.training.algorithms.cases import random_terms, sequences

from practicum.training.algorithms.cispo import Cispo
from practicum.training.algorithms.dapo import Dapo
from practicum.training.algorithms.distill import Distill
from practicum.training.algorithms.grpo import DrGrpo, Grpo
from practicum.training.algorithms.gspo import Gspo
from practicum.training.algorithms.ppo import Ppo
from practicum.training.algorithms.reinforce_pp import ReinforcePlusPlus
from practicum.training.algorithms.rloo import Rloo

METHODS = [
    Grpo(),
    DrGrpo(),
    Dapo(),
    Gspo(),
    Cispo(),
    ReinforcePlusPlus(baseline=False),
    Ppo(),
    Distill(teacher="tiny"),
]


@pytest.mark.parametrize("per_token", [False, True], ids=["by sequence", "by token"])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_with_the_samplers_own_weights_the_gradient_is_reinforce(
    method: Grpo, per_token: bool
) -> None:
    """- sum of weight * A * grad logp, the weights being those of the method's own mean."""
    case = random_terms(1, method.averaging, per_token=per_token, apart=0.0)
    case = dataclasses.replace(case, old_logprobs=case.logprobs.detach().clone())
    [found] = torch.autograd.grad(method.loss(case).loss, case.logprobs)
    torch.testing.assert_close(found, -case.weights * case.advantages)
    if not isinstance(method, Cispo):
        assert method.loss(case).clipped.item() == 0.0


def test_rloo_counts_every_token_of_a_sequence_in_full() -> None:
    """Its action is the sequence: the weight of all of its tokens together stands before each."""
    case = random_terms(1, apart=0.0)
    [found] = torch.autograd.grad(Rloo().loss(case).loss, case.logprobs)
    for places in sequences(case):
        whole = case.weights[places].sum()
        torch.testing.assert_close(found[places], -whole * case.advantages[places])
