"""KTO by hand and from its paper."""

import math

import numpy as np
import pytest
import torch
from tests.unit.training.algorithms.rows import Row

from practicum.training.algorithms.kto import Kto, kto_loss, mismatch_kl


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def from_the_paper(
    policy: list[float], base: list[float], rows: list[Row], z0: float, method: Kto
) -> tuple[float, list[float]]:
    """Equation 8 of arXiv 2402.01306, lambda_y - v, and its slope; lambda is the largest loss."""
    loss, slope = 0.0, []
    for p, b, row in zip(policy, base, rows, strict=True):
        r = p - b
        weight = method.config.desirable if row.label else method.config.undesirable
        v = weight * sigmoid(method.config.beta * (r - z0 if row.label else z0 - r))
        share = row.weight / len(rows)
        loss += share * (weight - v)
        sign = 1 if row.label else -1
        slope.append(-share * sign * method.config.beta * v * (1 - v / weight))
    return loss, slope


@pytest.mark.parametrize("seed", range(6))
def test_loss_and_slopes_are_the_papers(seed: int) -> None:
    chance = np.random.default_rng(seed)
    n = 8
    policy, base = -chance.exponential(20, size=n), -chance.exponential(20, size=n)
    swapped = -chance.exponential(20, size=n), -chance.exponential(20, size=n)
    rows = [Row(label=bool(chance.integers(2)), weight=chance.uniform(0.5, 2)) for _ in range(n)]
    method = Kto(beta=0.1, desirable=1.3, undesirable=0.7)
    z0 = max(0.0, float(np.mean(swapped[0] - swapped[1])))
    expected, slope = from_the_paper(policy.tolist(), base.tolist(), rows, z0, method)
    found, loss, figures = method.advantages(rows, policy, base, swapped)
    assert loss == pytest.approx(expected, abs=1e-9)
    assert found == pytest.approx(-np.asarray(slope), abs=1e-7)
    assert figures["kl_z0"] == pytest.approx(z0)
    assert np.abs(found).max() > 1e-4


def test_good_examples_are_made_likelier_and_bad_ones_less_likely() -> None:
    rows = [Row(label=True), Row(label=False)]
    still = np.asarray([-5.0, -5.0])
    found, loss, figures = Kto(beta=0.4).advantages(rows, still, still, (still, still))
    assert found == pytest.approx(np.asarray([0.05, -0.05]))  # 1/2 * 0.4 * 1/4
    assert loss == pytest.approx(0.5)
    gains = {"gain_desirable": 0.0, "gain_undesirable": 0.0, "margin": 0.0}
    assert figures == {"kl_z0": 0.0, **gains}


def test_the_reference_point_is_never_below_0_and_carries_no_gradient() -> None:
    assert mismatch_kl([-3.0, -1.0], [-1.0, -2.0]) == 0.0
    assert mismatch_kl([-1.0, -1.0], [-1.0, -2.0]) == 0.5
    sums = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    loss = kto_loss(sums, sums.detach(), torch.tensor([True]), torch.ones(1), 1.0, 1.0, 1.0, 2.0)
    assert loss.item() == pytest.approx(1 - sigmoid(-2.0))


def test_a_class_may_be_missing_from_a_step() -> None:
    one = np.asarray([-1.0])
    _, _, figures = Kto().advantages([Row(label=False)], one, one - 1, (one, one))
    assert figures == {"kl_z0": 0.0, "gain_undesirable": pytest.approx(0.1)}


def test_unmarked_rows_and_missing_sums_are_refused() -> None:
    one = np.asarray([-1.0])
    with pytest.raises(ValueError, match="1 rows are marked neither good nor bad"):
        Kto().advantages([Row()], one, one, (one, one))
    with pytest.raises(ValueError, match="mismatched pairs"):
        Kto().advantages([Row(label=True)], one, one, None)
    assert Kto().needs_measure
    assert Kto().needs_mismatched
