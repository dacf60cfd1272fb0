"""PPO by hand, from its papers, and its advantages by brute force."""

import dataclasses

import numpy as np
import pytest
import torch
from tests.unit.training.algorithms.cases import (
    assert_same_loss,
    group,
    make_episode,
    paid,
    random_terms,
    sequences,
    turns_of,
    whole,
)

from practicum.core.loss import LossTerms
from practicum.core.sample import Estimates
from practicum.core.trace import StopReason
from practicum.training.algorithms.ppo import NO_TARGET, Ppo, generalised_advantages


@pytest.mark.parametrize("last_value", [0.0, 1.3])
@pytest.mark.parametrize("seed", range(5))
def test_gae_is_the_double_sum_of_its_paper(seed: int, last_value: float) -> None:
    """A_t = sum over l of (discount * decay)^l delta_{t+l} (equation 16 of arXiv 1506.02438)."""
    chance = np.random.default_rng(seed)
    n = int(chance.integers(1, 12))
    rewards, values = chance.normal(size=n), chance.normal(size=n)
    discount, decay = chance.uniform(0.5, 1.0, size=2)
    found = generalised_advantages(
        rewards, values, discount=discount, decay=decay, last_value=last_value
    )
    after = [*values[1:], last_value]
    for t in range(n):
        expected = sum(
            (discount * decay) ** (at - t) * (rewards[at] + discount * after[at] - values[at])
            for at in range(t, n)
        )
        assert found[t] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_gae_with_decay_1_is_the_return_less_the_value(seed: int) -> None:
    chance = np.random.default_rng(seed)
    rewards, values = chance.normal(size=6), chance.normal(size=6)
    found = generalised_advantages(rewards, values, discount=0.9, decay=1.0)
    for t in range(6):
        earned = sum(0.9 ** (at - t) * rewards[at] for at in range(t, 6))
        assert found[t] == pytest.approx(earned - values[t])


def test_over_turns_a_turn_is_one_step_and_its_first_token_has_the_target() -> None:
    """Values 0.5, 1 before the turns; rewards 1, 3; discount 0.5, decay 0.5.

    delta_2 = 3 - 1 = 2. delta_1 = 1 + 0.5 * 1 - 0.5 = 1. A_1 = 1 + 0.25 * 2 = 1.5, A_2 = 2.
    Returns 2 and 3.
    """
    episode = make_episode((5, 6, 7), (8, 9), score=paid(1.0, 3.0), name="a")
    values = turns_of([0.5, 9.0, 9.0], [1.0, 9.0])
    method = Ppo(discount=0.5, gae_lambda=0.5, normalise_advantages=False)
    [[credit]] = method.credit([group(episode)], {"a": Estimates(values=values)})
    assert [a.tolist() for a in credit.advantages] == [[1.5, 1.5, 1.5], [2.0, 2.0]]
    assert [a.tolist() for a in credit.returns] == [[2.0, NO_TARGET, NO_TARGET], [3.0, NO_TARGET]]
    assert [a.tolist() for a in credit.old_values] == [v.tolist() for v in values]


def test_over_tokens_the_reward_is_paid_at_the_end_of_its_turn() -> None:
    """Values 1, 2, 4; rewards 0, 8 on the last tokens; discount 1, decay 0.5.

    Deltas: 2 - 1 = 1, 4 - 2 = 2 (the first turn's end pays 0), 8 - 4 = 4.
    A = 4; 2 + 0.5 * 4 = 4; 1 + 0.5 * 4 = 3. Returns 4, 6, 8.
    """
    episode = make_episode((5, 6), (7,), score=paid(0.0, 8.0), name="a")
    estimates = {"a": Estimates(values=turns_of([1.0, 2.0], [4.0]))}
    method = Ppo(gae="token", gae_lambda=0.5, normalise_advantages=False)
    [[credit]] = method.credit([group(episode)], estimates)
    assert [a.tolist() for a in credit.advantages] == [[3.0, 4.0], [4.0]]
    assert [a.tolist() for a in credit.returns] == [[4.0, 6.0], [8.0]]


