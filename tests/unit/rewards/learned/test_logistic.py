import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from practicum.rewards.learned.logistic import fit_logistic, log_loss, sigmoid, span


def problem(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    rows = draw.standard_normal((n, d))
    truth = draw.standard_normal(d) / d**0.5
    return rows, (draw.random(n) < sigmoid(2 * rows @ truth + 0.5)).astype(float)


def by_scipy(rows: np.ndarray, targets: np.ndarray, strength: float) -> np.ndarray:
    """The same objective, written out and minimised by scipy: weights, then the intercept."""

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        s = rows @ w[:-1] + w[-1]
        value = np.sum(np.log1p(np.exp(-np.abs(s))) + np.maximum(s, 0) - targets * s)
        slope = 1 / (1 + np.exp(-s)) - targets
        gradient = np.append(rows.T @ slope + strength * w[:-1], slope.sum())
        return value + strength / 2 * w[:-1] @ w[:-1], gradient

    start = np.zeros(rows.shape[1] + 1)
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000}
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x


@pytest.mark.parametrize(("n", "d"), [(80, 5), (30, 60), (12, 12)])
@pytest.mark.parametrize("strength", [0.01, 1.0, 10.0])
def test_the_minimum_is_the_one_that_scipy_finds(n: int, d: int, strength: float) -> None:
    rows, targets = problem(n, d, seed=n + d)
    model = fit_logistic(rows, targets, strength)
    expected = by_scipy(rows, targets, strength)
    assert model.weights == pytest.approx(expected[:-1], abs=2e-4)
    assert model.intercept == pytest.approx(expected[-1], abs=2e-4)


def test_targets_between_good_and_bad_are_fitted_too() -> None:
    rows, _ = problem(40, 3, seed=1)
    targets = np.random.default_rng(2).random(40)
    model = fit_logistic(rows, targets, 0.5)
    expected = by_scipy(rows, targets, 0.5)
    assert model.weights == pytest.approx(expected[:-1], abs=1e-5)


def test_the_gradient_is_zero_at_the_minimum_even_when_classes_are_apart() -> None:
    rows = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    targets = np.array([0.0, 0.0, 1.0, 1.0])
    model = fit_logistic(rows, targets, 1e-3)
    slope = sigmoid(model.scores(rows)) - targets
    assert rows.T @ slope + 1e-3 * model.weights == pytest.approx([0.0], abs=1e-8)


@pytest.mark.parametrize(("n", "d"), [(60, 4), (6, 9)])
def test_variances_are_those_of_the_inverse_curvature_in_the_whole_space(n: int, d: int) -> None:
    rows, targets = problem(n, d, seed=3)
    strength = 0.7
    model = fit_logistic(rows, targets, strength)
    share = sigmoid(model.scores(rows))
    wide = np.hstack([rows, np.ones((n, 1))])
    prior = np.diag([strength] * d + [0.0])
    covariance = np.linalg.inv(wide.T @ (wide * (share * (1 - share))[:, None]) + prior)
    asked = np.hstack([np.random.default_rng(4).standard_normal((5, d)), np.ones((5, 1))])
    expected = np.einsum("ij,jk,ik->i", asked, covariance, asked)
    assert model.variances(asked[:, :-1]) == pytest.approx(expected, rel=1e-6)


def test_moderated_scores_are_close_to_the_mean_of_the_sigmoid() -> None:
    rows, targets = problem(40, 3, seed=5)
    model = fit_logistic(rows, targets, 1.0)
    row = rows[:1] * 3
    mean, spread = model.scores(row)[0], model.variances(row)[0] ** 0.5
    scores = norm.ppf((np.arange(20_000) + 0.5) / 20_000, mean, spread)
    exact = float((1 / (1 + np.exp(-scores))).mean())
    assert sigmoid(model.moderated(row))[0] == pytest.approx(exact, abs=0.02)


def test_what_no_row_resembles_is_never_called_certain() -> None:
    rows = np.hstack([np.array([[-1.0], [1.0]] * 10), np.zeros((20, 1))])
    model = fit_logistic(rows, np.array([0.0, 1.0] * 10), 0.1)
    near, strange = np.array([[1.0, 0.0]]), np.array([[1.0, 50.0]])
    assert model.scores(near) == pytest.approx(model.scores(strange))
    assert sigmoid(model.moderated(near))[0] > 0.85
    assert sigmoid(model.moderated(strange))[0] < 0.6


def test_the_span_is_orthonormal_and_holds_the_rows() -> None:
    rows = np.random.default_rng(0).standard_normal((4, 7))
    rows[3] = rows[0] - 2 * rows[1]
    basis = span(rows)
    assert basis.shape == (7, 4)
    assert basis.T @ basis == pytest.approx(np.eye(4))
    assert rows @ basis @ basis.T == pytest.approx(rows)


def test_sigmoid_and_loss_hold_at_the_ends() -> None:
    scores = np.array([-800.0, 0.0, 800.0])
    assert sigmoid(scores) == pytest.approx([0.0, 0.5, 1.0])
    assert log_loss(scores, np.array([0.0, 1.0, 1.0])) == pytest.approx(np.log(2))
