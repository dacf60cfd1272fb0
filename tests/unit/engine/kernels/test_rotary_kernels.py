import pytest
import torch
from tests.unit.engine.kernels.plain import (
    DEVICE,
    KINDS,
    apart_rows,
    assert_near,
    numbers,
    rotated,
    tables,
)

pytest.importorskip("triton", reason="the kernels need Triton, which is not installed here")

from practicum.engine.kernels import rotary_kernels as rotary
from practicum.engine.kernels.rotary_kernels import rotate, rotate_store

SHAPES = [(1, 1, 64), (9, 7, 80), (5, 20, 128)]


def places(count: int, until: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(until, generator=generator)[:count].to(DEVICE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_heads_turn_by_the_angle_of_their_token(
    shape: tuple[int, int, int], kind: torch.dtype
) -> None:
    x, (cos, sin) = apart_rows(*shape, kind=kind), tables(600, shape[2])
    positions = places(shape[0], 600, seed=1)
    ours = rotate(x, cos, sin, positions)
    assert_near(ours, rotated(x.double(), cos[positions], sin[positions]))
    back = rotate(x, cos, sin, positions, inverse=True)
    assert_near(back, rotated(x.double(), cos[positions], -sin[positions]))
    rotate(x, cos, sin, positions, out=x)
    assert torch.equal(x, ours)


def test_how_many_heads_a_program_takes_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, (cos, sin), positions = numbers(4, 20, 32), tables(9, 32), places(4, 9, seed=1)
    few_tokens = rotate(x, cos, sin, positions)
    monkeypatch.setattr(rotary, "FEW_TOKENS", 4)
    assert torch.equal(rotate(x, cos, sin, positions), few_tokens)


def test_turning_back_is_the_gradient_of_turning() -> None:
    x, grad = (numbers(6, 2, 32, seed=s).double() for s in range(2))
    (cos, sin), positions = tables(40, 32), places(6, 40, seed=2)
    leaf = x.requires_grad_()
    rotated(leaf, cos[positions], sin[positions]).backward(grad)
    assert_near(rotate(grad.float(), cos, sin, positions, inverse=True), leaf.grad)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("tokens", "heads", "kv_heads", "depth"),
    [(1, 1, 1, 64), (6, 14, 2, 64), (5, 3, 3, 80), (4, 8, 1, 128)],
)
def test_keys_and_values_go_to_their_slots_and_queries_come_back(
    tokens: int, heads: int, kv_heads: int, depth: int, kind: torch.dtype
) -> None:
    qkv = apart_rows(tokens, (heads + 2 * kv_heads) * depth, kind=kind)
    (cos, sin), positions = tables(700, depth), places(tokens, 700, seed=3)
    slots = places(tokens, tokens + 9, seed=4)
    before = numbers(2, tokens + 9, kv_heads, depth, kind=kind, seed=5)
    keys, values = before.clone()
    query = rotate_store(qkv, cos, sin, positions, slots, keys, values)

    q, k, v = qkv.view(tokens, -1, depth).split([heads, kv_heads, kv_heads], 1)
    at = cos[positions], sin[positions]
    assert_near(query, rotated(q.double(), *at))
    assert_near(keys[slots], rotated(k.double(), *at))
    assert torch.equal(values[slots], v)
    rest = torch.ones(tokens + 9, dtype=torch.bool, device=DEVICE)
    rest[slots] = False
    assert torch.equal(keys[rest], before[0, rest])
    assert torch.equal(values[rest], before[1, rest])
