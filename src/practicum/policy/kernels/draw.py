"""Drawing one token a row from logits over a large vocabulary, on the device.

Sums of probabilities are kept in float64, so that the token drawn is the one that the same uniform
number gives in exact arithmetic, but for numbers within rounding of a boundary.
"""

import torch
import triton
import triton.language as tl

__all__ = ["draw"]

CHUNK = 4096
"""Columns of a row that one program sums up, and among which the token is then found."""


def draw(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    uniforms: torch.Tensor,
    greedy: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw from softmax(logits / temperature) by inverting its cumulative sum in index order.

    A token of probability 0 is never drawn, and a row that is not a number gives a log-probability
    that is not a number.

    Args:
        logits: (B, V), contiguous rows.
        temperature: (B,) float32, each above 0.
        uniforms: (B,) in [0, 1).
        greedy: (B,) bool; where true, the first largest logit is taken, with log-probability 0.

    Returns:
        Tokens (B,) int64, and their log-probabilities (B,) float32.
    """
    rows, width = logits.shape
    chunks = triton.cdiv(width, CHUNK)
    device = logits.device
    tops = torch.empty((rows, chunks), dtype=torch.float32, device=device)
    sums = torch.empty((rows, chunks), dtype=torch.float64, device=device)
    tokens = torch.empty((rows,), dtype=torch.int64, device=device)
    logprobs = torch.empty((rows,), dtype=torch.float32, device=device)
    stride = logits.stride(0)
    _sum_chunks[(rows, chunks)](
        logits, temperature, tops, sums, stride, WIDTH=width, CHUNK=CHUNK, num_warps=8
    )
    _pick_tokens[(rows,)](
        logits,
        temperature,
        uniforms,
        temperature if greedy is None else greedy.view(torch.uint8),
        tops,
        sums,
        tokens,
        logprobs,
        stride,
        WIDTH=width,
        CHUNK=CHUNK,
        CHUNKS=chunks,
        CHUNKS_PADDED=triton.next_power_of_2(chunks),
        HAS_GREEDY=greedy is not None,
        num_warps=8,
    )
    return tokens, logprobs


@triton.jit
def _finite(top: tl.tensor) -> tl.tensor:
    """A largest logit to subtract; where all are minus infinity, nothing is subtracted."""
    return tl.where(top == float("-inf"), 0.0, top)


@triton.jit
def _sum_chunks(
    logits: tl.tensor,
    temperature: tl.tensor,
    tops: tl.tensor,
    sums: tl.tensor,
    stride: tl.tensor,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
) -> None:
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = column < WIDTH
    x = tl.load(logits + row * stride + column, mask=inside, other=float("-inf")).to(tl.float32)
    top = tl.max(x, 0)
    p = tl.exp((x - _finite(top)) * (1.0 / tl.load(temperature + row)))
    place = row * tl.num_programs(1) + chunk
    tl.store(tops + place, top)
    tl.store(sums + place, tl.sum(p.to(tl.float64), 0))


@triton.jit
def _first_beyond(
    cumulative: tl.tensor, mass: tl.tensor, target: tl.tensor, index: tl.tensor
) -> tl.tensor:
    """The first index whose cumulative mass is beyond the target, or the last that has any mass.

    A parallel cumulative sum need not grow in step with its terms, so those without mass are left
    out by name.
    """
    some = mass > 0.0
    none = 2147483647
    first = tl.min(tl.where(some & (cumulative > target), index, none), 0)
    last = tl.max(tl.where(some, index, 0), 0)
    return tl.where(first == none, last, first)


@triton.jit
def _pick_tokens(  # noqa: PLR0913
    logits: tl.tensor,
    temperature: tl.tensor,
    uniforms: tl.tensor,
    greedy: tl.tensor,
    tops: tl.tensor,
    sums: tl.tensor,
    tokens: tl.tensor,
    logprobs: tl.tensor,
    stride: tl.tensor,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
    CHUNKS_PADDED: tl.constexpr,
    HAS_GREEDY: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    coldness = 1.0 / tl.load(temperature + row)
    index = tl.arange(0, CHUNKS_PADDED)
    inside = index < CHUNKS
    top = tl.load(tops + row * CHUNKS + index, mask=inside, other=float("-inf"))
    part = tl.load(sums + row * CHUNKS + index, mask=inside, other=0.0)
    highest = tl.max(top, 0)
    shrink = tl.exp((top - _finite(highest)) * coldness).to(tl.float64)
    mass = part * shrink
    total = tl.sum(mass, 0)
    target = tl.load(uniforms + row).to(tl.float64) * total
    chunk = _first_beyond(tl.cumsum(mass, 0), mass, target, index)
    takes_top = False
    if HAS_GREEDY:
        takes_top = tl.load(greedy + row) != 0
        chunk = tl.where(takes_top, tl.min(tl.where(top == highest, index, CHUNKS), 0), chunk)
        chunk = tl.minimum(chunk, CHUNKS - 1)

    column = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = column < WIDTH
    x = tl.load(logits + row * stride + column, mask=inside, other=float("-inf")).to(tl.float32)
    here = index == chunk
    before = tl.sum(tl.where(index < chunk, mass, 0.0), 0)
    own_top = tl.max(tl.where(here, top, float("-inf")), 0)
    own_shrink = tl.sum(tl.where(here, shrink, 0.0), 0)
    p = tl.exp((x - _finite(own_top)) * coldness).to(tl.float64)
    token = _first_beyond(tl.cumsum(p, 0), p, (target - before) / own_shrink, column)
    if HAS_GREEDY:
        token = tl.where(takes_top, tl.min(tl.where(x == own_top, column, WIDTH - 1), 0), token)
    token = tl.minimum(token, WIDTH - 1)
    chosen = tl.max(tl.where(column == token, x, float("-inf")), 0)
    logprob = (chosen - highest) * coldness - tl.log(total.to(tl.float32))
    tl.store(tokens + row, token.to(tl.int64))
    # Zero where the top is taken, but not a number where the row is none.
    tl.store(logprobs + row, tl.where(takes_top, logprob - logprob, logprob))
