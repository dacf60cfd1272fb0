"""Agreement of two models' predictions, beside scipy and by hand."""

import numpy as np
import pytest
from scipy.special import log_softmax as scipy_log_softmax
from scipy.stats import entropy

from practicum.delivery.agreement import (
    LIMITS,
    Agreement,
    faults,
    log_softmax,
    measure_agreement,
    measure_likeliest,
)


def some(rows: int, seed: int) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(0, 3, (rows, 40))
    return scipy_log_softmax(logits, axis=-1).astype(np.float32)


def test_divergence_gap_and_likeliest_are_scipys_and_a_loops() -> None:
    left, right = [some(5, 1), some(3, 2)], [some(5, 3), some(3, 4)]
    targets = [np.array([0, 7, 3, 39, 2]), np.array([5, 5, 1])]
    found = measure_agreement(left, right, targets)
    rows = [
        (a[i], b[i], t[i])
        for a, b, t in zip(left, right, targets, strict=True)
        for i in range(len(t))
    ]
    assert found.positions == 8
    assert found.divergence == pytest.approx(
        np.mean([entropy(np.exp(a), np.exp(b)) for a, b, _ in rows]), rel=1e-4
    )
    assert found.gap == pytest.approx(np.sqrt(np.mean([(a[t] - b[t]) ** 2 for a, b, t in rows])))
    assert found.same_likeliest == np.mean([a.argmax() == b.argmax() for a, b, _ in rows])


def test_a_model_agrees_with_itself() -> None:
    same = [some(6, 5)]
    found = measure_agreement(same, same, [np.arange(6)])
    assert (found.gap, found.divergence, found.same_likeliest) == (0.0, 0.0, 1.0)
    assert all(not faults(kind, found) for kind in LIMITS)


def test_log_softmax_is_scipys_at_any_height() -> None:
    logits = np.random.default_rng(0).normal(0, 50, (4, 30)).astype(np.float32) + 1000
    assert log_softmax(logits) == pytest.approx(scipy_log_softmax(logits, axis=-1), abs=1e-3)


def test_each_figure_outside_its_limit_is_named() -> None:
    far = Agreement(positions=9, gap=0.5, divergence=0.4, same_likeliest=0.2)
    told = faults("F16", far)
    assert len(told) == 3
    assert "0.5 apart" in told[0]
    assert "KL is 0.4" in told[1]
    assert "20% of places" in told[2]


def test_an_export_that_gives_no_numbers_is_a_fault() -> None:
    found = measure_agreement([some(4, 6)], [np.full((4, 40), np.nan, np.float32)], [np.arange(4)])
    assert len(faults("Q2_K", found)) == 3


def test_of_the_likeliest_tokens_alone_the_same_is_measured() -> None:
    rows = list(some(6, 7))
    same = [{int(i): float(row[i]) for i in np.argsort(row)[-5:]} for row in rows]
    found = measure_likeliest(rows, same)
    assert (found.positions, found.gap, found.same_likeliest) == (6, 0.0, 1.0)
    assert found.divergence == pytest.approx(0.0, abs=1e-6)
    moved = [{token: value - 0.5 for token, value in tokens.items()} for tokens in same]
    assert measure_likeliest(rows, moved).gap == pytest.approx(0.5, abs=1e-5)
    other = [dict(zip(tokens, reversed(tokens.values()), strict=True)) for tokens in same]
    assert measure_likeliest(rows, other).same_likeliest == 0.0
