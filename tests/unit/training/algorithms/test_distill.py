"""On-policy distillation by hand, and against the KL divergence it descends."""

import numpy as np
import pytest
import torch
from tests.unit.training.algorithms.cases import group, make_episode, turns_of, whole

from practicum.core.loss import LossTerms
from practicum.core.sample import Estimates
from practicum.training.algorithms.distill import Distill
from practicum.training.algorithms.grpo import Grpo


def test_a_tokens_advantage_is_how_much_likelier_the_teacher_finds_it() -> None:
    """The sampler's log-probabilities are all -1."""
    episode = make_episode((5, 6), (7,), score=whole(0.0), name="a")
    taught = {"a": Estimates(teacher_logprobs=turns_of([-0.5, -3.0], [-1.0]))}
    [[credit]] = Distill(teacher="tiny").credit([group(episode)], taught)
    assert [a.tolist() for a in credit.advantages] == [[0.5, -2.0], [0.0]]
    assert Distill(teacher="tiny").credit_needs == {"teacher"}


def test_the_comparison_of_scores_can_be_mixed_in() -> None:
    a = make_episode((5, 6), score=whole(1.0), name="a")
    b = make_episode((7,), score=whole(0.0), name="b")
    taught = {
        "a": Estimates(teacher_logprobs=turns_of([-0.5, -3.0])),
        "b": Estimates(teacher_logprobs=turns_of([-2.0])),
    }
    [[one, other]] = Distill(teacher="tiny", reward_coef=2.0).credit([group(a, b)], taught)
    [[plain, _]] = Grpo().credit([group(a, b)], {})
    bonus = 2.0 * float(plain.advantages[0])
    assert one.advantages[0] == pytest.approx(np.asarray([0.5 + bonus, -2.0 + bonus]), abs=1e-6)
    assert other.advantages[0] == pytest.approx(np.asarray([-1.0 - bonus]), abs=1e-6)


def test_a_lone_episode_learns_from_its_teacher() -> None:
    alone = group(make_episode((5,), score=whole(1.0), name="a"))
    taught = {"a": Estimates(teacher_logprobs=turns_of([-0.25]))}
    assert Distill(teacher="tiny", reward_coef=1.0).is_informative(alone)
    [[credit]] = Distill(teacher="tiny", reward_coef=1.0).credit([alone], taught)
    assert credit.advantages[0].tolist() == [0.75]


def test_a_teacher_is_not_asked_about_an_episode_that_was_forced_throughout() -> None:
    forced = make_episode((1,), (2,), score=whole(1.0), name="a", forced=(0, 1))
    [[credit]] = Distill(teacher="tiny").credit([group(forced)], {"a": Estimates()})
    assert [turn.size for turn in credit.advantages] == [0, 0]


def test_its_expected_gradient_is_that_of_the_reverse_kl() -> None:
    """Every token of a small vocabulary, weighed by how often the policy samples it."""
    chance = torch.Generator().manual_seed(0)
    logits = torch.randn(7, generator=chance, dtype=torch.float64, requires_grad=True)
    teacher = torch.log_softmax(torch.randn(7, generator=chance, dtype=torch.float64), -1)
    policy = torch.log_softmax(logits, -1)
    [exact] = torch.autograd.grad((policy.exp() * (policy - teacher)).sum(), logits)
    own = torch.log_softmax(logits, -1)
    terms = LossTerms(
        logprobs=own,
        old_logprobs=own.detach(),
        advantages=teacher - own.detach(),
        weights=own.detach().exp(),
    )
    [ours] = torch.autograd.grad(Distill(teacher="tiny").loss(terms).loss, logits)
    torch.testing.assert_close(ours, exact)
