import pytest
import torch
from tests.unit.engine.kernels.plain import DEVICE, random_ends, tree_mask

from practicum.engine.kernels import tree_tiles as tree_blocks
from practicum.engine.kernels.tree_tiles import TreeBlocks

SIZES = [(1, 8, 4), (7, 8, 8), (64, 16, 8), (100, 16, 4), (130, 32, 16)]


def cells(end: torch.Tensor, outer: int, inner: int) -> torch.Tensor:
    """(2, N, M): how many pairs a query block and a key block have in common, or a key block and
    a query block."""
    mask = tree_mask(end).long().cpu()
    beyond = -end.numel() % outer
    mask = torch.nn.functional.pad(mask, (0, beyond, 0, beyond))
    blocks = mask.shape[0] // outer
    by_query = mask.view(blocks, outer, -1, inner).sum((1, 3))
    by_key = mask.T.reshape(blocks, outer, -1, inner).sum((1, 3))
    return torch.stack([by_query, by_key])


def listed(tasks: torch.Tensor, entries: torch.Tensor) -> list[tuple[int, int, bool]]:
    """Outer block, inner block, and whether it needs a mask, for all entries of all tasks."""
    return [
        (block, int(entries[i]), i >= middle)
        for block, first, middle, last, _ in tasks.tolist()
        for i in range(first, last)
    ]


@pytest.mark.parametrize(("count", "outer", "inner"), SIZES)
@pytest.mark.parametrize("chance", [0.0, 0.02, 0.1, 0.5])
def test_each_pair_of_blocks_that_sees_anything_is_listed_once_and_no_other(
    count: int, outer: int, inner: int, chance: float
) -> None:
    end = random_ends(count, seed=count, chance=chance)
    blocks = TreeBlocks.of(end, outer, inner)
    for side, tasks in enumerate((blocks.query_tasks, blocks.key_tasks)):
        found = [(o, i) for o, i, _ in listed(tasks, blocks.entries)]
        pairs = cells(end, outer, inner)[side]
        assert sorted(found) == [tuple(cell) for cell in (pairs > 0).nonzero().tolist()]


@pytest.mark.parametrize(("count", "outer", "inner"), SIZES)
@pytest.mark.parametrize("chance", [0.0, 0.02, 0.1])
def test_a_block_goes_without_a_mask_only_if_every_pair_is_visible(
    count: int, outer: int, inner: int, chance: float
) -> None:
    end = random_ends(count, seed=count + 1, chance=chance)
    blocks = TreeBlocks.of(end, outer, inner)
    pairs = cells(end, outer, inner)
    last_rows = count - (count - 1) // outer * outer  # a last block of queries may be short
    for outer_block, inner_block, is_masked in listed(blocks.query_tasks, blocks.entries):
        rows = last_rows if outer_block == pairs.shape[1] - 1 else outer
        assert is_masked == (int(pairs[0, outer_block, inner_block]) < rows * inner)
    for outer_block, inner_block, is_masked in listed(blocks.key_tasks, blocks.entries):
        assert is_masked == (int(pairs[1, outer_block, inner_block]) < outer * inner)


def test_a_lone_path_needs_masks_on_its_diagonal_alone() -> None:
    blocks = TreeBlocks.of(torch.full((64,), 64, device=DEVICE), 16, 16)
    masked = [(o, i) for o, i, m in listed(blocks.query_tasks, blocks.entries) if m]
    assert sorted(masked) == [(n, n) for n in range(4)]


def test_the_longest_tasks_come_first() -> None:
    blocks = TreeBlocks.of(random_ends(300, seed=3), 16, 8)
    for tasks in (blocks.query_tasks, blocks.key_tasks):
        lengths = (tasks[:, 3] - tasks[:, 1]).tolist()
        assert lengths == sorted(lengths, reverse=True)


def test_a_trunk_that_all_see_is_shared_between_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_blocks, "TASKS", 4)
    end = torch.arange(1, 401, device=DEVICE).clamp(min=40)
    end[:16] = 400
    blocks = TreeBlocks.of(end, 16, 8)
    of_trunk = blocks.key_tasks[blocks.key_tasks[:, 0] == 0]
    lengths = (of_trunk[:, 3] - of_trunk[:, 1]).tolist()
    assert sum(lengths) == 50
    assert max(lengths) - min(lengths) <= 1
    assert len(lengths) > 1
    block, first, many = blocks.shares[0].tolist()
    assert (block, many) == (0, len(lengths))
    assert sorted(of_trunk[:, 4].tolist()) == list(range(first, first + many))
    assert blocks.share_count == int(blocks.shares[:, 2].sum())


def test_blocks_that_are_not_shared_have_no_share() -> None:
    blocks = TreeBlocks.of(torch.full((40,), 40, device=DEVICE), 16, 8)
    assert blocks.share_count == 0
    assert blocks.key_tasks[:, 4].tolist() == [-1] * 3
