import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from practicum.rewards.learned.logistic import fit_platt, measure_calibration


def test_the_scale_is_the_one_that_scipy_finds_for_platts_targets() -> None:
    draw = np.random.default_rng(0)
    scores = draw.standard_normal(60) * 3
    good = (draw.random(60) < expit(scores / 2 - 0.5)).astype(float)
    high, low = (good.sum() + 1) / (good.sum() + 2), 1 / (60 - good.sum() + 2)
    targets = np.where(good == 1, high, low)

    def loss(ab: np.ndarray) -> float:
        s = ab[0] * scores + ab[1]
        return float(np.sum(np.logaddexp(0, s) - targets * s))

    expected = minimize(loss, [1.0, 0.0], tol=1e-12).x
    found = fit_platt(scores, good)
    assert (found.slope, found.offset) == pytest.approx(tuple(expected), abs=1e-4)


def test_overconfident_scores_are_drawn_in() -> None:
    draw = np.random.default_rng(1)
    true = draw.standard_normal(4000)
    good = (draw.random(4000) < expit(true)).astype(float)
    found = fit_platt(5 * true, good)
    assert found.slope == pytest.approx(0.2, rel=0.1)
    before = measure_calibration(expit(5 * true), good)
    after = measure_calibration(found.probabilities(5 * true), good)
    assert before.error > 0.1
    assert after.error < 0.03


def test_scores_worse_than_chance_say_nothing() -> None:
    found = fit_platt(np.array([2.0, 1.0, -1.0, -2.0]), np.array([0.0, 0.0, 1.0, 1.0]))
    assert found.slope == 0
    assert found.probabilities(np.array([-9.0, 9.0])) == pytest.approx([0.5, 0.5])


def test_the_error_is_that_of_a_count_by_hand() -> None:
    probabilities = np.array([0.1] * 5 + [0.9] * 5)
    good = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    found = measure_calibration(probabilities, good)
    assert found.bins == (
        (pytest.approx(0.1), pytest.approx(0.2), 5),
        (pytest.approx(0.9), pytest.approx(0.6), 5),
    )
    assert found.error == pytest.approx(0.5 * 0.1 + 0.5 * 0.3)
    assert found.brier == pytest.approx((4 * 0.01 + 0.81 + 3 * 0.01 + 2 * 0.81) / 10)


def test_equal_probabilities_share_a_bin() -> None:
    good = np.array([1.0, 0.0] * 20)
    assert measure_calibration(np.full(40, 0.5), good).bins == ((0.5, 0.5, 40),)


def test_right_probabilities_show_about_the_error_that_chance_brings() -> None:
    draw = np.random.default_rng(2)
    shares = draw.random(100)
    errors, expected = [], []
    for _ in range(40):
        found = measure_calibration(shares, (draw.random(100) < shares).astype(float))
        errors.append(found.error)
        expected.append(found.by_chance)
    assert float(np.mean(errors)) == pytest.approx(float(np.mean(expected)), rel=0.15)
