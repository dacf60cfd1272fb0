from collections.abc import Sequence

import pytest
import torch
from tests.unit.engine.kernels.plain import (
    DEVICE,
    KINDS,
    assert_near,
    attended,
    numbers,
    random_ends,
    tree_mask,
)

pytest.importorskip("triton", reason="the kernels need Triton, which is not installed here")

from practicum.engine.kernels import tree_tiles as tree_blocks
from practicum.engine.kernels.tree_tiles import TreeBlocks
from practicum.engine.kernels.triton_tree_attention import tree_backward, tree_forward

pytestmark = pytest.mark.rare  # interpreted where there is no GPU, which takes long


def by_kind(grads: torch.Tensor, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Joined gradients as those of queries, keys and values."""
    return grads.split([x.shape[1] for x in inputs], dim=1)


SHAPES = [
    # tokens, heads, kv_heads, depth
    (1, 2, 2, 64),
    (34, 3, 1, 80),
    (33, 7, 1, 64),
    (20, 8, 1, 128),
    (50, 6, 2, 16),
]


def joined(count: int, heads: int, kv_heads: int, depth: int, kind: torch.dtype) -> torch.Tensor:
    return numbers(count, (heads + 2 * kv_heads) * depth, kind=kind)


def split(rows: torch.Tensor, heads: int, kv_heads: int, depth: int) -> tuple[torch.Tensor, ...]:
    """Queries, keys and values as views of the joined rows."""
    return rows.view(rows.shape[0], -1, depth).split([heads, kv_heads, kv_heads], 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "heads", "kv_heads", "depth"), SHAPES)
def test_outputs_and_gradients_are_those_of_dense_attention_under_the_trees_mask(
    count: int, heads: int, kv_heads: int, depth: int, kind: torch.dtype
) -> None:
    end = random_ends(count, seed=count)
    scale = depth**-0.5
    blocks = TreeBlocks.of(end, outer=32, inner=16)
    inputs = split(joined(count, heads, kv_heads, depth, kind), heads, kv_heads, depth)
    grad = numbers(count, heads, depth, kind=kind, seed=5)
    out, lse = tree_forward(*inputs, blocks, scale)
    grads = tree_backward(grad, *inputs, out, lse, blocks, scale)

    leaves = [x.double().requires_grad_() for x in inputs]
    exact, exact_lse = attended(*leaves, tree_mask(end), scale)
    exact.backward(grad.double())
    assert_near(out, exact.detach())
    torch.testing.assert_close(lse.double(), exact_lse.detach(), rtol=1e-5, atol=1e-5)
    for ours, leaf in zip(by_kind(grads, inputs), leaves, strict=True):
        assert_near(ours, leaf.grad, roundings=2)


@pytest.mark.parametrize("chance", [0.0, 0.02, 0.6])
@pytest.mark.parametrize(("outer", "inner"), [(16, 16), (64, 32)])
def test_neither_the_trees_shape_nor_the_blocks_size_matters(
    chance: float, outer: int, inner: int
) -> None:
    end = random_ends(60, seed=7, chance=chance)
    blocks = TreeBlocks.of(end, outer, inner)
    inputs = split(joined(60, 2, 1, 16, torch.float32), 2, 1, 16)
    grad = numbers(60, 2, 16, seed=5)
    out, lse = tree_forward(*inputs, blocks, 0.3)
    grads = tree_backward(grad, *inputs, out, lse, blocks, 0.3)
    leaves = [x.double().requires_grad_() for x in inputs]
    exact, _ = attended(*leaves, tree_mask(end), 0.3)
    exact.backward(grad.double())
    assert_near(out, exact.detach())
    for ours, leaf in zip(by_kind(grads, inputs), leaves, strict=True):
        assert_near(ours, leaf.grad)


def test_shared_key_blocks_add_up_to_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    end = random_ends(60, seed=2, chance=0.05)
    inputs = split(joined(60, 2, 1, 16, torch.float32), 2, 1, 16)
    grad = numbers(60, 2, 16, seed=5)
    whole = TreeBlocks.of(end, 32, 16)
    monkeypatch.setattr(tree_blocks, "SHORTEST_TASK", 1)
    shared = TreeBlocks.of(end, 32, 16)
    assert whole.share_count == 0
    assert shared.share_count > 4
    out, lse = tree_forward(*inputs, whole, 0.3)
    expected = tree_backward(grad, *inputs, out, lse, whole, 0.3)
    found = tree_backward(grad, *inputs, out, lse, shared, 0.3)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_a_token_sees_only_its_ancestors() -> None:
    end = torch.tensor([6, 3, 3, 6, 6, 6], device=DEVICE)  # 0 -> 1 -> 2 and 0 -> 3 -> 4 -> 5
    inputs = split(joined(6, 1, 1, 16, torch.float32), 1, 1, 16)
    blocks = TreeBlocks.of(end, 16, 16)
    before, _ = tree_forward(*inputs, blocks, 0.3)
    inputs[1][1:3] += 1.0
    inputs[2][1:3] += 1.0
    after, _ = tree_forward(*inputs, blocks, 0.3)
    changed = (before != after).flatten(1).any(1)
    assert changed.tolist() == [False, True, True, False, False, False]


def test_large_scores_do_not_overflow() -> None:
    inputs = [100 * x for x in split(joined(40, 2, 1, 16, torch.float32), 2, 1, 16)]
    end = random_ends(40, seed=3)
    out, lse = tree_forward(*inputs, TreeBlocks.of(end, 32, 16), 1.0)
    exact, exact_lse = attended(*(x.double() for x in inputs), tree_mask(end), 1.0)
    assert_near(out, exact)
    torch.testing.assert_close(lse.double(), exact_lse, rtol=1e-5, atol=1e-5)
