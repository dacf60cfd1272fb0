import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.reference import FULL, build_policy
from tests.unit.engine.training_cases import relative_error, sampled_batches

from practicum.core.errors import UserError
from practicum.core.interfaces import Measured, Need, Objective
from practicum.core.sample import Batch
from practicum.engine.learning.learner import LearnerSettings
from practicum.engine.learning.memory_fit import MemoryFit
from practicum.engine.learning.micro_batches import divide, split_micro_batch
from practicum.engine.policy import TorchPolicy, load_for_policy
from practicum.training.algorithms.grpo import Grpo
from practicum.training.algorithms.gspo import Gspo


def paths(batch: Batch) -> dict[tuple[int, ...], int]:
    """How many terms hang on each path of tokens from the root, target included."""
    found: dict[tuple[int, ...], int] = {}
    for decision in batch.term_decision.tolist():
        at = int(batch.predictor[decision])
        above = [j for j in range(at + 1) if at < batch.end[j]]
        path = (*batch.token_ids[above].tolist(), int(batch.target[decision]))
        found[path] = found.get(path, 0) + 1
    return found


def test_two_halves_have_the_terms_of_the_whole_on_the_same_paths() -> None:
    policy = build_policy()
    for turns in (1, 2, 3):
        (batch,) = sampled_batches(policy, turns=turns)
        halves = split_micro_batch(batch)
        assert halves is not None
        both: dict[tuple[int, ...], int] = {}
        for half in halves[:2]:
            assert half.token_ids.size < batch.token_ids.size
            for path, count in paths(half).items():
                both[path] = both.get(path, 0) + count
        assert both == paths(batch)
        assert sum(h.term_weight.sum() for h in halves[:2]) == pytest.approx(
            batch.term_weight.sum()
        )


def sums_by_sample(batches: list[Batch]) -> dict[str, float]:
    found: dict[str, float] = {}
    for batch in batches:
        for number, key in enumerate(batch.sample_ids):
            own = batch.term_sample == number
            share = float((batch.term_weight * batch.term_advantage)[own].sum())
            found[key] = found.get(key, 0.0) + share
    return found


def test_whole_samples_are_never_divided_however_often_a_batch_is_halved() -> None:
    policy = build_policy()
    for turns in (1, 3):
        (batch,) = sampled_batches(policy, turns=turns)
        pieces, ready = [batch], []
        while pieces:
            piece = pieces.pop()
            halves = split_micro_batch(piece, whole_samples=True)
            if halves is None:
                ready.append(piece)
                continue
            mine, other = (set(half.term_sample.tolist()) for half in halves[:2])
            assert not mine & other
            assert mine | other == set(piece.term_sample.tolist())
            pieces += halves[:2]
        assert len(ready) == len(set(batch.sample_ids))
        assert sums_by_sample(ready) == pytest.approx(sums_by_sample([batch]))
        both: dict[tuple[int, ...], int] = {}
        for piece in ready:
            for path, count in paths(piece).items():
                both[path] = both.get(path, 0) + count
        assert both == paths(batch)


def test_a_loss_over_sequences_has_the_same_gradient_with_little_memory() -> None:
    """GSPO's ratio is of whole sequences: a divided one would give another loss."""
    roomy, tight = build_policy(max_grad_norm=1e9), build_policy(max_grad_norm=1e9)
    batches = sampled_batches(roomy)
    tight.learner._decoder = small = SmallMemory(tight.decoder, 75)
    expected = gradients(roomy, batches, Gspo())
    found = gradients(tight, batches, Gspo())
    assert max(small.sizes) <= 75 < batches[0].token_ids.size
    assert relative_error(found, expected) < 1e-5


def test_a_single_conversation_cannot_be_halved() -> None:
    policy = build_policy()
    (batch,) = sampled_batches(policy, episodes=1)
    assert split_micro_batch(batch) is None


class SmallMemory:
    """A decoder that has no memory for more than so many tokens, or for keeping every layer."""

    def __init__(self, inner: object, tokens: int, *, only_checkpointed: bool = False) -> None:
        self._inner, self._tokens, self._only = inner, tokens, only_checkpointed
        self.sizes: list[int] = []
        self.failures = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def learn(self, token_ids: torch.Tensor, *rest: torch.Tensor, checkpointed: bool) -> object:
        too_much = self._only and not checkpointed
        if too_much or token_ids.numel() > self._tokens:
            self.failures += 1
            raise torch.OutOfMemoryError("no memory")
        self.sizes.append(token_ids.numel())
        return self._inner.learn(token_ids, *rest, checkpointed=checkpointed)  # type: ignore[attr-defined]


