import numpy as np
import pytest

from practicum.rewards.learned.logistic import (
    cross_validate,
    fit_logistic,
    log_loss,
    make_folds,
    sigmoid,
)


def test_rows_of_a_group_are_never_torn_apart_and_classes_are_shared_out() -> None:
    draw = np.random.default_rng(0)
    groups = [f"task{index}" for index in draw.integers(30, size=120)]
    good = (draw.random(120) < 0.4).astype(float)
    folds = make_folds(good, groups, seed=1)
    for group in set(groups):
        assert len({fold for fold, one in zip(folds, groups, strict=True) if one == group}) == 1
    per_fold = [good[folds == fold].sum() for fold in range(5)]
    assert max(per_fold) - min(per_fold) <= 5
    assert np.bincount(folds, minlength=5).min() >= 15


def test_where_there_are_too_few_groups_each_row_is_one() -> None:
    good = np.array([0.0, 1.0] * 10)
    folds = make_folds(good, ["the same task"] * 20, seed=0)
    assert sorted(np.bincount(folds)) == [4, 4, 4, 4, 4]
    assert all(good[folds == fold].sum() == 2 for fold in range(5))


def test_every_score_comes_from_a_model_that_never_saw_the_row() -> None:
    draw = np.random.default_rng(2)
    rows = draw.standard_normal((24, 40))
    targets = (rows[:, 0] > 0).astype(float)
    groups = [str(index) for index in range(24)]
    found = cross_validate(rows, targets, groups, seed=3, strengths=[0.5])
    folds = make_folds(targets, groups, seed=3)
    for fold in range(5):
        out = folds == fold
        alone = fit_logistic(rows[~out], targets[~out], 0.5)
        assert found.scores[out] == pytest.approx(alone.moderated(rows[out]), rel=1e-6)


def test_the_strength_that_fits_best_is_chosen() -> None:
    draw = np.random.default_rng(4)
    rows = draw.standard_normal((60, 50))
    targets = (draw.random(60) < sigmoid(rows[:, 0])).astype(float)
    groups = [str(index) for index in range(60)]
    best = cross_validate(rows, targets, groups, seed=0)
    losses = {
        strength: log_loss(
            cross_validate(rows, targets, groups, seed=0, strengths=[strength]).scores, targets
        )
        for strength in (0.01, 0.1, 1.0, 10.0)
    }
    assert log_loss(best.scores, targets) <= min(losses.values()) + 1e-9


def test_labels_that_mean_nothing_are_not_called_certain() -> None:
    draw = np.random.default_rng(5)
    rows, targets = draw.standard_normal((80, 30)), np.array([0.0, 1.0] * 40)
    found = cross_validate(rows, targets, [str(index) for index in range(80)], seed=0)
    assert np.abs(found.probabilities - 0.5).max() < 0.35