@pytest.mark.parametrize(
    ("gae", "expected"), [("turn", [0.4, 0.4, 0.8]), ("token", [0.4, 0.6, 0.8])]
)
def test_kl_in_the_reward_is_paid_step_by_step(gae: str, expected: list[float]) -> None:
    """Values 0, reward 1 at the end; logp - logp_base 2, 2 and 2 with beta 0.1: 0.2 a token."""
    episode = make_episode((5, 6), (7,), score=whole(1.0), name="a")
    found = Estimates(
        values=turns_of([0.0, 0.0], [0.0]),
        logprobs=turns_of([-1.0, -1.0], [-1.0]),
        base_logprobs=turns_of([-3.0, -3.0], [-3.0]),
    )
    method = Ppo(gae=gae, gae_lambda=1.0, kl=0.1, kl_in="reward", normalise_advantages=False)
    [[credit]] = method.credit([group(episode)], {"a": found})
    assert np.concatenate(credit.advantages) == pytest.approx(expected, abs=1e-6)
    assert method.credit_needs == {"values", "base"}
    assert Ppo().credit_needs == {"values"}


@pytest.mark.parametrize(
    ("stop", "bootstrap", "expected"),
    [
        (StopReason.FINISHED, True, 1.0 - 2.0),
        (StopReason.MAX_TURNS, True, 1.0 + 2.0 - 2.0),
        (StopReason.MAX_TURNS, False, 1.0 - 2.0),
    ],
)
@pytest.mark.parametrize("gae", ["turn", "token"])
def test_an_episode_cut_off_is_expected_to_have_gone_on(
    gae: str, stop: StopReason, bootstrap: bool, expected: float
) -> None:
    episode = make_episode((5,), score=whole(1.0), name="a", stop=stop)
    method = Ppo(gae=gae, bootstrap_cut_off=bootstrap, normalise_advantages=False)
    [[credit]] = method.credit([group(episode)], {"a": Estimates(values=turns_of([2.0]))})
    assert credit.advantages[0].tolist() == [expected]


@pytest.mark.parametrize("gae", ["turn", "token"])
def test_what_a_turn_without_a_decision_earns_belongs_to_the_one_before(gae: str) -> None:
    """Turns: forced, free, forced, free. The first one's reward is nobody's."""
    episode = make_episode(
        (1,), (2,), (3,), (4,), score=paid(10.0, 1.0, 2.0, 4.0), name="a", forced=(0, 2)
    )
    values = turns_of([], [0.0], [], [0.0])
    method = Ppo(gae=gae, gae_lambda=0.0, normalise_advantages=False)
    [[credit]] = method.credit([group(episode)], {"a": Estimates(values=values)})
    assert [a.tolist() for a in credit.advantages] == [[], [3.0], [], [4.0]]


@pytest.mark.parametrize("gae", ["turn", "token"])
def test_advantages_are_normalised_over_the_step_and_returns_are_not(gae: str) -> None:
    groups = [
        group(make_episode((5, 6), score=whole(1.0), name="a")),
        group(make_episode((7,), score=whole(-2.0), name="b")),
    ]
    found = {
        "a": Estimates(values=turns_of([0.25, 0.75])),
        "b": Estimates(values=turns_of([0.5])),
    }
    plain = Ppo(gae=gae, normalise_advantages=False).credit(groups, found)
    scaled = Ppo(gae=gae).credit(groups, found)
    raw = np.concatenate([c.advantages[0] for [c] in plain])
    normal = np.concatenate([c.advantages[0] for [c] in scaled])
    assert normal == pytest.approx((raw - raw.mean()) / (raw.std() + 1e-4), abs=1e-6)
    for [one], [other] in zip(plain, scaled, strict=True):
        assert one.returns[0].tolist() == other.returns[0].tolist()


def test_an_episode_that_decided_nothing_has_nothing_to_credit() -> None:
    idle = make_episode(score=whole(1.0), name="a")
    for gae in ("turn", "token"):
        [[credit]] = Ppo(gae=gae).credit([group(idle)], {"a": Estimates()})
        assert credit.advantages == ()


