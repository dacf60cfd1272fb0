"""The kernels compiled, at the sizes of real models, against float64 on the same device."""

from typing import Any

import pytest
import torch
from tests.unit.engine.kernels.plain import (
    KINDS,
    apart_rows,
    assert_near,
    attended,
    numbers,
    random_ends,
    rms_norm,
    rotated,
    tables,
    tree_mask,
)

pytestmark = pytest.mark.gpu

if torch.cuda.is_available():  # Triton is not to be loaded where the kernels will be interpreted
    from practicum.engine.kernels.decode_attention import decode_attention
    from practicum.engine.kernels.logits_kernels import draw, pick
    from practicum.engine.kernels.norm_kernels import (
        add_rms_norm,
        head_rms_norm,
        head_rms_norm_backward,
        rms_norm_backward,
    )
    from practicum.engine.kernels.rotary_kernels import rotate, rotate_store
    from practicum.engine.kernels.tree_tiles import TreeBlocks
    from practicum.engine.kernels.triton_elementwise import silu_mul, silu_mul_backward
    from practicum.engine.kernels.triton_tree_attention import tree_backward, tree_forward

CASES = [
    (14, 2, 64, torch.float32),
    (14, 2, 64, torch.bfloat16),
    (28, 4, 128, torch.float32),
    (28, 4, 128, torch.bfloat16),
    (24, 8, 80, torch.bfloat16),
]
"""Heads, key heads, depth and type: of models of 0.5 and 7 billion parameters, and an odd depth."""

EPS = 1e-6


def whole(low: int, high: int, *shape: int, kind: torch.dtype = torch.int64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(high)
    return torch.randint(low, high, shape, generator=generator, dtype=kind).cuda()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "width"), [(64, 896), (4096, 3584), (3, 16384)])
def test_norms_forward_and_backward(rows: int, width: int, kind: torch.dtype) -> None:
    x, residual, grad, add = (apart_rows(rows, width, kind=kind, seed=s) for s in range(4))
    weight = numbers(width, kind=kind, seed=5)
    normed, total = add_rms_norm(x, weight, EPS, residual)
    assert torch.equal(total, x + residual)
    leaf = total.double().requires_grad_()
    exact = rms_norm(leaf, weight.double(), EPS)
    assert_near(normed, exact.detach(), roundings=2)
    exact.backward(grad.double())
    assert_near(rms_norm_backward(grad, total, weight, EPS, add), leaf.grad + add.double())


@pytest.mark.parametrize(("heads", "kv_heads", "depth", "kind"), CASES)
def test_head_norms_and_rotations(heads: int, kv_heads: int, depth: int, kind: torch.dtype) -> None:
    x, grad = (apart_rows(3000, heads, depth, kind=kind, seed=s) for s in range(2))
    weight = numbers(depth, kind=kind, seed=2)
    leaf = x.double().requires_grad_()
    exact = rms_norm(leaf, weight.double(), EPS)
    exact.backward(grad.double())
    assert_near(head_rms_norm(x, weight, EPS), exact.detach(), roundings=2)
    assert_near(head_rms_norm_backward(grad, x, weight, EPS), leaf.grad)
    (cos, sin), at = tables(4000, depth), whole(0, 4000, 3000)
    assert_near(rotate(x, cos, sin, at), rotated(x.double(), cos[at], sin[at]))
    turned_back = rotated(x.double(), cos[at], -sin[at])
    assert_near(rotate(x, cos, sin, at, inverse=True, out=x), turned_back)


@pytest.mark.parametrize("tokens", [64, 3000])
@pytest.mark.parametrize(("heads", "kv_heads", "depth", "kind"), CASES)
def test_rotations_into_the_pool(
    tokens: int, heads: int, kv_heads: int, depth: int, kind: torch.dtype
) -> None:
    qkv = apart_rows(tokens, (heads + 2 * kv_heads) * depth, kind=kind)
    (cos, sin), at = tables(4000, depth), whole(0, 4000, tokens)
    slots = torch.randperm(5000, device="cuda")[:tokens]
    keys, values = torch.full((2, 5000, kv_heads, depth), torch.nan, device="cuda", dtype=kind)
    query = rotate_store(qkv, cos, sin, at, slots, keys, values)
    q, k, v = qkv.view(tokens, -1, depth).split([heads, kv_heads, kv_heads], 1)
    assert_near(query, rotated(q.double(), cos[at], sin[at]))
    assert_near(keys[slots], rotated(k.double(), cos[at], sin[at]))
    assert torch.equal(values[slots], v)
    assert int(keys.isnan().sum()) == int(values.isnan().sum()) == keys.numel() - k.numel()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "width"), [(64, 4864), (1000, 18944)])
