"""A step beside a program that never rests: how much of its speed is left.

    python benchmarks/busy.py --model llama-6m
    python benchmarks/busy.py --model smollm2-135m --prompt 350 --group 12 --completion 96
    python benchmarks/busy.py --model smollm2-135m --shapes 5

A laptop is always a little busy. Practicum and TRL take whole GRPO steps (`step.py` says which),
first alone on the machine and then beside `--loops` processes that only count. What is shown are
medians over the rounds. `--shapes` takes steps of sizes drawn at random instead, alone.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cases import Case, arguments
from report import describe, seconds_text, show
from step import measure as measure_step
from update import work_arguments

from practicum.engine.compute_thread import pin_threads

__all__ = ["measure"]

SHAPES_SEED = 19
PEER_TOKENS = 6_000
"""Tokens of rows that TRL pads and keeps at once; at 40,000 it was killed on 24 GiB."""
LOOP = "while True: pass"
SETTLE_S = 1.0
"""How long the scheduler has to spread the loops over the cores before anything is timed."""


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Processes that each want a core for themselves."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        time.sleep(SETTLE_S)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def measure(case: Case, loops: int) -> dict[str, Any]:
    """Seconds of each side and stage, alone and beside the loops."""
    quiet = measure_step(case)
    with busy_loops(loops):
        busy = measure_step(case)
    sides = busy["stages"].keys() & quiet["stages"]
    return {
        **describe(case),
        "loops": loops,
        "quiet": quiet["stages"],
        "busy": busy["stages"],
        "slowdown": {s: _ratios(busy["stages"][s], quiet["stages"][s]) for s in sorted(sides)},
        "trl_to_practicum": busy["ratio"].get("trl"),
        "left_out": {**quiet["left_out"], **busy["left_out"]},
    }


def _ratios(over: dict[str, float], under: dict[str, float]) -> dict[str, float]:
    return {stage: over[stage] / under[stage] for stage in ("sampling", "update", "total")}


def random_shapes(case: Case, count: int) -> list[Case]:
    """Cases whose sizes nobody chose, the same ones every time."""
    rng = random.Random(SHAPES_SEED)
    drawn = [
        replace(
            case,
            prompts=rng.randint(1, 3),
            prompt=rng.randint(40, 700),
            completion=rng.randint(16, 160),
            group=rng.randint(4, 16),
        )
        for _ in range(count)
    ]
    return [replace(shape, peer_batch=case.peer_batch or peer_rows(shape)) for shape in drawn]


def peer_rows(shape: Case) -> int:
    """Rows that TRL takes at a time: as many as divide the step and fit this machine's memory."""
    most = PEER_TOKENS // (shape.prompt + shape.completion)
    return max(n for n in range(1, max(2, most + 1)) if shape.episodes % n == 0)


def print_shapes(case: Case, args: argparse.Namespace) -> None:
    """Whole steps on random shapes, with nothing beside them."""
    found: dict[str, Any] = {**describe(case), "shapes": []}
    lines = [["prompts x group, prompt + completion", "practicum", "trl", "ratio"]]
    for shape in random_shapes(case, args.shapes):
        step = measure_step(shape)
        found["shapes"].append(step)
        print(f"{len(found['shapes'])} of {args.shapes} shapes", file=sys.stderr)
        name = f"{shape.prompts} x {shape.group}, {shape.prompt} + {shape.completion}"
        for side, why in step["left_out"].items():
            print(f"{side} was left out: {why}", file=sys.stderr)
        sides = [step["seconds"].get(side) for side in ("practicum", "trl")]
        totals = ["-" if side is None else seconds_text(side) for side in sides]
        ratio = step["ratio"].get("trl")
        lines.append([name, *totals, "-" if ratio is None else f"{ratio:.2f} x"])
    show(found, args, lines)


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__.split("\n")[0])
    work_arguments(parser)
    parser.add_argument("--loops", type=int, default=1, help="processes that only count")
    parser.add_argument("--shapes", type=int, default=0, help="instead: quiet, on so many shapes")
    args = parser.parse_args()
    case = Case.of(args)
    pin_threads(case.threads)
    if args.shapes:
        print_shapes(case, args)
        return
    found = measure(case, args.loops)
    lines = [["side", "stage", "alone", "beside", "slower"]]
    for side, stages in found["slowdown"].items():
        for stage, ratio in stages.items():
            times = [seconds_text(found[when][side][stage]) for when in ("quiet", "busy")]
            lines.append([side, stage, *times, f"{ratio:.2f} x"])
    show(found, args, lines)


if __name__ == "__main__":
    main()