def gradients(
    policy: TorchPolicy, batches: list[Batch], objective: Objective | None = None
) -> dict[str, torch.Tensor]:
    kept: dict[str, torch.Tensor] = {}

    def keep(*_: object) -> None:
        named = [(n, p) for n, p in policy.model.named_parameters() if p.grad is not None]
        kept.update((n, p.grad.clone()) for n, p in named)

    policy.learner._optimizer.register_step_pre_hook(keep)
    policy.learner.update(batches, objective or Grpo())
    return kept


def test_less_memory_gives_the_same_gradient_from_smaller_batches() -> None:
    roomy, tight = build_policy(max_grad_norm=1e9), build_policy(max_grad_norm=1e9)
    batches = sampled_batches(roomy)
    tight.learner._decoder = small = SmallMemory(tight.decoder, 60)
    expected, found = gradients(roomy, batches), gradients(tight, batches)
    assert max(small.sizes) <= 60 < batches[0].token_ids.size
    assert relative_error(found, expected) < 1e-5
    failures = small.failures
    tight.learner.update(sampled_batches(tight), Grpo())
    assert small.failures == failures > 0  # the size that fits is known by now


def test_a_conversation_that_does_not_fit_is_checkpointed_before_it_is_given_up() -> None:
    policy = build_policy()
    (batch,) = sampled_batches(policy, episodes=1)
    policy.learner._decoder = SmallMemory(policy.decoder, 10_000, only_checkpointed=True)
    assert policy.learner.update([batch], Grpo()).applied
    policy.learner._decoder = SmallMemory(policy.decoder, 10)
    with pytest.raises(UserError, match=r"one conversation of \d+ tokens does not fit"):
        policy.learner.update([batch], Grpo())


def test_an_update_that_runs_out_of_memory_says_and_counts_what_it_changed() -> None:
    policy = build_policy(max_logprob_gap=1e9)
    batches = sampled_batches(policy)
    roomy = policy.learner.update(batches, Grpo())
    assert (roomy.out_of_memory, roomy.micro_batch_splits, roomy.memory_notice) == (0, 0, "")
    policy.learner._decoder = small = SmallMemory(policy.decoder, 60)
    first = policy.learner.update(batches, Grpo())
    assert first.out_of_memory == small.failures > 0
    assert first.micro_batch_splits >= first.out_of_memory
    assert not first.gradient_checkpointing
    known = policy.learner._fit.most_tokens
    assert f"micro-batches of more than {known} tokens are halved" in first.memory_notice
    again = policy.learner.update(batches, Grpo())
    assert again.micro_batch_splits > 0  # counted where nothing fails any more, and said once
    assert (again.out_of_memory, again.memory_notice) == (0, "")


def test_checkpointing_after_out_of_memory_is_said_and_counted() -> None:
    policy = build_policy()
    (batch,) = sampled_batches(policy, episodes=1)
    policy.learner._decoder = SmallMemory(policy.decoder, 10_000, only_checkpointed=True)
    report = policy.learner.update([batch], Grpo())
    assert (report.out_of_memory, report.micro_batch_splits) == (1, 0)
    assert report.gradient_checkpointing
    assert "gradient checkpointing is on from now on" in report.memory_notice


def test_trunks_are_counted_right_on_random_trees() -> None:
    from practicum.engine.learning.micro_batches import _trunk_sizes

    rng = np.random.default_rng(0)
    for _ in range(20):
        position = [0]
        for _ in range(30):
            position.append(int(rng.integers(0, position[-1] + 2)))
        end = np.asarray(
            [
                next((j for j in range(i + 1, 31) if position[j] <= position[i]), 31)
                for i in range(31)
            ]
        )
        brute = [sum(end[j] > i for j in range(i)) for i in range(31)]
        assert _trunk_sizes(end).tolist() == brute


NEEDS: frozenset[Need] = frozenset({"base", "values"})


