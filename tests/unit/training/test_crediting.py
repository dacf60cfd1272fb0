from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.unit.training.algorithms.cases import group, make_episode, whole

from practicum.core.interfaces import Measured
from practicum.core.sample import Batch, Credit, Episode, Floats, Sample
from practicum.core.trace import Node, SampledSpan, Trace
from practicum.training.algorithms.dapo import Dapo
from practicum.training.algorithms.grpo import DrGrpo, Grpo
from practicum.training.algorithms.ppo import Ppo
from practicum.training.rollout_steps import credit_step, estimate, step_batches


class SaysTheTarget:
    """A learner whose log-probability of a token is its id; its value of it is ten times that."""

    def measure(self, batches: Sequence[Batch], needs: Any) -> list[Measured]:
        found = []
        for batch in batches:
            ids = batch.target[batch.term_decision].astype(np.float32)
            found.append(
                Measured(
                    logprobs=ids,
                    base_logprobs=-ids if "base" in needs else None,
                    values=10 * ids if "values" in needs else None,
                )
            )
        return found


class Teacher:
    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        return [s.token_ids[s.loss_mask].astype(np.float32) + 0.5 for s in samples]


def given(parent: int | None, *ids: int) -> Node:
    return Node(parent=parent, messages=(), token_ids=ids)


def said(parent: int, *ids: int, mask: tuple[bool, ...] = ()) -> Node:
    mask = mask or (True,) * len(ids)
    span = SampledSpan(logprobs=(-1.0,) * len(ids), loss_mask=mask)
    return Node(parent=parent, messages=(), token_ids=ids, sampled=span)


def branching(name: str, first: int) -> Episode:
    """A turn on both walks, one of its own on each, and one that was forced throughout."""
    nodes = (
        given(None, 1, 2),
        said(0, first, 12, 10, mask=(True, True, False)),
        given(1, 3),
        said(2, 13, 14, 15),
        given(1, 4),
        said(4, 16),
        given(5, 5),
        said(6, 17, 18, mask=(False, False)),
        given(7, 6),
        said(8, 19, 20),
    )
    trace = Trace(id=name, task_id="t", env="e", nodes=nodes)
    return Episode(trace=trace, outcome=None, score=whole(1.0))


@pytest.mark.parametrize("budget_tokens", [10_000, 1])
def test_estimates_are_of_the_turns_tokens_also_where_a_trace_branches(budget_tokens: int) -> None:
    groups = [group(branching("a", 11), branching("b", 21)), group(branching("c", 11))]
    needs: Any = frozenset({"base", "values", "teacher"})
    found = estimate(groups, needs, SaysTheTarget(), Teacher(), budget_tokens)  # type: ignore[arg-type]
    assert set(found) == {"a", "b", "c"}
    for name, first in (("a", 11), ("b", 21), ("c", 11)):
        turns = [[first, 12], [13, 14, 15], [16], [], [19, 20]]
        of = found[name]
        assert [x.tolist() for x in of.logprobs] == turns
        assert [(-x).tolist() for x in of.base_logprobs] == turns
        assert [(x / 10).tolist() for x in of.values] == turns
        assert [(x - 0.5).tolist() for x in of.teacher_logprobs] == turns


def test_only_what_a_method_asks_for_is_estimated() -> None:
    groups = [group(branching("a", 11))]
    assert estimate(groups, frozenset(), SaysTheTarget(), None, 100) == {}  # type: ignore[arg-type]
    values = estimate(groups, frozenset({"values"}), SaysTheTarget(), None, 100)["a"]  # type: ignore[arg-type]
    assert values.base_logprobs == values.teacher_logprobs == ()
    assert len(values.values) == 5
    taught = estimate(groups, frozenset({"teacher"}), SaysTheTarget(), Teacher(), 100)["a"]  # type: ignore[arg-type]
    assert taught.logprobs == taught.values == ()
    assert len(taught.teacher_logprobs) == 5


def episodes(lengths: Sequence[int]) -> list[Episode]:
    return [
        make_episode(tuple(range(10 * n, 10 * n + length)), score=whole(float(n)), name=f"e{n}")
        for n, length in enumerate(lengths)
    ]


def credited(lengths: Sequence[int]) -> list[tuple[Episode, Credit]]:
    return [(e, Credit(advantages=(1.0,))) for e in episodes(lengths)]


def batches(method: Any, lengths: Sequence[int], seed: tuple[int, ...] = (0, 1)) -> list[Batch]:
    return step_batches(credited(lengths), method, budget_tokens=1, constant=20, seed=seed)


def owners(found: Sequence[Batch]) -> dict[int, list[str]]:
    by_number: dict[int, list[str]] = {}
    for batch in found:
        by_number.setdefault(batch.minibatch, []).extend(batch.sample_ids)
    return by_number


def test_each_episode_is_in_one_minibatch_and_the_seed_decides_in_which() -> None:
    lengths = [3, 1, 4, 1, 5, 9, 2]
    found = owners(batches(Grpo(minibatches=3), lengths))
    assert sorted(len(names) for names in found.values()) == [2, 2, 3]
    assert sorted(name for names in found.values() for name in names) == [f"e{n}" for n in range(7)]
    assert owners(batches(Grpo(minibatches=3), lengths)) == found
    others = [owners(batches(Grpo(minibatches=3), lengths, (0, step))) for step in range(2, 6)]
    assert any(other != found for other in others)


@pytest.mark.parametrize(
    ("method", "total"),
    [
        (Grpo(minibatches=2), 1.0),
        (Ppo(minibatches=2), 1.0),
        (DrGrpo(minibatches=2), None),
    ],
)
def test_each_minibatch_is_a_mean_of_its_own(method: Any, total: float | None) -> None:
    lengths = [3, 1, 4, 2]
    by_number: dict[int, list[Batch]] = {}
    for batch in batches(method, lengths):
        by_number.setdefault(batch.minibatch, []).append(batch)
    for part in by_number.values():
        tokens = [int(np.sum(b.term_sample == n)) for b in part for n in range(len(b.sample_ids))]
        weight = sum(float(b.term_weight.sum()) for b in part)
        # `constant` divides by the turn's limit, 20, and by the number of episodes
        assert weight == pytest.approx(total or sum(tokens) / (20 * len(tokens)))


def test_fewer_episodes_than_minibatches_are_a_minibatch_each() -> None:
    assert owners(batches(Grpo(minibatches=8), [2, 3])).keys() == {0, 1}
    assert batches(Grpo(minibatches=8), []) == []


def test_what_does_not_count_or_has_no_decision_is_left_out() -> None:
    first, second, third = episodes([2, 3, 4])
    forced = make_episode((50, 51), score=whole(0.0), name="forced", forced=(0,))
    found = step_batches(
        [
            (first, Credit(advantages=(1.0,))),
            (second, Credit(advantages=(1.0,), counts=False)),
            (forced, Credit(advantages=(1.0,))),
            (third, Credit(advantages=(1.0,))),
        ],
        Dapo(minibatches=2),
        budget_tokens=100,
        constant=1,
        seed=(0, 0),
    )
    assert sorted(owners(found).values()) == [["e0"], ["e2"]]


def test_credits_go_with_their_episodes() -> None:
    groups = [group(*episodes([2, 2])), group(*episodes([1, 1, 1]))]
    found = credit_step(groups, Grpo(credit="episode", scale="none"), {})
    assert [e.trace.id for e, _ in found] == ["e0", "e1", "e0", "e1", "e2"]
    assert [c.advantages for _, c in found] == [(-0.5,), (0.5,), (-1.0,), (0.0,), (1.0,)]