def test_gates_forward_and_backward(rows: int, width: int, kind: torch.dtype) -> None:
    gate_up, grad = numbers(rows, 2 * width, kind=kind), numbers(rows, width, kind=kind)
    leaf = gate_up.double().requires_grad_()
    gate, up = leaf.chunk(2, -1)
    exact = torch.nn.functional.silu(gate) * up
    exact.backward(grad.double())
    ours, act = silu_mul_backward(grad, gate_up)
    assert_near(silu_mul(gate_up), exact.detach())
    assert_near(act, exact.detach())
    assert_near(ours, leaf.grad)


def exact_rows(q: torch.Tensor, pool: Any, table: torch.Tensor, lengths: torch.Tensor) -> Any:
    found = []
    for row, length in enumerate(lengths.tolist()):
        k, v = (x[table[row, :length].long()].double() for x in pool)
        everything = torch.ones(1, length, dtype=torch.bool, device="cuda")
        found.append(attended(q[row : row + 1].double(), k, v, everything, 0.1)[0])
    return torch.cat(found)


@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize(("heads", "kv_heads", "depth", "kind"), CASES)
def test_decoding_over_a_cache(
    rows: int, heads: int, kv_heads: int, depth: int, kind: torch.dtype
) -> None:
    q = apart_rows(rows, heads, depth, kind=kind)
    pool = numbers(2, 30000, kv_heads, depth, kind=kind)
    table, lengths = whole(0, 30000, rows, 1500, kind=torch.int32), whole(1, 1501, rows)
    for splits in (None, 1):
        ours = decode_attention(q, *pool, table, lengths.int(), 0.1, splits)
        assert_near(ours, exact_rows(q, pool, table, lengths), roundings=3)


def test_decoding_beyond_two_thousand_million_numbers() -> None:
    capacity, kind = 4_400_000, torch.bfloat16  # times 4 heads of 128: more than 2**31
    pool = [torch.zeros(capacity, 4, 128, dtype=kind, device="cuda") for _ in range(2)]
    slots = torch.arange(capacity - 200, capacity, device="cuda")
    (cos, sin), at = tables(300, 128), torch.arange(200, device="cuda")
    qkv = numbers(200, 36 * 128, kind=kind)
    q = rotate_store(qkv, cos, sin, at, slots, *pool)
    table, lengths = slots.int().expand(200, 200).contiguous(), at.int() + 1
    ours = decode_attention(q, *pool, table, lengths, 0.1)
    assert_near(ours, exact_rows(q, pool, table, lengths), roundings=3)