@pytest.mark.parametrize("gae", ["turn", "token"])
def test_an_episode_that_was_forced_throughout_needs_no_estimates(gae: str) -> None:
    forced = make_episode((1,), (2,), score=whole(1.0), name="a", forced=(0, 1))
    method = Ppo(gae=gae, kl=0.1, kl_in="reward")
    [[credit]] = method.credit([group(forced)], {"a": Estimates()})
    for part in (credit.advantages, credit.returns, credit.old_values):
        assert [turn.size for turn in part] == [0, 0]


def from_the_paper(terms: LossTerms, method: Ppo) -> torch.Tensor:
    """Equation 9 of arXiv 1707.06347 token by token, with the value clipped beside its old one."""
    total = torch.zeros((), dtype=torch.float64)
    count = 0
    for places in sequences(terms):
        for t in places:
            ratio = (terms.logprobs[t] - terms.old_logprobs[t]).exp()
            bounded = ratio.clip(1 - method.config.clip, 1 + method.config.clip)
            gain = min(ratio * terms.advantages[t], bounded * terms.advantages[t])
            error = (terms.values[t] - terms.returns[t]) ** 2
            if method.config.value_clip:
                low = terms.old_values[t] - method.config.value_clip
                high = terms.old_values[t] + method.config.value_clip
                error = max(error, (terms.values[t].clip(low, high) - terms.returns[t]) ** 2)
            total = total + gain - method.config.value_coef * error / 2
            total = total + method.config.entropy * terms.entropies[t]
            count += 1
    return -total / count


@pytest.mark.parametrize("value_clip", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_loss_and_gradients_are_the_papers(seed: int, value_clip: float) -> None:
    case = random_terms(seed, "token", per_token=True)
    method = Ppo(gae="token", value_clip=value_clip, value_coef=0.7, entropy=0.05)
    assert_same_loss(
        lambda: method.loss(case).loss,
        lambda: from_the_paper(case, method),
        case.logprobs,
        case.values,
        case.entropies,
    )
    assert method.loss_needs == {"values", "entropy"}


@pytest.mark.parametrize("averaging", ["token", "episode"])
def test_tokens_without_a_target_have_no_value_error_and_their_turn_has_their_weight(
    averaging: str,
) -> None:
    """Targets on the first token and, in the longest sequence, on the fourth one too."""
    case = random_terms(2, averaging)  # type: ignore[arg-type]
    targets = [p[0] for p in sequences(case)] + [sequences(case)[2][3]]
    returns = torch.full_like(case.returns, NO_TARGET)
    returns[targets] = case.returns[targets]
    case = dataclasses.replace(case, returns=returns)
    report = Ppo(value_clip=0.0, value_coef=1.0).loss(case)
    expected = 0.0
    for places in sequences(case):
        own = [t for t in places if t in targets]
        weight = float(case.weights[places].sum()) / len(own)
        expected += sum(weight * float(case.values[t].detach() - returns[t]) ** 2 / 2 for t in own)
    assert report.value_loss.item() == pytest.approx(expected)
    [slope] = torch.autograd.grad(report.loss, case.values)
    assert slope.isfinite().all()
    assert sorted(slope.nonzero()[:, 0].tolist()) == sorted(targets)


def test_no_target_survives_single_precision() -> None:
    stored = torch.from_numpy(np.asarray([NO_TARGET, -1e30], np.float32))
    assert (stored > NO_TARGET).tolist() == [False, True]


def test_over_turns_it_must_be_given_whole_sequences() -> None:
    assert Ppo(gae="turn").by_sequence
    assert not Ppo(gae="token").by_sequence


def test_any_scored_episode_is_worth_learning_from() -> None:
    same = [make_episode((i,), score=whole(1.0)) for i in range(2)]
    assert Ppo().is_informative(group(*same))
    assert Ppo().is_informative(group(same[0]))
    assert not Ppo().is_informative(group())
