"""What the hardware allows: its measured copy and matrix rates.

    python benchmarks/roofline.py --device cuda --dtype bfloat16

A copy's rate counts bytes read and bytes written. A matrix product of n by n counts 2 n^3.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch
from cases import Case, ModelSize, arguments
from race import wait
from report import describe, show

from practicum.engine.compute_thread import computed, pin_threads

__all__ = ["Rates", "decode_seconds", "measure_rates", "prefill_seconds", "update_seconds"]

BUDGET_S = 1.0
"""Spent on each of the two rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The best of many tries."""

    copy_gb_s: float
    matrix_tflop_s: float


@cache
@computed
def measure_rates(device: str, dtype: str) -> Rates:
    """The device's rates at a precision; measured once in a process."""
    precision = getattr(torch, dtype)
    is_cuda = device.startswith("cuda")
    return Rates(
        copy_gb_s=_copy_rate(2 << 30 if is_cuda else 128 << 20, precision, device) / 1e9,
        matrix_tflop_s=_matrix_rate(8192 if is_cuda else 1024, precision, device) / 1e12,
    )


def _copy_rate(size_bytes: int, precision: torch.dtype, device: str) -> float:
    source = torch.ones(size_bytes // precision.itemsize, dtype=precision, device=device)
    target = torch.empty_like(source)
    return 2 * size_bytes / _fastest(lambda: target.copy_(source), device)


def _matrix_rate(side: int, precision: torch.dtype, device: str) -> float:
    left, right = torch.randn((2, side, side), device=device).to(precision)
    product = torch.empty_like(left)
    return 2 * side**3 / _fastest(lambda: torch.mm(left, right, out=product), device)


def _fastest(act: Callable[[], Any], device: str) -> float:
    act()
    best, ends = float("inf"), time.perf_counter() + BUDGET_S
    while time.perf_counter() < ends:
        wait(device)
        began = time.perf_counter()
        act()
        wait(device)
        best = min(best, time.perf_counter() - began)
    return best


def update_flops(size: ModelSize, tokens: int) -> int:
    """Forward and backward through frozen layers, 2 each a parameter and token; no output layer."""
    return 4 * size.decoder * tokens


def update_seconds(size: ModelSize, tokens: int, rates: Rates) -> float:
    """What an update would take at the matrix rate."""
    return update_flops(size, tokens) / (1e12 * rates.matrix_tflop_s)


def prefill_seconds(size: ModelSize, tokens: int, rates: Rates) -> float:
    """What prompts of so many different tokens would take at the matrix rate."""
    return 2 * size.decoder * tokens / (1e12 * rates.matrix_tflop_s)


def decode_seconds(size: ModelSize, rows: int, length: float, rates: Rates) -> float:
    """What one step would take: reading weights and every row's cache, or multiplying if longer."""
    weights = size.decoder + size.head
    read = (weights + rows * length * size.kv_numbers) * size.bytes_a_number
    multiplied = 2 * weights * rows
    return max(read / (1e9 * rates.copy_gb_s), multiplied / (1e12 * rates.matrix_tflop_s))


def main() -> None:
    args = arguments(__doc__.split("\n")[0]).parse_args()
    pin_threads(args.threads)
    case = Case.of(args)
    rates = measure_rates(case.device, case.dtype)
    lines = [
        ("rate", "measured"),
        ("copy", f"{rates.copy_gb_s:,.1f} GB/s"),
        ("matrix product", f"{rates.matrix_tflop_s:,.3f} TFLOP/s"),
    ]
    show({**describe(case), **asdict(rates)}, args, lines)


if __name__ == "__main__":
    main()
