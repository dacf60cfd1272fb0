from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest

from practicum.training.prefix_tree import split_runs

Row = tuple[int, ...]
Runs = list[tuple[int, int]]


def random_rows(chance: np.random.Generator) -> list[Row]:
    """Sorted rows that grow out of each other: shared trunks, prefixes, duplicates, loners."""
    rows: list[Row] = []
    for _ in range(int(chance.integers(1, 10))):
        trunk = rows[int(chance.integers(len(rows)))] if rows and chance.random() < 0.8 else ()
        kept = trunk[: int(chance.integers(len(trunk) + 1))]
        row = kept + tuple(chance.integers(0, 4, chance.integers(0, 7)).tolist())
        rows.append(row or (0,))
    return sorted(rows)


def split(rows: Sequence[Row], budget: int) -> Runs:
    """`split_runs` of rows given as they are."""
    lengths = np.array([len(row) for row in rows], np.int64)
    shared = np.zeros(len(rows), np.int64)
    for i, (one, other) in enumerate(pairwise(rows), start=1):
        shared[i] = sum(other[: n + 1] == one[: n + 1] for n in range(min(len(one), len(other))))
    return split_runs(lengths, shared, budget)


def unique_tokens(rows: Sequence[Row]) -> int:
    """One token for each different beginning."""
    return len({row[: i + 1] for row in rows for i in range(len(row))})


def merit(rows: Sequence[Row], runs: Runs) -> tuple[int, int, int]:
    """Total tokens, number of runs, largest run: the smaller the better, in this order."""
    sizes = [unique_tokens(rows[begin:end]) for begin, end in runs]
    return sum(sizes), len(sizes), max(sizes)


def every_split(rows: Sequence[Row], budget: int) -> Iterator[Runs]:
    """All ways to cut the rows such that every run of several rows is within the budget."""
    for number in range(len(rows)):
        for cuts in combinations(range(1, len(rows)), number):
            runs = list(zip((0, *cuts), (*cuts, len(rows)), strict=True))
            if all(e - b == 1 or unique_tokens(rows[b:e]) <= budget for b, e in runs):
                yield runs


def greedy_split(rows: Sequence[Row], budget: int) -> Runs:
    """Fill one run after the other."""
    runs = [(0, 1)]
    for i in range(1, len(rows)):
        begin = runs[-1][0]
        if unique_tokens(rows[begin : i + 1]) <= budget:
            runs[-1] = (begin, i + 1)
        else:
            runs.append((i, i + 1))
    return runs


@pytest.mark.parametrize("seed", range(60))
def test_no_way_to_cut_the_samples_is_better(seed: int) -> None:
    chance = np.random.default_rng(seed)
    rows = random_rows(chance)
    for budget in {*chance.integers(1, 30, 3).tolist(), unique_tokens(rows)}:
        runs = split(rows, budget)
        alternatives = list(every_split(rows, budget))
        assert runs in alternatives
        assert merit(rows, runs) == min(merit(rows, other) for other in alternatives)


def test_never_more_tokens_than_filling_one_run_after_the_other_and_sometimes_fewer() -> None:
    chance = np.random.default_rng(0)
    fewer = 0
    for _ in range(300):
        rows = random_rows(chance)
        budget = int(chance.integers(4, 25))
        ours = merit(rows, split(rows, budget))
        theirs = merit(rows, greedy_split(rows, budget))
        assert ours <= theirs
        fewer += ours[0] < theirs[0]
    assert fewer


def test_a_cut_goes_between_prompts_and_not_through_one() -> None:
    """Filling the first run leaves no room for the second prompt's last answer."""
    first, second = (1,) * 10, (2,) * 10
    rows = sorted((*prompt, answer) for prompt in (first, second) for answer in (3, 4, 5))
    assert greedy_split(rows, 25) == [(0, 5), (5, 6)]
    assert split(rows, 25) == [(0, 3), (3, 6)]
    assert merit(rows, split(rows, 25)) == (26, 2, 13)


def test_what_cannot_stay_together_is_cut_where_the_least_is_shared() -> None:
    """Three tokens are common to all, six to each pair, and only one pair fits a run."""
    rows = [(1, 1, 1, pair, pair, pair, leaf) for pair in (2, 3, 4) for leaf in (5, 6)]
    assert split(rows, 8) == [(0, 2), (2, 4), (4, 6)]
    assert merit(rows, split(rows, 8)) == (24, 3, 8)  # the tree has 18, and each cut repeats 3


def test_runs_that_repeat_nothing_are_filled_evenly() -> None:
    rows = [(i,) * 5 for i in range(4)]
    assert greedy_split(rows, 15) == [(0, 3), (3, 4)]
    assert split(rows, 15) == [(0, 2), (2, 4)]


def test_what_fits_together_is_one_run() -> None:
    rows = random_rows(np.random.default_rng(8))
    assert len(rows) > 3
    assert split(rows, unique_tokens(rows)) == [(0, len(rows))]
    assert len(split(rows, unique_tokens(rows) - 1)) > 1


def test_a_sample_longer_than_the_budget_is_a_run_of_its_own() -> None:
    """Even beside its own beginning and its own copy, which would add nothing."""
    long = (1,) * 9
    assert split([long[:4], long, long, (2, 2)], 8) == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_thousands_of_samples_are_cut_between_their_prompts() -> None:
    """Beyond the reach of brute force: 500 prompts of 200 tokens, each with 8 answers of 50."""
    lengths = np.full(4000, 250)
    shared = np.where(np.arange(4000) % 8 == 0, 20, 200)
    shared[0] = 0
    runs = split_runs(lengths, shared, budget_tokens=4 * 600)
    # The first prompt has 600 tokens of its own, every other one in the same run 580 more.
    assert runs == [(begin, begin + 32) for begin in range(0, 4000, 32)]


def test_no_samples_make_no_runs() -> None:
    assert split([], 10) == []
