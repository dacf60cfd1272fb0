"""How often the 95 % intervals of an evaluation cover the truth.

Simulates whole evaluations of policies whose true scores are known, and counts how often each
reported interval holds the truth; and compares policies with themselves, to count how often a
difference is called where there is none.

    python benchmarks/coverage.py --evaluations 2000
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from practicum.core.checkpoint import EvalReport, Interval, TaskResult
from practicum.evaluation.compare import compare_reports, is_difference
from practicum.evaluation.report import build_report

Array = npt.NDArray[np.float64]
Generator = np.random.Generator

SUCCESS_REWARD = 8.5
FAILURE_REWARDS = (-4.0, -2.0, 1.5, 3.5)
FAILURE_SHARES = (0.3, 0.3, 0.2, 0.2)
MISTAKES = 0.5
"""Mean number of mistakes in a solved episode; each costs 0.5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One simulated case: a share of the evaluations, and what it is the share of."""

    case: str
    tasks: int
    attempts: int
    what: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy by the chance that it solves a task; the chance differs between tasks.

    `spread` is 0 when every task is equally hard and near 1 when a task is always or never solved.
    """

    success: float
    spread: float

    def chances(self, ranks: Array) -> Array:
        """The chance at each task, given how easy the task is (0 to 1, uniform).

        Two policies that share the ranks find the same tasks hard.
        """
        if self.spread == 0:
            return np.full(ranks.shape, self.success)
        return np.asarray(np.interp(ranks, *_population(self.success, self.spread)))

    def mean(self) -> float:
        """The true success share."""
        return float(self.chances((np.arange(200_000) + 0.5) / 200_000).mean())


@cache
def _population(success: float, spread: float) -> tuple[Array, Array]:
    """Ranks and the chance of success at each: quantiles of a beta distribution, by drawing."""
    scale = 1 / spread - 1
    draws = np.random.default_rng(7).beta(success * scale, (1 - success) * scale, size=20_000)
    return np.linspace(0, 1, draws.size), np.sort(draws)


def reward_mean(success: float) -> float:
    """True mean reward of a policy with this success share."""
    failed = sum(r * s for r, s in zip(FAILURE_REWARDS, FAILURE_SHARES, strict=True))
    return success * (SUCCESS_REWARD - 0.5 * MISTAKES) + (1 - success) * failed


def draw_results(policy: Policy, ranks: Array, attempts: int, rng: Generator) -> list[TaskResult]:
    """One evaluation: skewed, discrete rewards that hang on success, as in `math`."""
    shape = (ranks.size, attempts)
    solved = rng.random(shape) < policy.chances(ranks)[:, None]
    mistakes = rng.poisson(MISTAKES, size=shape)
    failed = rng.choice(FAILURE_REWARDS, p=FAILURE_SHARES, size=shape)
    rewards = np.where(solved, SUCCESS_REWARD - 0.5 * mistakes, failed)
    return [
        TaskResult(task_id=str(i), level=1, successes=tuple(s), rewards=tuple(r))
        for i, (s, r) in enumerate(zip(solved.tolist(), rewards.tolist(), strict=True))
    ]


def evaluate(policy: Policy, ranks: Array, attempts: int, rng: Generator) -> EvalReport:
    """One report, as the command line would make it."""
    results = draw_results(policy, ranks, attempts, rng)
    return build_report(results, policy="p", env="simulated", fingerprint="", seed=0)


def holds(interval: Interval, truth: float) -> bool:
    """Whether the interval covers the truth; rounding at a bound is no miss."""
    return interval.low - 1e-9 <= truth <= interval.high + 1e-9


