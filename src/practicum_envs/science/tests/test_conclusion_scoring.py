from itertools import pairwise

import pytest

from practicum_envs.science.conclusion_scoring import (
    CERTAINTIES,
    CONCLUSION_PAY,
    FULL_MARKS,
    WELL_SUPPORTED,
    Verdict,
    best_certainty,
    conclusion_share,
    expected_brier,
    prediction_skill,
    share_told,
)
from practicum_envs.science.law_spaces import law_space
from practicum_envs.science.laws import SETTINGS, START, change

PROBABILITIES = [n / 200 for n in range(201)]
GRID = [(probability, percent) for probability in PROBABILITIES for percent in range(101)]


def brier(certainty: float, *, is_true: bool) -> float:
    return (certainty - is_true) ** 2


def nearest(probability: float) -> float:
    return min(abs(percent / 100 - probability) for percent in CERTAINTIES)


def test_the_score_is_what_the_brier_score_is_on_average() -> None:
    for p, percent in GRID:
        q = percent / 100
        mean = p * brier(q, is_true=True) + (1 - p) * brier(q, is_true=False)
        assert expected_brier(q, p) == pytest.approx(mean)


def test_the_scoring_rule_is_proper() -> None:
    """Nothing expects a better score than the probability itself, and all else a worse one."""
    for p, percent in GRID:
        q = percent / 100
        assert expected_brier(q, p) - expected_brier(p, p) == pytest.approx((q - p) ** 2)


def test_no_certainty_is_paid_more_than_the_one_nearest_to_the_posterior() -> None:
    for p in PROBABILITIES[1:]:
        paid = {percent: conclusion_share(p, percent) for percent in CERTAINTIES}
        best = max(paid.values())
        assert best == pytest.approx(min(1.0, p / WELL_SUPPORTED))
        assert paid[best_certainty(p)] == best
        for percent, share in paid.items():
            is_nearest = abs(percent / 100 - p) <= nearest(p) + 1e-9
            assert (share > best - 1e-9) == is_nearest


def test_the_further_a_certainty_is_off_the_less_it_is_paid() -> None:
    for p in PROBABILITIES:
        by_distance = sorted(CERTAINTIES, key=lambda percent, p=p: abs(percent / 100 - p))
        paid = [conclusion_share(p, percent) for percent in by_distance]
        assert all(nearer >= further - 1e-12 for nearer, further in pairwise(paid))


@pytest.mark.parametrize("percent", CERTAINTIES)
def test_a_law_that_the_data_refute_is_paid_nothing_however_doubtful(percent: int) -> None:
    assert conclusion_share(0.0, percent) == 0.0


def test_of_two_laws_the_likelier_is_paid_at_least_as_much_at_its_best_certainty() -> None:
    best = [max(conclusion_share(p, percent) for percent in CERTAINTIES) for p in PROBABILITIES]
    assert best == sorted(best)


def test_half_certain_of_what_is_known_earns_half_of_full_marks_at_most() -> None:
    assert CONCLUSION_PAY * (1 - conclusion_share(1.0, 50)) > 0.499 * FULL_MARKS


@pytest.mark.parametrize("level", [1, 2, 4, 5])
def test_predictions_are_compared_where_nothing_was_tried(level: int) -> None:
    space = law_space(level)
    tried = {(4, 0, 0), (0, 4, 0)}
    for hidden, stated in zip(space.laws[::13], space.laws[5::13], strict=False):
        others = [one for one in SETTINGS if one not in tried and one != START]
        missed = sum(abs(change(stated, one) - change(hidden, one)) for one in others)
        whole = sum(abs(change(hidden, one)) for one in others)
        skill = prediction_skill(level, stated, hidden, tried)
        assert skill == pytest.approx(max(0.0, 1 - missed / whole) if whole else 0.0)
        assert prediction_skill(level, hidden, hidden, tried) == 1.0
        assert prediction_skill(level, (), hidden, tried) == (0.0 if hidden else 1.0)


def test_what_was_told_is_a_share_from_none_to_all() -> None:
    told = [share_told(3.0, 3.0 - n / 10) for n in range(-5, 31)]
    assert (told[0], told[-1]) == (0.0, 1.0)
    assert told == sorted(told)


def test_a_verdict_pays_a_conclusion_and_what_it_predicts() -> None:
    sure = Verdict(probability=1.0, percent=99, told=1.0, skill=1.0, is_true=True)
    lucky = Verdict(probability=0.03, percent=99, told=0.0, skill=1.0, is_true=True)
    assert (sure.pay, sure.succeeds) == (pytest.approx(7.0), True)
    assert (lucky.pay, lucky.succeeds) == (0.0, False)
    assert sure.brier == pytest.approx(0.0001)
