"""Attention over parts of what is seen, against attention written out."""

import pytest
import torch

from practicum.engine.decoder import attention as block_attention
from practicum.engine.decoder.attention import attend, attend_in_batch, merged

SCALE = 0.3


def written_out(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """In float64, query by query."""
    scores = SCALE * (query.double() @ key.double().transpose(-2, -1))
    scores = scores if mask is None else scores + mask.double()
    return torch.softmax(scores, -1) @ value.double(), torch.logsumexp(scores, -1)


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=["fused", "products"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to attend on this machine: devices other than CPUs use products."""
    if request.param == "products":
        by_products = block_attention._attend_by_products
        monkeypatch.setattr(block_attention, "attend_in_batch", by_products)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("queries", "seen"), [(1, 1), (7, 5), (40, 130)])
def test_a_block_attends_as_written_out(queries: int, seen: int) -> None:
    query = drawn(3, queries, 16, seed=0)
    key, value = drawn(3, seen, 16, seed=1), drawn(3, seen, 16, seed=2)
    for found, expected in zip(
        attend(query, key, value, None, SCALE), written_out(query, key, value, None), strict=True
    ):
        assert torch.allclose(found.double(), expected, atol=1e-6)


@pytest.mark.usefixtures("way")
def test_parts_joined_are_the_whole() -> None:
    """A trunk that all see, and after it keys of which each query sees some."""
    query = drawn(2, 3, 11, 16, seed=3)
    trunk, after = (
        (drawn(2, 3, size, 16, seed=size), drawn(2, 3, size, 16, seed=size + 1)) for size in (50, 9)
    )
    mask = torch.where(drawn(2, 1, 11, 9, seed=5) > 0, -torch.inf, 0.0)
    mask[..., 0] = 0.0
    joined, log_sum = merged(
        block_attention.attend_in_batch(query, *trunk, None, SCALE),
        block_attention.attend_in_batch(query, *after, mask, SCALE),
    )
    key, value = (torch.cat([t, a], 2) for t, a in zip(trunk, after, strict=True))
    whole = torch.cat([torch.zeros(2, 1, 11, 50), mask], -1)
    expected, expected_sum = written_out(query, key, value, whole)
    assert torch.allclose(joined.double(), expected, atol=1e-6)
    assert torch.allclose(log_sum.double(), expected_sum, atol=1e-6)


def test_products_and_the_fused_operation_agree_under_a_mask() -> None:
    query, key, value = (drawn(2, 3, size, 8, seed=size) for size in (6, 20, 20))
    mask = torch.where(drawn(2, 1, 6, 20, seed=9) > 1, -torch.inf, 0.0)
    fused = attend_in_batch(query, key, value, mask, SCALE)
    products = block_attention._attend_by_products(query, key, value, mask, SCALE)
    for one, other in zip(fused, products, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