@functools.cache
def measured_case() -> tuple[TorchPolicy, list[Batch], list[Measured]]:
    policy = build_policy(value_lr=1e-3)
    batches = sampled_batches(policy)
    return policy, batches, policy.learner.measure(batches, NEEDS)


@settings(max_examples=8)
@given(st.integers(48, 130))
def test_whatever_the_memory_holds_the_same_is_measured(tokens: int) -> None:
    policy, batches, roomy = measured_case()
    learner = policy.learner
    learner._fit = MemoryFit(checkpointed=False)
    learner._decoder = small = SmallMemory(policy.decoder, tokens)
    try:
        found = learner.measure(batches, NEEDS)
    finally:
        learner._decoder = policy.decoder
    assert max(small.sizes) <= tokens
    for one, other in zip(found, roomy, strict=True):
        for name in ("logprobs", "base_logprobs", "values"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-5)


def test_what_a_measurement_found_out_about_memory_is_told_with_the_update() -> None:
    policy = build_policy(value_lr=1e-3)
    batches = sampled_batches(policy)
    policy.learner._decoder = small = SmallMemory(policy.decoder, 60)
    policy.learner.measure(batches, NEEDS)
    failures = small.failures
    report = policy.learner.update(batches, Grpo())
    assert report.out_of_memory == failures == small.failures > 0
    assert "tokens are halved from now on" in report.memory_notice
    assert policy.learner.update(sampled_batches(policy), Grpo()).memory_notice == ""


def test_a_conversation_too_long_to_measure_is_told_in_one_sentence() -> None:
    policy = build_policy()
    batches = sampled_batches(policy, episodes=1)
    policy.learner._decoder = SmallMemory(policy.decoder, 10)
    with pytest.raises(UserError, match=r"one conversation of \d+ tokens does not fit"):
        policy.learner.measure(batches, frozenset())


def test_low_precision_measures_itself_with_little_memory_too() -> None:
    """It compares several epochs with its own log-probabilities, in a pass before the update."""
    loaded = load_for_policy("tiny", "bfloat16", "cpu")
    policy = TorchPolicy.build(loaded, FULL, LearnerSettings(lr=1e-3, max_logprob_gap=1e9), 0)
    batches = sampled_batches(policy)
    policy.learner._decoder = small = SmallMemory(policy.decoder, 60)
    report = policy.learner.update(batches, Grpo(epochs=2))
    assert report.applied
    assert report.out_of_memory == small.failures > 0


@given(
    seed=st.integers(0, 9),
    episodes=st.integers(1, 7),
    budget=st.sampled_from((40, 70, 10_000)),
    count=st.integers(1, 5),
    whole=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_shares_have_every_term_of_a_step_once(
    seed: int, episodes: int, budget: int, count: int, whole: bool
) -> None:
    batches = sampled_batches(shared_policy(), budget, episodes=episodes, turns=1 + seed % 3)
    shares = divide(batches, count, whole_samples=whole)
    assert len(shares) == count
    parts = [part for share in shares for part in share]
    assert sums_by_sample(parts) == pytest.approx(sums_by_sample(batches), abs=1e-5)
    found: dict[tuple[int, ...], int] = {}
    for part in parts:
        for path, terms in paths(part).items():
            found[path] = found.get(path, 0) + terms
    expected: dict[tuple[int, ...], int] = {}
    for batch in batches:
        for path, terms in paths(batch).items():
            expected[path] = expected.get(path, 0) + terms
    assert found == expected
    if whole:
        holders = [
            {batch.sample_ids[n] for batch in share for n in batch.term_sample} for share in shares
        ]
        assert sum(len(held) for held in holders) == len(set().union(*holders))


@functools.cache
def shared_policy() -> TorchPolicy:
    return build_policy()


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_shares_are_of_about_the_same_size_and_few_batches_are_cut(count: int) -> None:
    policy = shared_policy()
    (tree,) = sampled_batches(policy, episodes=12, turns=1)
    sizes = [sum(part.token_ids.size for part in share) for share in divide([tree] * 3, count)]
    trunk = 30  # of the opening, which every part computes again
    assert max(sizes) <= 3 * tree.token_ids.size / count + trunk + 12
    assert sum(map(len, divide([tree] * 3, count))) <= 3 + count - 1
    assert [len(share) for share in divide([tree] * (2 * count), count)] == [2] * count
