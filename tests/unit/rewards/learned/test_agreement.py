import numpy as np
import pytest

from practicum.rewards.learned.review_queue import cohens_kappa


def raters(both: int, first: int, second: int, neither: int) -> tuple[list[bool], list[bool]]:
    cells = [(True, True)] * both + [(True, False)] * first
    cells += [(False, True)] * second + [(False, False)] * neither
    return [a for a, _ in cells], [b for _, b in cells]


def test_kappa_is_that_of_a_calculation_by_hand() -> None:
    # 60 of 100 agreed; chance: 0.6 * 0.7 + 0.4 * 0.3 = 0.54.
    found = cohens_kappa(*raters(45, 15, 25, 15))
    assert found.agreed == pytest.approx(0.60)
    assert found.kappa == pytest.approx((0.60 - 0.54) / 0.46)


def test_full_agreement_on_a_few_is_not_certain() -> None:
    few, many = cohens_kappa(*raters(4, 0, 0, 4)), cohens_kappa(*raters(200, 0, 0, 200))
    assert (few.kappa, few.high) == (1.0, 1.0)
    assert few.low is not None
    assert few.low < 0.7
    assert many.low is not None
    assert many.low > 0.97


def test_with_one_verdict_only_there_is_nothing_to_agree_on() -> None:
    found = cohens_kappa(*raters(9, 0, 0, 0))
    assert (found.agreed, found.kappa, found.low, found.high) == (1.0, None, None, None)


def test_nothing_compared_is_nothing() -> None:
    found = cohens_kappa([], [])
    assert (found.n, found.agreed, found.kappa) == (0, None, None)


def test_different_numbers_of_labels_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="1 labels cannot be compared with 0"):
        cohens_kappa([True], [])


@pytest.mark.parametrize(
    ("table", "n"),
    [((0.45, 0.05, 0.05, 0.45), 40), ((0.3, 0.2, 0.2, 0.3), 60), ((0.8, 0.05, 0.05, 0.1), 80)],
)
def test_the_interval_holds_the_truth_about_as_often_as_it_says(
    table: tuple[float, ...], n: int
) -> None:
    both, first, second, neither = table
    chance = (both + first) * (both + second) + (neither + second) * (neither + first)
    truth = (both + neither - chance) / (1 - chance)
    draw = np.random.default_rng(0)
    held = []
    for counts in draw.multinomial(n, table, size=600):
        found = cohens_kappa(*raters(*(int(count) for count in counts)))
        if found.low is not None and found.high is not None:
            held.append(found.low <= truth <= found.high)
    assert 0.92 <= float(np.mean(held)) <= 0.985
