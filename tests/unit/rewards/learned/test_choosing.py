import numpy as np

from practicum.rewards.learned.review_queue import PoolGeometry


def clusters(sizes: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around a few centres, and the cluster of each."""
    draw = np.random.default_rng(seed)
    centres = draw.standard_normal((len(sizes), 8)) * 4
    label = np.repeat(np.arange(len(sizes)), sizes)
    return centres[label] + 0.1 * draw.standard_normal((len(label), 8)), label


def test_the_first_ones_stand_for_every_cluster_and_the_largest_comes_first() -> None:
    rows, cluster = clusters([60, 25, 10, 5])
    chosen = PoolGeometry(rows, seed=0).representatives([], 4)
    assert cluster[chosen[0]] == 0
    assert sorted(cluster[chosen]) == [0, 1, 2, 3]


def test_what_was_seen_is_not_stood_for_again() -> None:
    rows, cluster = clusters([60, 25, 10])
    [chosen] = PoolGeometry(rows, seed=0).representatives([0], 1)
    assert cluster[chosen] == 1


def test_a_batch_is_not_copies_of_the_most_doubtful_trace() -> None:
    rows = np.vstack([np.tile([[1.0, 0.0]], (30, 1)), [[0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]])
    undecided = np.array([1.0] * 30 + [0.6, 0.5, 0.4])
    chosen = PoolGeometry(rows, seed=0).most_informative(undecided, [], 4)
    assert chosen[0] < 30
    assert sorted(chosen[1:]) == [30, 31, 32]


def test_doubt_decides_between_traces_that_are_equally_new() -> None:
    rows, cluster = clusters([20, 20, 20])
    undecided = np.where(cluster == 2, 0.9, 0.1)
    [chosen] = PoolGeometry(rows, seed=0).most_informative(undecided, [], 1)
    assert cluster[chosen] == 2


def test_an_outlier_is_not_preferred_for_being_far_away() -> None:
    rows, cluster = clusters([40, 40])
    rows = np.vstack([rows, np.full((1, 8), 100.0)])
    [chosen] = PoolGeometry(rows, seed=0).most_informative(np.ones(81), [], 1)
    assert chosen != 80
    assert cluster[chosen] in (0, 1)


def test_no_more_are_chosen_than_are_left_and_none_twice() -> None:
    rows, _ = clusters([5, 5])
    around = PoolGeometry(rows, seed=0)
    chosen = around.most_informative(np.zeros(10), [0, 1, 2], 100)
    assert sorted(chosen) == [3, 4, 5, 6, 7, 8, 9]
    assert sorted(around.representatives([0, 1, 2], 100)) == [3, 4, 5, 6, 7, 8, 9]


def test_copies_alone_are_still_handed_out() -> None:
    around = PoolGeometry(np.ones((4, 3)), seed=0)
    assert sorted(around.most_informative(np.ones(4), [], 4)) == [0, 1, 2, 3]


def test_few_and_many_rows_are_measured_alike() -> None:
    rows, _ = clusters([6, 4])
    wide = np.hstack([rows, np.zeros((10, 30))])
    undecided = np.linspace(0.1, 1.0, 10)
    assert PoolGeometry(rows, 0).most_informative(undecided, [1], 6) == PoolGeometry(
        wide, 0
    ).most_informative(undecided, [1], 6)


def test_an_empty_pool_gives_nothing() -> None:
    around = PoolGeometry(np.zeros((0, 1)), seed=0)
    assert around.representatives([], 3) == []
    assert around.most_informative(np.zeros(0), [], 3) == []
