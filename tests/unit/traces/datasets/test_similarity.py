"""Near-duplicates: MinHash against the exact Jaccard index."""

import random

import numpy as np
import pytest

from practicum.traces.datasets.splits import Clusters, jaccard, near_clusters, shingles, signature


def overlapping_sets(shared: int, only_one: int, only_other: int) -> tuple[frozenset[str], ...]:
    one = frozenset(f"s{i}" for i in range(shared)) | {f"a{i}" for i in range(only_one)}
    other = frozenset(f"s{i}" for i in range(shared)) | {f"b{i}" for i in range(only_other)}
    return one, other


def mutated(words: list[str], changes: int, dice: random.Random) -> str:
    out = list(words)
    for _ in range(changes):
        out[dice.randrange(len(out))] = f"w{dice.randrange(10_000)}"
    return " ".join(out)


def brute_force(texts: list[str], threshold: float) -> list[list[int]]:
    """Every pair compared, joined by walking from text to text."""
    sets = [shingles(text) for text in texts]
    left, groups = set(range(len(texts))), []
    while left:
        reached, frontier = set[int](), [min(left)]
        while frontier:
            at = frontier.pop()
            reached.add(at)
            left.discard(at)
            frontier += [
                other
                for other in left - set(frontier)
                if len(sets[at] & sets[other]) / len(sets[at] | sets[other]) >= threshold
            ]
        groups.append(sorted(reached))
    return sorted(groups)


def test_shingles_are_the_runs_of_three_words() -> None:
    assert shingles("A b, C") == {"a b ,", "b , c"}
    assert shingles("a  b") == {"a b"}
    assert shingles("") == {""}


@pytest.mark.parametrize(("shared", "one", "other"), [(10, 0, 0), (5, 5, 5), (0, 3, 4), (9, 1, 0)])
def test_jaccard_is_what_is_in_both_of_what_is_in_either(shared: int, one: int, other: int) -> None:
    assert jaccard(*overlapping_sets(shared, one, other)) == shared / (shared + one + other)


@pytest.mark.parametrize("shared", [0, 100, 200, 300, 380, 400])
def test_signatures_agree_as_often_as_the_jaccard_index_says(shared: int) -> None:
    rest = 400 - shared
    one, other = overlapping_sets(shared, rest // 2, rest - rest // 2)
    agreeing = float((signature(one) == signature(other)).mean())
    assert abs(agreeing - jaccard(one, other)) < 4 * 0.5 / np.sqrt(256)


@pytest.mark.parametrize("threshold", [0.6, 0.8, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_those_of_comparing_each_with_each(threshold: float, seed: int) -> None:
    dice = random.Random(seed)
    texts = []
    for family in range(12):
        words = [f"f{family}w{i}" for i in range(dice.randint(20, 60))]
        texts += [mutated(words, dice.randint(0, 3), dice) for _ in range(6)]
    dice.shuffle(texts)
    assert sorted(near_clusters(texts, threshold).groups()) == brute_force(texts, threshold)


def test_crowded_buckets_hide_no_near_duplicate() -> None:
    """All texts share most of their words, so that every one is a candidate for every other."""
    dice = random.Random(5)
    common = [f"c{i}" for i in range(60)]
    texts = [" ".join([*common, *(f"t{n}x{i}" for i in range(25))]) for n in range(40)]
    texts += [mutated(text.split(), 1, dice) for text in texts]
    found = near_clusters(texts, 0.8).groups()
    assert sorted(found) == brute_force(texts, 0.8)
    assert len(found) == 40


def test_texts_that_are_alike_through_others_are_together() -> None:
    words = [f"w{i}" for i in range(40)]
    chain = [" ".join(words[step : step + 30]) for step in range(0, 9, 3)]
    ends = jaccard(shingles(chain[0]), shingles(chain[-1]))
    assert ends < 0.75 <= jaccard(shingles(chain[0]), shingles(chain[1]))
    assert near_clusters(chain, 0.75).groups() == [[0, 1, 2]]


def test_nothing_and_one() -> None:
    assert near_clusters([], 0.8).groups() == []
    assert near_clusters(["a"], 0.8).groups() == [[0]]


def test_joining_joins_whole_clusters() -> None:
    clusters = Clusters(5)
    clusters.join(3, 4)
    clusters.join(1, 2)
    clusters.join(4, 1)
    assert clusters.groups() == [[0], [1, 2, 3, 4]]
    assert clusters.apart(np.array([0, 1, 2]), 3).tolist() == [True, False, False]
