import pytest
import torch
from tests.unit.engine.kernels.plain import DEVICE, KINDS, assert_near, numbers

pytest.importorskip("triton", reason="the kernels need Triton, which is not installed here")

from practicum.engine.kernels.logits_kernels import pick


def plain(
    logits: torch.Tensor, target: torch.Tensor, temperature: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probabilities, entropies, and autograd's gradient of the log-probabilities."""
    leaf = logits.double().requires_grad_()
    log_p = torch.log_softmax(leaf / temperature.double()[:, None], -1)
    logprobs = log_p.gather(1, target[:, None])[:, 0]
    logprobs.sum().backward()
    assert leaf.grad is not None
    spread = -(log_p.exp() * log_p.nan_to_num(neginf=0.0)).sum(-1)
    return logprobs.detach(), spread.detach(), leaf.grad


def targets(rows: int, width: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(width)
    return torch.randint(0, width, (rows,), generator=generator).to(DEVICE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 7), (20, 300), (4, 1000), (2, 49152 + 3)])
def test_logprobs_entropies_and_slopes_are_those_of_log_softmax(
    rows: int, width: int, kind: torch.dtype
) -> None:
    logits, target = 3 * numbers(rows, width, kind=kind), targets(rows, width)
    temperature = torch.linspace(0.3, 3.0, rows, device=DEVICE)
    exact = plain(logits, target, temperature)
    logprobs, entropies = pick(logits, target, temperature)
    for ours, wanted in zip((logprobs, entropies), exact, strict=False):
        torch.testing.assert_close(ours.double(), wanted, rtol=1e-5, atol=1e-5)
    assert_near(logits, exact[2])


def test_impossible_tokens_have_no_share_in_anything() -> None:
    logits = numbers(2, 6000)
    logits[0, :5000], logits[1, 1:] = -torch.inf, -torch.inf
    target = torch.tensor([5500, 0], device=DEVICE)
    exact = plain(logits, target, torch.ones(2, device=DEVICE))
    logprobs, entropies = pick(logits, target, torch.ones(2, device=DEVICE))
    torch.testing.assert_close(logprobs.double(), exact[0])
    torch.testing.assert_close(entropies.double(), exact[1], rtol=1e-5, atol=1e-6)
    assert (logits[0, :5000] == 0).all()
    torch.testing.assert_close(logits.double(), exact[2], rtol=1e-5, atol=1e-7)


def test_a_certain_token_has_no_slope_and_no_entropy() -> None:
    logits = torch.zeros(1, 100, device=DEVICE)
    logits[0, 42] = 1e4
    logprobs, entropies = pick(
        logits, torch.tensor([42], device=DEVICE), torch.ones(1, device=DEVICE)
    )
    assert (logprobs.item(), entropies.item(), logits.abs().max().item()) == (0.0, 0.0, 0.0)


def test_a_row_that_is_no_number_says_so() -> None:
    logits = numbers(2, 5000)
    logits[0, 3] = torch.nan
    target = torch.tensor([7, 7], device=DEVICE)
    logprobs, entropies = pick(logits, target, torch.ones(2, device=DEVICE))
    assert logprobs.isnan().tolist() == [True, False]
    assert entropies.isnan().tolist() == [True, False]
