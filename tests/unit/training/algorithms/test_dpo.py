"""DPO and its relatives by hand and from their papers."""

import math

import numpy as np
import pytest
from tests.unit.training.algorithms.rows import Row

from practicum.training.algorithms.dpo import Dpo


def of_margin(margin: float, method: Dpo) -> tuple[float, float]:
    """A pair's loss and its slope by the margin, in closed form."""
    beta, s = method.config.beta, method.config.label_smoothing
    if method.config.loss == "sigmoid":
        p = 1 / (1 + math.exp(-beta * margin))
        return -(1 - s) * math.log(p) - s * math.log(1 - p), beta * (p - (1 - s))
    if method.config.loss == "hinge":
        short = 1 - beta * margin
        return max(0.0, short), -beta if short > 0 else 0.0
    apart = margin - 1 / (2 * beta)
    return apart**2, 2 * apart


METHODS = [
    Dpo(),
    Dpo(beta=0.3, label_smoothing=0.2),
    Dpo(beta=0.05, loss="hinge"),
    Dpo(beta=0.2, loss="ipo"),
]


@pytest.mark.parametrize(
    "method", METHODS, ids=lambda m: f"{m.config.loss} {m.config.label_smoothing}"
)
@pytest.mark.parametrize("seed", range(4))
def test_loss_and_slopes_are_the_papers(seed: int, method: Dpo) -> None:
    """Sides of the pairs in any order; rejected sides get the opposite slope."""
    chance = np.random.default_rng(seed)
    pairs = 5
    rows = [Row(pair=str(n), chosen=side) for n in range(pairs) for side in (True, False)]
    order = chance.permutation(2 * pairs)
    rows = [rows[i] for i in order]
    policy, base = -chance.exponential(9, size=2 * pairs), -chance.exponential(9, size=2 * pairs)
    expected, slope = 0.0, np.zeros(2 * pairs)
    for n in range(pairs):
        c = next(i for i, r in enumerate(rows) if r.pair == str(n) and r.chosen)
        r = next(i for i, r in enumerate(rows) if r.pair == str(n) and not r.chosen)
        loss, by_margin = of_margin((policy[c] - base[c]) - (policy[r] - base[r]), method)
        expected += loss / pairs
        slope[c], slope[r] = by_margin / pairs, -by_margin / pairs
    found, loss, _ = method.advantages(rows, policy, base, None)
    assert loss == pytest.approx(expected, rel=1e-9)
    assert found == pytest.approx(-slope, abs=1e-6)
    assert np.abs(found).max() > 1e-3


def test_figures_say_how_far_the_pairs_are_apart() -> None:
    """Gains 0.5 * (2, 1) and 0.5 * (0, 4): margins 0.5 and -2."""
    rows = [Row(pair=p, chosen=c) for p in "ab" for c in (True, False)]
    policy = np.asarray([-1.0, -1.0, -4.0, -4.0])
    base = policy - np.asarray([2.0, 1.0, 0.0, 4.0])
    _, _, figures = Dpo(beta=0.5).advantages(rows, policy, base, None)
    assert figures == {
        "gain_chosen": 0.5,
        "gain_rejected": 1.25,
        "margin": -0.75,
        "pairs_in_order": 0.5,
    }


def test_a_pair_counts_the_weight_of_its_chosen_side() -> None:
    rows = [Row(pair="a", chosen=True, weight=3.0), Row(pair="a", chosen=False)]
    still = np.asarray([-1.0, -1.0])
    found, loss, _ = Dpo(beta=1.0).advantages(rows, still, still, None)
    assert loss == pytest.approx(3 * math.log(2))
    assert found.tolist() == [1.5, -1.5]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([Row()], "row 0 is not a side of a pair"),
        ([Row(pair="a", chosen=True)], "pair 'a' has one side only"),
        ([Row(pair="a", chosen=True)] * 2, "pair 'a' has the same side twice"),
    ],
)
def test_rows_that_are_no_pairs_are_refused(rows: list[Row], message: str) -> None:
    sums = np.zeros(len(rows))
    with pytest.raises(ValueError, match=message):
        Dpo().advantages(rows, sums, sums, None)


def test_smoothing_goes_with_the_sigmoid_only() -> None:
    rows = [Row(pair="a", chosen=True), Row(pair="a", chosen=False)]
    with pytest.raises(ValueError, match="label_smoothing goes with loss: sigmoid"):
        Dpo(loss="ipo", label_smoothing=0.1)
    with pytest.raises(ValueError, match="needs sums"):
        Dpo().advantages(rows, None, None, None)