def report_rows(policy: Policy, tasks: int, attempts: int, runs: int) -> Iterator[Row]:
    """Coverage of every interval of a report."""
    rng = np.random.default_rng([tasks, attempts, int(1000 * policy.success)])
    truth = policy.mean()
    at_k = float(1 - np.mean((1 - policy.chances((np.arange(20_000) + 0.5) / 20_000)) ** 2))
    checks: dict[str, Callable[[EvalReport], bool]] = {
        "success covered": lambda r: holds(r.success, truth),
        "mean reward covered": lambda r: holds(r.reward, reward_mean(truth)),
    }
    if attempts > 1:
        checks["pass@2 covered"] = lambda r: holds(r.pass_at_k[2], at_k)
    hits = dict.fromkeys(checks, 0)
    for _ in range(runs):
        report = evaluate(policy, rng.random(tasks), attempts, rng)
        for name, check in checks.items():
            hits[name] += check(report)
    case = f"success {policy.success:g}, spread {policy.spread:g}"
    for name, count in hits.items():
        yield Row(case=case, tasks=tasks, attempts=attempts, what=name, share=count / runs)


def pair_rows(before: Policy, after: Policy, tasks: int, attempts: int, runs: int) -> Iterator[Row]:
    """Coverage of a paired comparison; where the policies are equal, false alarms instead."""
    rng = np.random.default_rng([tasks, attempts, int(1000 * after.success), 1])
    truth = after.mean() - before.mean()
    paid = reward_mean(after.mean()) - reward_mean(before.mean())
    success = reward = alarms = reward_alarms = 0
    for _ in range(runs):
        ranks = rng.random(tasks)
        comparison = compare_reports(
            evaluate(after, ranks, attempts, rng), evaluate(before, ranks, attempts, rng)
        )
        success += holds(comparison.success_difference, truth)
        reward += holds(comparison.reward_difference, paid)
        alarms += is_difference(comparison)
        reward_alarms += not holds(comparison.reward_difference, 0.0)
    if before == after:
        case = f"A/A, success {after.success:g}, spread {after.spread:g}"
        figures = {"difference called": alarms, "reward difference called": reward_alarms}
    else:
        case = f"success {before.success:g} to {after.success:g}, spread {after.spread:g}"
        figures = {"success difference covered": success, "reward difference covered": reward}
    for what, count in figures.items():
        yield Row(case=case, tasks=tasks, attempts=attempts, what=what, share=count / runs)


def simulate(runs: int) -> Iterator[Row]:
    """Every case of the table."""
    for tenth in range(1, 10):
        yield from report_rows(Policy(success=tenth / 10, spread=0.0), 100, 1, runs)
    for tasks, attempts, success in ((30, 1, 0.6), (50, 1, 0.3), (30, 4, 0.6), (100, 4, 0.8)):
        yield from report_rows(Policy(success=success, spread=0.5), tasks, attempts, runs)
    for tasks, attempts, low, high in ((100, 1, 0.2, 0.9), (50, 1, 0.5, 0.7), (50, 4, 0.3, 0.5)):
        before, after = Policy(success=low, spread=0.5), Policy(success=high, spread=0.5)
        yield from pair_rows(before, after, tasks, attempts, runs)
    for tasks, attempts, success, spread in (
        (100, 1, 0.6, 0.5),
        (30, 1, 0.9, 0.8),
        (100, 1, 0.5, 0.0),
        (50, 4, 0.6, 0.5),
    ):
        policy = Policy(success=success, spread=spread)
        yield from pair_rows(policy, policy, tasks, attempts, runs)


def render(rows: list[Row], runs: int) -> Table:
    table = Table(title=f"{runs} simulated evaluations a case", title_justify="left")
    for heading in ("policy", "tasks", "attempts", "what", "share"):
        table.add_column(heading, justify="right" if heading in ("tasks", "attempts") else "left")
    for row in rows:
        table.add_row(row.case, str(row.tasks), str(row.attempts), row.what, f"{row.share:.3f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--evaluations", type=int, default=2000, help="simulated runs a case")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    started = time.perf_counter()
    rows = list(simulate(arguments.evaluations))
    seconds = time.perf_counter() - started
    if arguments.json:
        result = {"evaluations": arguments.evaluations, "seconds": seconds}
        print(json.dumps({**result, "rows": [asdict(row) for row in rows]}))
        return
    console = Console()
    console.print(render(rows, arguments.evaluations))
    console.print(f"{seconds:.0f} s")


if __name__ == "__main__":
    main()
