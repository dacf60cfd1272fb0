import random

import pytest
import torch
from tests.unit.engine.families import build_pair
from torch.nn.functional import scaled_dot_product_attention

from practicum.engine.decoder.tree_attention import TreePlan

FAMILIES = ["Llama", "Qwen2", "Qwen3", "Granite", "Cohere", "Gemma2"]


def random_tree(chance: random.Random, rows: int) -> list[tuple[int, ...]]:
    """Rows, sorted, that begin alike."""
    paths = {tuple(chance.randrange(3) for _ in range(chance.randrange(1, 9))) for _ in range(rows)}
    return sorted(paths)


def lay_out(rows: list[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], list[int]]:
    """The prefixes of all rows in depth-first order, and where the subtree of each one ends."""
    prefixes = sorted({row[: i + 1] for row in rows for i in range(len(row))})
    ends = [
        1 + max(k for k, other in enumerate(prefixes) if other[: len(prefix)] == prefix)
        for prefix in prefixes
    ]
    return prefixes, ends


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("block", [1, 5, 128])
def test_a_tree_gives_each_token_the_states_of_its_own_row(family: str, block: int) -> None:
    ours, stock = build_pair(family)
    prefixes, ends = lay_out(random_tree(random.Random(block), rows=12))
    output = ours.base_model(
        input_ids=torch.tensor([[prefix[-1] for prefix in prefixes]]),
        position_ids=torch.tensor([[len(prefix) - 1 for prefix in prefixes]]),
        use_cache=False,
        plan=TreePlan.of(torch.tensor(ends), block),
    )
    logits = ours.lm_head(output.last_hidden_state[0])
    for i, prefix in enumerate(prefixes):
        states = stock.base_model(input_ids=torch.tensor([prefix]), use_cache=False)
        expected = stock.lm_head(states.last_hidden_state[0, -1])
        torch.testing.assert_close(logits[i], expected, rtol=0, atol=2e-5)


def test_a_trees_longest_path_is_its_depth() -> None:
    for seed in range(10):
        prefixes, ends = lay_out(random_tree(random.Random(seed), rows=9))
        plan = TreePlan.of(torch.tensor(ends), block=4)
        assert plan.longest_path() == max(map(len, prefixes))


def dense(
    ends: list[int], query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    """The stock attention under the whole mask: j <= i and i < end[j]."""
    index, end = torch.arange(len(ends)), torch.tensor(ends)
    visible = (index[None] <= index[:, None]) & (index[:, None] < end[None])
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    out = scaled_dot_product_attention(query, key, value, attn_mask=visible, scale=scale)
    return out.transpose(1, 2)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("block", [1, 3, 8, 128])
@pytest.mark.parametrize("span", [1, 64])
@pytest.mark.parametrize("seed", range(3))
def test_outputs_and_gradients_are_those_of_dense_attention(
    seed: int, span: int, block: int, kv_heads: int
) -> None:
    _, ends = lay_out(random_tree(random.Random(seed), rows=25))
    plan = TreePlan.of(torch.tensor(ends), block, span)
    assert plan.leaves or span > 1
    assert_dense(plan, ends, kv_heads, seed)


@pytest.mark.parametrize("lengths", [(9,) * 6, (1, 60, 17, 64, 5, 33, 2, 20, 40, 13, 18, 35), (3,)])
@pytest.mark.parametrize("kv_heads", [1, 4])
def test_short_branches_of_a_long_trunk_are_attended_to_together(
    kv_heads: int, lengths: tuple[int, ...]
) -> None:
    rows = [(0,) * 70 + (branch + 1,) * length for branch, length in enumerate(lengths)]
    _, ends = lay_out(rows)
    plan = TreePlan.of(torch.tensor(ends))
    together = {int(token) for leaves in plan.leaves for token in leaves.tokens}
    few = {length for length in lengths if sum(_alike(length, other) for other in lengths) < 4}
    assert len(together) == sum(length for length in lengths if length not in few)
    assert_dense(plan, ends, kv_heads, seed=0)


def _alike(one: int, other: int) -> bool:
    """Whether two branches are padded to the same length."""
    edges = (16, 32, 64)
    return [one > edge for edge in edges] == [other > edge for edge in edges]


def assert_dense(plan: TreePlan, ends: list[int], kv_heads: int, seed: int) -> None:
    """Outputs and gradients are those of the stock attention."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(1, heads, len(ends), 8) for heads in (4, kv_heads, kv_heads)]
    inputs = [torch.randn(s, generator=generator).requires_grad_() for s in shapes]
    weight = torch.randn((1, len(ends), 4, 8), generator=generator)
    ours = plan.attend(0, *inputs, scale=0.3)
    theirs = dense(ends, *inputs, scale=0.3)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    gradients = [torch.autograd.grad((x * weight).sum(), inputs) for x in (ours, theirs)]
    for mine, reference in zip(*gradients, strict=True):
        apart = (mine - reference).norm() / reference.norm()
        assert float(apart) <= 1e-6


def test_a_lone_row_is_plain_causal_attention() -> None:
    rows = [tuple(range(300))]
    _, ends = lay_out(rows)
    inputs = [torch.randn(1, 2, 300, 4) for _ in range(3)]
    ours = TreePlan.of(torch.tensor(ends)).attend(0, *inputs, scale=0.5)
    causal = scaled_dot_product_attention(*inputs, is_causal=True, scale=0.5)
    torch.testing.assert_close(ours, causal.transpose(1, 2), rtol=0, atol=1e-5)
