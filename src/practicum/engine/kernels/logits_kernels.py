"""Over a large vocabulary: log-probabilities of chosen tokens, and drawing one token a row.

Sums of probabilities are kept in float64, so that the token drawn is the one that the same uniform
number gives in exact arithmetic, but for numbers within rounding of a boundary.
"""

import torch
import triton
import triton.language as tl

BLOCK = 4096
"""Columns of a row that are looked at together."""


def pick(
    logits: torch.Tensor, target: torch.Tensor, temperature: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of each row's target under softmax(logits / temperature), and the entropy.

    `logits` is overwritten with the gradient of the log-probabilities with respect to it, which is
    (onehot(target) - softmax) / temperature.

    Args:
        logits: (n, V), contiguous rows; overwritten.
        target: (n,) columns.
        temperature: (n,) float32, each above 0.

    Returns:
        Log-probabilities and entropies, both (n,) float32.
    """
    rows, width = logits.shape
    logprobs = torch.empty((rows,), dtype=torch.float32, device=logits.device)
    entropies = torch.empty_like(logprobs)
    _pick[(rows,)](
        logits,
        target,
        temperature,
        logprobs,
        entropies,
        logits.stride(0),
        WIDTH=width,
        BLOCK=min(BLOCK, triton.next_power_of_2(width)),
        num_warps=16,
    )
    return logprobs, entropies


@triton.jit
def _pick(
    logits: tl.tensor,
    target: tl.tensor,
    temperature: tl.tensor,
    logprobs: tl.tensor,
    entropies: tl.tensor,
    stride: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    coldness = 1.0 / tl.load(temperature + row)
    lane = tl.arange(0, BLOCK)

    # Each lane keeps a maximum and sums of its own: no lane waits for another until the end.
    top = tl.full([BLOCK], -1e30, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)  # of exp(x - top)
    moment = tl.zeros([BLOCK], tl.float32)  # of exp(x - top) * (x - top)
    for start in tl.range(0, WIDTH, BLOCK, num_stages=4):
        column = start + lane
        x = tl.load(logits + column, mask=column < WIDTH, other=float("-inf")).to(tl.float32)
        rise = x * coldness - top
        rise = tl.where(rise < -1e30, -1e30, rise)  # minus infinity times 0 is not a number
        small = tl.exp(-tl.abs(rise))
        is_new = rise > 0.0
        moment = tl.where(is_new, small * (moment - rise * total), moment + small * rise)
        total = tl.where(is_new, small * total + 1.0, total + small)
        top = tl.where(is_new, x * coldness, top)
    highest = tl.max(top, 0)
    shrink, fall = tl.exp(top - highest), top - highest
    moment_sum = tl.sum(shrink * (moment + fall * total), 0)
    sum_all = tl.sum(shrink * total, 0)
    log_sum = tl.log(sum_all)
    tl.store(entropies + row, log_sum - moment_sum / sum_all)

    chosen = tl.load(target + row).to(tl.int32)
    found = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, WIDTH, BLOCK, num_stages=4):
        column = start + lane
        inside = column < WIDTH
        x = tl.load(logits + column, mask=inside, other=float("-inf")).to(tl.float32) * coldness
        hit = column == chosen
        found += tl.where(hit, x - highest, 0.0)
        slope = tl.where(hit, 1.0, 0.0) - tl.exp(x - highest - log_sum)
        tl.store(logits + column, (slope * coldness).to(logits.dtype.element_ty), mask=inside)
    tl.store(logprobs + row, tl.sum(found, 0) - log_sum)


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
