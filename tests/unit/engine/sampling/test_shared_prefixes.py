import numpy as np

from practicum.engine.sampling.decode_run import GROUP_COST, shared_prefixes


def cost(groups: list[tuple[list[int], int]], paths: list[np.ndarray]) -> int:
    """Tokens read, and what the groups cost."""
    return sum(
        GROUP_COST + prefix + sum(paths[i].size - prefix for i in members)
        for members, prefix in groups
    )


def common(paths: list[np.ndarray]) -> int:
    shortest = min(p.size for p in paths)
    return next((i for i in range(shortest) if len({int(p[i]) for p in paths}) > 1), shortest)


def partitions(items: list[int]):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for smaller in partitions(rest):
        yield [[first], *smaller]
        for i in range(len(smaller)):
            yield [*smaller[:i], [first, *smaller[i]], *smaller[i + 1 :]]


def best_cost(paths: list[np.ndarray]) -> int:
    """Over every way to group the rows, each group reading its common beginning once or not."""
    return min(
        sum(
            GROUP_COST
            + min(
                sum(paths[i].size for i in g),
                sum(paths[i].size for i in g) - (len(g) - 1) * common([paths[i] for i in g]),
            )
            for g in groups
        )
        for groups in partitions(list(range(len(paths))))
    )


def test_every_row_is_in_one_group_and_shares_what_the_group_says() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        paths = random_paths(rng, 12)
        groups = shared_prefixes(paths)
        assert sorted(i for members, _ in groups for i in members) == list(range(12))
        for members, prefix in groups:
            assert len({tuple(paths[i][:prefix].tolist()) for i in members}) == 1


def test_no_grouping_of_six_rows_is_much_cheaper_to_read() -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        paths = random_paths(rng, 6)
        assert cost(shared_prefixes(paths), paths) <= best_cost(paths) + 2 * GROUP_COST


def test_rows_of_one_prompt_share_it_and_strangers_share_nothing() -> None:
    prompt = np.arange(500)
    rows = [np.concatenate([prompt, [1000 + i, 2000 + i]]) for i in range(4)]
    assert shared_prefixes(rows) == [([0, 1, 2, 3], 500)]
    assert shared_prefixes([np.arange(9) + 100 * i for i in range(3)]) == [([0, 1, 2], 0)]


def test_a_short_system_prompt_does_not_keep_groups_from_their_own_prefixs() -> None:
    system = np.arange(10)
    rows = [
        np.concatenate([system, 1000 * task + np.arange(400), [9000 + 10 * task + row]])
        for task in (1, 2)
        for row in range(4)
    ]
    assert shared_prefixes(rows) == [([0, 1, 2, 3], 410), ([4, 5, 6, 7], 410)]


def random_paths(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Slots of rows that leave each other at random places: a slot is on one path only."""
    paths = [np.arange(int(rng.integers(1, 300)))]
    fresh = 10_000
    while len(paths) < count:
        other = paths[int(rng.integers(len(paths)))]
        kept = int(rng.integers(0, other.size + 1)) if rng.random() < 0.8 else 0
        added = int(rng.integers(1, 200))
        paths.append(np.concatenate([other[:kept], np.arange(fresh, fresh + added)]))
        fresh += added
    return paths
