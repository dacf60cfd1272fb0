import pytest
import torch
from tests.unit.engine.kernels.plain import DEVICE, KINDS, numbers

pytest.importorskip("triton", reason="the kernels need Triton, which is not installed here")

from practicum.engine.kernels.logits_kernels import draw

pytestmark = pytest.mark.rare  # interpreted where there is no GPU, which takes long

WIDTHS = [1, 1000, 4096, 49152 + 3]


def on(values: list[float], kind: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=kind, device=DEVICE)


def log_softmax(logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.double() / temperature.double()[:, None], -1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number_kind", [torch.float64, torch.float32])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_token_is_the_first_whose_cumulative_probability_exceeds_the_number(
    width: int, number_kind: torch.dtype, kind: torch.dtype
) -> None:
    logits = 2 * numbers(5, width, kind=kind)
    temperature = on([0.3, 0.7, 1.0, 1.5, 5.0])
    uniforms = torch.rand(5, generator=torch.Generator().manual_seed(width), dtype=number_kind)
    uniforms = uniforms.to(DEVICE)
    tokens, logprobs = draw(logits, temperature, uniforms)
    log_p = log_softmax(logits, temperature)
    cumulative = log_p.exp().cumsum(-1)
    expected = torch.searchsorted(cumulative, uniforms.double()[:, None], right=True)
    assert tokens.tolist() == expected[:, 0].tolist()
    exact = log_p.gather(1, tokens[:, None])[:, 0]
    torch.testing.assert_close(logprobs.double(), exact, rtol=1e-5, atol=1e-5)


def test_tokens_come_as_often_as_they_should() -> None:
    count = 40
    logits, heat = numbers(1, 6).repeat(count, 1), torch.full((count,), 0.8, device=DEVICE)
    uniforms = (torch.arange(count, dtype=torch.float64, device=DEVICE) + 0.5) / count
    tokens, _ = draw(logits, heat, uniforms)
    shares = torch.bincount(tokens, minlength=6).double() / count
    p = log_softmax(logits[:1], heat[:1]).exp()[0]
    assert float((shares - p).abs().max()) <= 1 / count


@pytest.mark.parametrize("width", [1000, 9000])
def test_a_token_of_probability_zero_is_never_drawn(width: int) -> None:
    logits = torch.full((4, width), -torch.inf, device=DEVICE)
    logits[:, 700], logits[:, 800] = 1.0, 1.0
    almost_one = 1.0 - 2.0**-53
    uniforms = on([0.0, 0.25, 0.75, almost_one], torch.float64)
    tokens, logprobs = draw(logits, on([1.0, 0.1, 3.0, 1.0]), uniforms)
    assert tokens.tolist() == [700, 700, 800, 800]
    torch.testing.assert_close(logprobs, torch.full_like(logprobs, 0.5).log())


def test_a_number_that_rounds_to_the_total_draws_the_last_possible_token() -> None:
    logits = numbers(3, 9001)
    logits[:, 8000:] = -torch.inf
    almost_one = 1.0 - 2.0**-53
    tokens, logprobs = draw(logits, on([1.0, 1.0, 1.0]), on([almost_one, 1.0, 1.5], torch.float64))
    assert tokens.tolist() == [7999] * 3
    assert logprobs.isfinite().all()


def test_a_greedy_row_takes_its_first_largest_logit_for_certain() -> None:
    logits = numbers(3, 9000)
    logits[0, [50, 5000]] = 9.0
    logits[1, [4096, 8999]] = 9.0
    greedy = torch.tensor([True, True, False], device=DEVICE)
    uniforms = on([0.9, 0.1, 0.5], torch.float64)
    tokens, logprobs = draw(logits, on([1.0, 2.0, 1.0]), uniforms, greedy)
    drawn, drawn_logprobs = draw(logits, on([1.0, 2.0, 1.0]), uniforms)
    assert tokens.tolist() == [50, 4096, int(drawn[2])]
    assert logprobs.tolist() == [0.0, 0.0, float(drawn_logprobs[2])]


def test_nearly_equal_logits_are_told_apart_at_any_temperature() -> None:
    logits = torch.zeros(1, 300, device=DEVICE)
    logits[0, 200] = 1e-7
    tokens, _ = draw(logits, on([1e6]), on([0.0]), torch.tensor([True], device=DEVICE))
    assert tokens.tolist() == [200]


@pytest.mark.parametrize("is_greedy", [False, True])
def test_a_row_that_is_no_number_says_so_and_still_gives_a_token(is_greedy: bool) -> None:
    logits = numbers(2, 5000)
    logits[0, 4500] = torch.nan
    greedy = torch.tensor([is_greedy, is_greedy], device=DEVICE)
    tokens, logprobs = draw(logits, on([1.0, 1.0]), on([0.5, 0.5]), greedy)
    assert 0 <= int(tokens[0]) < 5000
    assert logprobs.isnan().tolist() == [True, False]


def test_logits_far_apart_do_not_overflow() -> None:
    logits = torch.tensor([[-1e38, 0.0, 1e38, 1e30]], device=DEVICE)
    tokens, logprobs = draw(logits, on([1.0]), on([0.3]))
    assert (tokens.tolist(), logprobs.tolist()) == ([2], [0.0])
