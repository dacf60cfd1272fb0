"""How often the interval over seeds and tasks covers the truth, and how often equal studies differ.

Simulates studies: each seed and each task moves the log-odds of success by a normal draw, every
seed tries the same held-out tasks once, and the true mean success over all seeds and tasks there
could be is known. `success_interval` and `difference_interval` are those of `practicum compare`.

    python benchmarks/seed_coverage.py --studies 1000
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from practicum.evaluation.over_seeds import difference_interval, success_interval

Array = npt.NDArray[np.float64]
Generator = np.random.Generator

SEEDS = (3, 5, 10)
TASKS = (30, 100)
SUCCESS = (0.5, 0.8, 0.95)
SEED_SPREADS = (0.3, 1.0)
"""Standard deviation of the log-odds over seeds: of success around 0.5, about 0.07 and 0.2."""
TASK_SPREADS = (0.0, 1.5)
COLLAPSE = 0.2
"""Share of seeds that never solve a task, in the studies that no interval can do right by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A kind of study."""

    seeds: int
    tasks: int
    success: float
    seed_spread: float
    task_spread: float

    @property
    def centre(self) -> float:
        """Log-odds of a middling seed at a middling task."""
        return _centre(self.success, math.hypot(self.seed_spread, self.task_spread))

    def draw(self, task_ease: Array, rng: Generator) -> Array:
        """One study's successes, (S, T), on tasks of this ease, (T,)."""
        by_seed = rng.normal(size=(self.seeds, 1)) * self.seed_spread
        odds = self.centre + by_seed + self.task_spread * task_ease[None, :]
        return (rng.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(np.float64)


@cache
def _centre(success: float, spread: float) -> float:
    """Log-odds whose mean success under a normal spread is this, by bisection."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(101)
    low, high = -40.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        mean = (weights / (1 + np.exp(-middle - spread * nodes))).sum() / weights.sum()
        low, high = (middle, high) if mean < success else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a number of studies of one kind came to."""

    what: str
    seeds: int
    tasks: int | None
    success: float | None
    seed_spread: float | None
    task_spread: float | None
    covered: float
    below: float
    """Share of studies whose whole interval is above the truth."""
    above: float
    called: float
    """Share of comparisons of two equal studies that call a difference."""
    width: float


def study_row(what: str, worlds: list[World], studies: int, rng: Generator) -> Row:
    """So many studies, each of a kind drawn from `worlds`, and as many comparisons of equals."""
    below = above = called = 0
    width = 0.0
    for _ in range(studies):
        world = worlds[int(rng.integers(len(worlds)))]
        ease = rng.normal(size=world.tasks)
        ours, theirs = world.draw(ease, rng), world.draw(ease, rng)
        found = success_interval(ours)
        below += world.success < found.low
        above += world.success > found.high
        width += found.high - found.low
        difference = difference_interval(ours, theirs)
        called += not difference.low <= 0 <= difference.high
    one = worlds[0] if len(worlds) == 1 else None
    return Row(
        what=what,
        seeds=worlds[0].seeds,
        tasks=one.tasks if one else None,
        success=one.success if one else None,
        seed_spread=one.seed_spread if one else None,
        task_spread=one.task_spread if one else None,
        covered=1 - (below + above) / studies,
        below=below / studies,
        above=above / studies,
        called=called / studies,
        width=width / studies,
    )


def collapse_row(seeds: int, tasks: int, studies: int, rng: Generator) -> Row:
    """Seeds that solve nearly all, but for some that solve nothing."""
    truth, below, above, width = 0.97 * (1 - COLLAPSE), 0, 0, 0.0
    for _ in range(studies):
        chance = np.where(rng.random((seeds, 1)) < COLLAPSE, 0.0, 0.97)
        found = success_interval((rng.random((seeds, tasks)) < chance).astype(np.float64))
        below += truth < found.low
        above += truth > found.high
        width += found.high - found.low
    return Row(
        what="collapse",
        seeds=seeds,
        tasks=tasks,
        success=truth,
        seed_spread=None,
        task_spread=None,
        covered=1 - (below + above) / studies,
        below=below / studies,
        above=above / studies,
        called=math.nan,
        width=width / studies,
    )


def worlds_of(seeds: int) -> list[World]:
    """Every kind of study with so many seeds."""
    return [
        World(seeds=seeds, tasks=n, success=share, seed_spread=of_seeds, task_spread=of_tasks)
        for n in TASKS
        for share in SUCCESS
        for of_seeds in SEED_SPREADS
        for of_tasks in TASK_SPREADS
    ]


def simulate(studies: int, seed: int) -> Iterator[Row]:
    """A row for each kind of study, one for a mix of all, one where seeds collapse."""
    rng = np.random.default_rng(seed)
    for seeds in SEEDS:
        yield study_row("mixed", worlds_of(seeds), studies, rng)
    for seeds in SEEDS:
        for world in worlds_of(seeds):
            yield study_row("one kind", [world], studies, rng)
    for seeds in SEEDS:
        yield collapse_row(seeds, 100, studies, rng)


def markdown(rows: list[Row]) -> str:
    """The tables of docs/studies.md."""
    heads = "studies | covered | truth below | truth above | A/A called | width"
    lines = [f"| {heads} |", "|" + "---|" * 6]
    for row in rows:
        if row.what != "one kind":
            kind = "all kinds mixed" if row.what == "mixed" else f"{COLLAPSE:.0%} of seeds collapse"
            called = "" if math.isnan(row.called) else f"{row.called:.3f}"
            lines.append(
                f"| {row.seeds} seeds, {kind} | {row.covered:.3f} | {row.below:.3f} | "
                f"{row.above:.3f} | {called} | {row.width:.2f} |"
            )
    kinds = [row for row in rows if row.what == "one kind"]
    columns = [f"{share:g}, seeds {spread:g}" for share in SUCCESS for spread in SEED_SPREADS]
    lines += ["", "| covered (A/A called) | " + " | ".join(columns) + " |", "|" + "---|" * 7]
    for seeds in SEEDS:
        for n in TASKS:
            for of_tasks in TASK_SPREADS:
                found = [
                    f"{row.covered:.3f} ({row.called:.3f})"
                    for row in kinds
                    if (row.seeds, row.tasks, row.task_spread) == (seeds, n, of_tasks)
                ]
                head = f"{seeds} seeds, {n} tasks of spread {of_tasks:g}"
                lines.append(f"| {head} | " + " | ".join(found) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--studies", type=int, default=1000, help="simulated studies a row")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    started = time.perf_counter()
    rows = list(simulate(arguments.studies, arguments.seed))
    seconds = time.perf_counter() - started
    if arguments.json:
        values = [{k: None if v != v else v for k, v in asdict(row).items()} for row in rows]
        print(json.dumps({"studies": arguments.studies, "seconds": seconds, "rows": values}))
        return
    print(markdown(rows))
    kinds = [row for row in rows if row.what == "one kind"]
    within = sum(0.93 <= row.covered <= 0.97 for row in kinds)
    print(
        f"\n{arguments.studies} studies a row, {seconds:.0f} s: over all kinds covered "
        f"{np.mean([row.covered for row in kinds]):.3f}, called "
        f"{np.mean([row.called for row in kinds]):.3f}; {within} of {len(kinds)} kinds within "
        f"0.93 to 0.97, from {min(row.covered for row in kinds):.3f} to "
        f"{max(row.covered for row in kinds):.3f}; most calls {max(r.called for r in kinds):.3f}"
    )


if __name__ == "__main__":
    main()
