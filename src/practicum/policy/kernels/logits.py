"""Log-probabilities of chosen tokens, and their gradient left in place of the logits."""

import torch
import triton
import triton.language as tl

__all__ = ["pick"]

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