@pytest.mark.parametrize("kind", KINDS)
def test_drawing_over_a_large_vocabulary(kind: torch.dtype) -> None:
    logits, heat = 3 * numbers(64, 151936, kind=kind), torch.linspace(0.3, 2.0, 64).cuda()
    uniforms = torch.rand(64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    greedy = (torch.arange(64) % 4 == 0).cuda()
    tokens, logprobs = draw(logits, heat, uniforms.cuda(), greedy)
    log_p = torch.log_softmax(logits.double() / heat.double()[:, None], -1)
    drawn = torch.searchsorted(log_p.exp().cumsum(-1), uniforms.cuda()[:, None], right=True)[:, 0]
    assert tokens.tolist() == torch.where(greedy, logits.argmax(-1), drawn).tolist()
    exact = log_p.gather(1, tokens[:, None])[:, 0].masked_fill(greedy, 0.0)
    torch.testing.assert_close(logprobs.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [152064, 49152 + 3])
def test_picking_and_its_slopes(width: int, kind: torch.dtype) -> None:
    logits, target = 3 * numbers(200, width, kind=kind), whole(0, width, 200)
    heat = torch.linspace(0.3, 2.0, 200).cuda()
    leaf = logits.double().requires_grad_()
    log_p = torch.log_softmax(leaf / heat.double()[:, None], -1)
    exact = log_p.gather(1, target[:, None])[:, 0]
    exact.sum().backward()
    spread = -(log_p.exp() * log_p).sum(-1)
    logprobs, entropies = pick(logits, target, heat)
    torch.testing.assert_close(logprobs.double(), exact.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropies.double(), spread.detach(), rtol=1e-5, atol=1e-5)
    assert_near(logits, leaf.grad)


@pytest.mark.parametrize("chance", [0.0, 0.003, 0.05])
@pytest.mark.parametrize(("heads", "kv_heads", "depth", "kind"), CASES)
def test_trees_forward_and_backward(
    heads: int, kv_heads: int, depth: int, chance: float, kind: torch.dtype
) -> None:
    count, scale = 1500 + 3, depth**-0.5
    end = random_ends(count, seed=depth, chance=chance)
    blocks = TreeBlocks.of(end)
    rows = numbers(count, (heads + 2 * kv_heads) * depth, kind=kind)
    inputs = rows.view(count, -1, depth).split([heads, kv_heads, kv_heads], 1)
    grad = numbers(count, heads, depth, kind=kind, seed=5)
    out, lse = tree_forward(*inputs, blocks, scale)
    grads = tree_backward(grad, *inputs, out, lse, blocks, scale)
    leaves = [x.double().requires_grad_() for x in inputs]
    exact, exact_lse = attended(*leaves, tree_mask(end), scale)
    exact.backward(grad.double())
    assert_near(out, exact.detach(), roundings=3)
    torch.testing.assert_close(lse.double(), exact_lse.detach(), rtol=1e-5, atol=1e-5)
    of = grads.split([x.shape[1] for x in inputs], dim=1)
    for ours, leaf in zip(of, leaves, strict=True):
        assert_near(ours, leaf.grad, roundings=3)


def test_the_same_tree_gives_the_same_bits_with_its_trunk_shared_out() -> None:
    end = random_ends(6000, seed=1, chance=0.02)
    end[:200] = 6000
    blocks = TreeBlocks.of(end)
    assert blocks.share_count > 1
    inputs = numbers(6000, 36, 128, kind=torch.bfloat16).split([28, 4, 4], 1)
    out, lse = tree_forward(*inputs, blocks, 0.1)
    first, second = (tree_backward(out, *inputs, out, lse, blocks, 0.1) for _ in range(2))
    assert torch.equal(first, second)
    moved = TreeBlocks.of(end.cpu()).to(end.device)
    assert torch.equal(first, tree_backward(out, *inputs, out, lse, moved, 0.1))


def test_a_captured_step_follows_what_its_buffers_hold() -> None:
    kind, rows = torch.bfloat16, 8
    x, weight, qkv = (numbers(*s, kind=kind) for s in ((rows, 896), (896,), (rows, 18 * 64)))
    keys, values = numbers(2, 600 * rows, 2, 64, kind=kind)
    (cos, sin), at = tables(600, 64), torch.zeros(rows, dtype=torch.int64, device="cuda")
    table = torch.randperm(600 * rows, device="cuda").int().view(rows, 600)
    logits = numbers(rows, 50000)
    heat, uniforms = torch.ones(rows, device="cuda"), torch.zeros(rows, device="cuda")

    def step() -> tuple[torch.Tensor, ...]:
        slots, lengths = table.gather(1, at[:, None])[:, 0], (at + 1).int()
        query = rotate_store(qkv, cos, sin, at, slots, keys, values)
        attention = decode_attention(query, keys, values, table, lengths, 0.1)
        return (attention, *add_rms_norm(x, weight, EPS, x), *draw(logits, heat, uniforms))

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for position in (0, 70, 599):
        at.fill_(position)
        uniforms.fill_(position / 600)
        graph.replay()
        replayed = [found.clone() for found in captured]
        assert all(torch.equal(a, b) for a, b in zip(replayed, step(), strict=True))
