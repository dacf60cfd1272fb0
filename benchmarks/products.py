"""The products of one decoding step on a CPU: packed for MKL, packed for oneDNN, and plain.

    python benchmarks/products.py --rows 1 8 64
    python benchmarks/products.py --layers 24 --hidden 896 --middle 4864 --joined 1152

Every layer has weights of its own, as in a model, so that they come from memory; `read` is the time
to add them all up once. The ways alternate; medians of the rounds, in milliseconds.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import linear

from practicum.engine.compute_thread import computed, pin_threads
from practicum.engine.decoder import layers as products

Way = Callable[[torch.Tensor], torch.Tensor]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 16, 64])
    parser.add_argument("--layers", type=int, default=30, help="as many as SmolLM2-135M has")
    parser.add_argument("--hidden", type=int, default=576)
    parser.add_argument("--middle", type=int, default=1536, help="of the gated part")
    parser.add_argument("--joined", type=int, default=960, help="queries, keys and values")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def packed(weights: list[torch.Tensor], *, by_mkl: bool) -> list[Way]:
    """Each weight as a function, packed by one library or the other."""
    prefers_mkl = products._prefers_mkl
    products._prefers_mkl = lambda: by_mkl
    try:
        return [products.packed_linear(weight, None) for weight in weights]
    finally:
        products._prefers_mkl = prefers_mkl


def plain(weights: list[torch.Tensor]) -> list[Way]:
    """Each weight as it is."""
    return [lambda x, weight=weight: linear(x, weight) for weight in weights]  # type: ignore[misc]


@computed
def measure(args: argparse.Namespace, rows: int) -> dict[str, float]:
    """Milliseconds of all layers' products, by way."""
    shapes = [
        (args.joined, args.hidden),
        (args.hidden, args.hidden),
        (2 * args.middle, args.hidden),
        (args.hidden, args.middle),
    ]
    weights = [torch.randn(shape) for _ in range(args.layers) for shape in shapes]
    ways = {"onednn": packed(weights, by_mkl=False), "plain": plain(weights)}
    if products._has_mkl():
        ways = {"mkl": packed(weights, by_mkl=True), **ways}
    inputs = {size: torch.randn(rows, size) for size in (args.hidden, args.middle)}
    times: dict[str, list[float]] = {}
    for _ in range(args.rounds + 1):
        for name, of_weights in ways.items():
            began = time.perf_counter()
            for weight, product in zip(weights, of_weights, strict=True):
                product(inputs[weight.shape[1]])
            times.setdefault(name, []).append(time.perf_counter() - began)
        began = time.perf_counter()
        for weight in weights:
            weight.sum()
        times.setdefault("read", []).append(time.perf_counter() - began)
    return {name: 1e3 * statistics.median(found[1:]) for name, found in times.items()}


def main() -> None:
    """A row for each number of rows."""
    args = arguments()
    pin_threads(args.threads)
    found = {rows: measure(args, rows) for rows in args.rows}
    table = Table("rows", *next(iter(found.values())))
    for rows, times in found.items():
        table.add_row(str(rows), *(f"{value:.1f}" for value in times.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
