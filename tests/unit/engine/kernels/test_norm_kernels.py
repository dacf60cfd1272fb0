import pytest
import torch
from tests.unit.engine.kernels.plain import (
    DEVICE,
    KINDS,
    apart_rows,
    assert_near,
    numbers,
    rms_norm,
)

pytest.importorskip("triton", reason="the kernels need Triton, which is not installed here")

from practicum.engine.kernels.norm_kernels import (
    add_rms_norm,
    head_rms_norm,
    head_rms_norm_backward,
    rms_norm_backward,
)

pytestmark = pytest.mark.rare  # interpreted where there is no GPU, which takes long

EPS = 1e-5

ROWS = [(1, 64), (5, 896), (130, 100), (2, 5000)]
HEADS = [(1, 1, 64), (7, 3, 80), (40, 14, 16), (5, 4, 128)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ROWS)
def test_rows_are_normalised_as_llama_does_it(shape: tuple[int, int], kind: torch.dtype) -> None:
    x, weight = numbers(*shape, kind=kind), numbers(shape[1], kind=kind, seed=1)
    normed, total = add_rms_norm(x, weight, EPS)
    assert total is x
    assert_near(normed, rms_norm(x.double(), weight.double(), EPS), roundings=1.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ROWS)
def test_the_sum_with_the_residual_is_rounded_once_and_then_normalised(
    shape: tuple[int, int], kind: torch.dtype
) -> None:
    x, residual = (numbers(*shape, kind=kind, seed=s) for s in (0, 1))
    weight = numbers(shape[1], kind=kind, seed=2)
    normed, total = add_rms_norm(x, weight, EPS, residual)
    assert torch.equal(total, x + residual)
    assert_near(normed, rms_norm(total.double(), weight.double(), EPS), roundings=1.5)


def test_rows_that_are_apart_are_read_and_written_where_they_are() -> None:
    x, residual, out = (apart_rows(6, 96, kind=torch.float32, seed=s) for s in range(3))
    weight = numbers(96)
    normed, total = add_rms_norm(x, weight, EPS, residual, out=out)
    assert normed is out
    assert_near(out, rms_norm((x + residual).double(), weight.double(), EPS))
    assert torch.equal(total, x + residual)
    whole = out.as_strided((6, out.stride(0)), (out.stride(0), 1), 0)
    assert whole[:, :16].isnan().all()
    assert whole[:, 112:].isnan().all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("has_add", [False, True])
def test_the_gradient_of_rows_is_autograds(
    shape: tuple[int, int], kind: torch.dtype, has_add: bool
) -> None:
    x, grad, add = (apart_rows(*shape, kind=kind, seed=s) for s in range(3))
    weight = numbers(shape[1], kind=kind, seed=4)
    leaf = x.double().requires_grad_()
    rms_norm(leaf, weight.double(), EPS).backward(grad.double())
    assert leaf.grad is not None
    exact = leaf.grad + add.double() if has_add else leaf.grad
    assert_near(rms_norm_backward(grad, x, weight, EPS, add if has_add else None), exact)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", HEADS)
def test_each_head_is_normalised_by_itself(shape: tuple[int, int, int], kind: torch.dtype) -> None:
    x, weight = apart_rows(*shape, kind=kind), numbers(shape[2], kind=kind, seed=1)
    ours = head_rms_norm(x, weight, EPS)
    assert_near(ours, rms_norm(x.double(), weight.double(), EPS), roundings=1.5)
    head_rms_norm(x, weight, EPS, out=x)
    assert torch.equal(x, ours)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", HEADS)
def test_the_gradient_of_heads_is_autograds(shape: tuple[int, int, int], kind: torch.dtype) -> None:
    x, grad = (apart_rows(*shape, kind=kind, seed=s) for s in range(2))
    weight = numbers(shape[2], kind=kind, seed=2)
    leaf = x.double().requires_grad_()
    rms_norm(leaf, weight.double(), EPS).backward(grad.double())
    assert_near(head_rms_norm_backward(grad, x, weight, EPS), leaf.grad)


def test_a_row_of_zeros_stays_zero_and_has_a_finite_gradient() -> None:
    zeros, ones = torch.zeros(2, 64, device=DEVICE), torch.ones(64, device=DEVICE)
    assert torch.equal(add_rms_norm(zeros, ones, EPS)[0], zeros)
    grad = rms_norm_backward(zeros + 1, zeros, ones, EPS)
    torch.testing.assert_close(grad, torch.full_like(zeros, EPS**-0.5))
