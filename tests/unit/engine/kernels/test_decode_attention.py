import pytest
import torch
from tests.unit.engine.kernels.plain import (
    DEVICE,
    KINDS,
    apart_rows,
    assert_near,
    attended,
    numbers,
)

pytest.importorskip("triton", reason="the kernels need Triton, which is not installed here")

from practicum.engine.kernels.decode_attention import decode_attention

pytestmark = pytest.mark.rare  # interpreted where there is no GPU, which takes long

CAPACITY = 90


def table_of(rows: int, width: int, seed: int = 0) -> torch.Tensor:
    """Slots with repetitions, as shared beginnings have them."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randint(0, CAPACITY, (rows, width), generator=generator, dtype=torch.int32)
    table[1:, : width // 2] = table[:1, : width // 2]
    return table.to(DEVICE)


def exact(
    q: torch.Tensor,
    pool: torch.Tensor,
    table: torch.Tensor,
    lengths: list[int],
    scale: float,
) -> torch.Tensor:
    """Row by row."""
    found = []
    for row, length in enumerate(lengths):
        k, v = pool[:, table[row, :length].long()].double()
        everything = torch.ones(1, length, dtype=torch.bool, device=DEVICE)
        found.append(attended(q[row : row + 1].double(), k, v, everything, scale)[0])
    return torch.cat(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splits", [None, 1])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "depth"), [(2, 2, 64), (6, 2, 80), (7, 1, 64), (8, 1, 128), (34, 2, 16)]
)
def test_each_row_attends_to_the_slots_of_its_table(
    heads: int, kv_heads: int, depth: int, splits: int | None, kind: torch.dtype
) -> None:
    lengths = [1, 65, 200]
    q = apart_rows(3, heads, depth, kind=kind)
    pool = numbers(2, CAPACITY, kv_heads, depth, kind=kind, seed=1)
    table = table_of(3, 200)
    at = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)
    ours = decode_attention(q, *pool, table, at, 0.2, splits)
    assert_near(ours, exact(q, pool, table, lengths, 0.2))


def test_nothing_beyond_a_rows_length_is_looked_at() -> None:
    q, pool = numbers(2, 4, 32), numbers(2, CAPACITY, 2, 32, seed=1)
    table = table_of(2, 150)
    table[0, 70:], table[1, 3:] = 2**30, -(2**30)  # reading there would fail, or give other numbers
    at = torch.tensor([70, 3], dtype=torch.int32, device=DEVICE)
    for splits in (1, 3):
        ours = decode_attention(q, *pool, table, at, 0.3, splits)
        assert_near(ours, exact(q, pool, table, [70, 3], 0.3))


def test_one_call_serves_all_lengths_of_the_same_buffers() -> None:
    q, pool = numbers(1, 4, 32), numbers(2, CAPACITY, 2, 32, seed=1)
    table, at = table_of(1, 300), torch.ones(1, dtype=torch.int32, device=DEVICE)
    for length in (1, 63, 150, 300):
        at.fill_(length)
        ours = decode_attention(q, *pool, table, at, 0.3, splits=4)
        assert_near(ours, exact(q, pool, table, [length], 0.3))


@pytest.mark.parametrize("splits", [1, 3])
def test_rows_may_be_written_into_longer_ones(splits: int) -> None:
    q, pool = numbers(3, 4, 32), numbers(2, CAPACITY, 2, 32, seed=1)
    table, at = table_of(3, 200), torch.tensor([200, 5, 90], dtype=torch.int32, device=DEVICE)
    out = apart_rows(3, 4, 32, kind=torch.float32)
    assert decode_attention(q, *pool, table, at, 0.3, splits, out) is out
    assert torch.equal(out, decode_attention(q, *pool, table, at, 0.3, splits))


def test_large_scores_do_not_overflow() -> None:
    q, pool = numbers(2, 4, 32) * 100, numbers(2, CAPACITY, 2, 32, seed=1) * 100
    table, at = table_of(2, 100), torch.tensor([100, 100], dtype=torch.int32, device=DEVICE)
    assert_near(decode_attention(q, *pool, table, at, 1.0), exact(q, pool, table, [100, 100], 1.0))
