import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.engine.learning.test_micro_batch_splitting import SmallMemory
from tests.unit.engine.reference import ACTIONS, build_policy, row_logits, stock_model, tiny
from tests.unit.engine.training_cases import play, row_logprob, samples_of
from tests.unit.training.algorithms.cases import group, whole

from practicum.core.errors import ConfigError
from practicum.core.sample import Batch, Episode, Sample
from practicum.core.trace import Message
from practicum.engine.learning.teachers import TorchTeacher
from practicum.engine.policy import TorchPolicy
from practicum.training.algorithms.distill import Distill
from practicum.training.prefix_tree import build_batches
from practicum.training.rollout_steps import credit_step, estimate, step_batches


def teacher(budget_tokens: int = 10_000) -> TorchTeacher:
    """The tiny model as it was made."""

    def lay_out(samples: Sequence[Sample]) -> list[Batch]:
        return build_batches(samples, budget_tokens)

    return TorchTeacher(tiny(), tiny().codec, lay_out=lay_out)


@pytest.mark.parametrize(
    "how", [{}, {"actions": ACTIONS, "temperature": 1.4, "max_tokens": 20}], ids=["free", "actions"]
)
@pytest.mark.parametrize("budget_tokens", [10_000, 1])
def test_a_teacher_says_what_the_plain_model_says(how: dict[str, Any], budget_tokens: int) -> None:
    policy = build_policy()
    samples = samples_of(asyncio.run(play(policy, **how)))
    found = teacher(budget_tokens).logprobs(samples)
    stock = stock_model(policy)
    for sample, said in zip(samples, found, strict=True):
        with torch.no_grad(), stock.disable_adapter():
            expected = row_logprob(stock, sample).numpy()
        np.testing.assert_allclose(said, expected, rtol=0, atol=2e-5)


def test_a_sample_without_loss_has_nothing_said_about_it() -> None:
    [sample, *_] = samples_of(asyncio.run(play(build_policy(), episodes=1)))
    silent = replace(sample, loss_mask=np.zeros_like(sample.loss_mask), trace_id="silent")
    found = teacher().logprobs([silent, sample])
    assert [x.size for x in found] == [0, int(sample.loss_mask.sum())]


def test_a_teacher_with_little_memory_says_the_same() -> None:
    samples = samples_of(asyncio.run(play(build_policy())))
    roomy, tight = teacher(), teacher()
    tight._decoder = small = SmallMemory(tight._decoder, 60)
    for one, other in zip(tight.logprobs(samples), roomy.logprobs(samples), strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    assert small.failures
    assert max(small.sizes) <= 60


class Uppercase:
    """Reads text as other tokens."""

    def write(self, message: Message) -> tuple[int, ...]:
        return tiny().codec.write(replace(message, content=message.content.upper()))


def test_a_teacher_that_reads_other_tokens_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigError) as caught:
        TorchTeacher(tiny(), Uppercase(), lay_out=lambda samples: [])  # type: ignore[arg-type]
    said = str(caught.value)
    assert said.startswith("algorithm.teacher = 'tiny' cannot be used")
    assert said.endswith("choose a larger model of the same family")


def divergence(policy: TorchPolicy, states: Sequence[Sequence[int]]) -> float:
    """KL(student || teacher) of the next token, exact, over fixed states."""
    stock, total = stock_model(policy), 0.0
    with torch.no_grad():
        for row in states:
            mine = torch.log_softmax(row_logits(stock, row), -1)
            with stock.disable_adapter():
                theirs = torch.log_softmax(row_logits(stock, row), -1)
            total += float((mine.exp() * (mine - theirs)).sum(-1).mean())
    return total / len(states)


def test_a_student_comes_nearer_to_its_teacher_update_by_update() -> None:
    policy, method, judge = build_policy(lr=1e-2), Distill(teacher="tiny"), teacher()
    states = [[*range(30), *row] for row in np.random.default_rng(0).integers(0, 250, (4, 6))]
    found = [divergence(policy, states)]
    for step in range(5):
        traces = asyncio.run(play(policy, episodes=16, turns=1, max_tokens=12))
        traces = [replace(t, id=f"{step}/{t.id}") for t in traces]
        groups = [group(*(Episode(trace=t, outcome=None, score=whole(0.0)) for t in traces))]
        estimates = estimate(groups, method.credit_needs, policy.learner, judge, 10_000)
        credited = credit_step(groups, method, estimates)
        batches = step_batches(credited, method, budget_tokens=10_000, constant=1, seed=(0, step))
        assert policy.learner.update(batches, method).applied
        found.append(divergence(policy, states))
    assert found[-1] < 0.85 * found[0], found
    assert found[-1] == min(found)
