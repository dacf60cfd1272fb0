import pytest
import torch
from tests.unit.engine.kernels.plain import KINDS, apart_rows, assert_near, numbers
from torch.nn.functional import silu

pytest.importorskip("triton", reason="the kernels need Triton, which is not installed here")

from practicum.engine.kernels.triton_elementwise import silu_mul, silu_mul_backward

pytestmark = pytest.mark.rare  # interpreted where there is no GPU, which takes long

SHAPES = [(1, 8), (130, 100), (3, 4864)]


def plain(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, -1)
    return silu(gate) * up


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "width"), SHAPES)
def test_the_gate_opens_as_silu_does(rows: int, width: int, kind: torch.dtype) -> None:
    gate_up = apart_rows(rows, 2 * width, kind=kind) * 4
    exact = plain(gate_up.double())
    assert_near(silu_mul(gate_up), exact)
    out = apart_rows(rows, width, kind=kind)
    assert silu_mul(gate_up, out) is out
    assert_near(out, exact)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "width"), SHAPES)
def test_the_gradient_is_autograds_and_the_activation_comes_along(
    rows: int, width: int, kind: torch.dtype
) -> None:
    gate_up, grad = apart_rows(rows, 2 * width, kind=kind), apart_rows(rows, width, kind=kind)
    leaf = gate_up.double().requires_grad_()
    exact = plain(leaf)
    exact.backward(grad.double())
    ours, act = silu_mul_backward(grad, gate_up)
    assert_near(ours, leaf.grad)
    assert_near(act, exact.detach())


def test_gates_far_from_zero_give_numbers() -> None:
    gate_up = numbers(2, 64).sign() * 80
    for found in (silu_mul(gate_up), *silu_mul_backward(gate_up[:, :32], gate_up)):
        assert found.isfinite().all()
