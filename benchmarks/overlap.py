"""Strict steps against overlapped ones, where tools take unevenly long.

    python benchmarks/overlap.py
    python benchmarks/overlap.py --median 0.3 --sigma 1.2 --staleness 1 2 4 --seeds 0 1 2

Trains the tiny model on `math` with the same seeds and settings but for `rollouts.staleness`: a
short imitation, then GRPO. Every turn of a training episode takes a while, drawn from a lognormal
distribution by the seed, the task and the turn, as a tool's answer would. Held-out tasks are
answered at once.

Episodes per second are those of the GRPO steps alone, all of which are learned from. The demo's bar
is a lower bound of held-out success of 0.8. `difference` is the final success less that of the
strict loop, task by task, with an interval.
"""

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
import torch

from practicum.assemble.build_policy import build_policy
from practicum.assemble.driver import create_run, trainer_for
from practicum.assemble.environments import open_environment
from practicum.core.checkpoint import EvalReport
from practicum.core.config.parse_config import build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.task import Task
from practicum.evaluation.compare import compare_reports

BAR = 0.8
"""Lower bound of held-out success that the demo has to reach."""

NOTED = ("staleness_mean", "staleness_max", "present_share", "truncated_share", "clip_share")
WAITS = ("rollout_s", "groups_s", "groups_waited_s", "pause_s", "update_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long a turn takes: exp(normal(log median, sigma)) seconds."""

    median: float
    sigma: float
    seed: int

    def of_episode(self, task: Task, opened: int) -> Iterator[float]:
        """One number for each turn."""
        name = f"{self.seed}/{task.id}/{opened}".encode()
        rng = np.random.default_rng(list(hashlib.blake2b(name, digest_size=16).digest()))
        while True:
            yield float(self.median * np.exp(self.sigma * rng.standard_normal()))


class SlowSession:
    """A session whose turns take a while."""

    def __init__(self, session: Any, waits: Iterator[float]) -> None:
        self._session, self._waits = session, waits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def act(self, text: str) -> Any:
        """Wait, then act."""
        await asyncio.sleep(next(self._waits))
        return await self._session.act(text)


class SlowEnvironment:
    """An environment in which training takes a while; held-out tasks do not."""

    def __init__(self, environment: Any, latency: Latency) -> None:
        self._environment, self._latency = environment, latency
        self._opened: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    @asynccontextmanager
    async def open(self, task: Task) -> Any:
        """A session of the environment's own, slowed down."""
        opened = self._opened[task.id] = self._opened.get(task.id, 0) + 1
        async with self._environment.open(task) as session:
            if task.split == "train":
                session = SlowSession(session, self._latency.of_episode(task, opened))
            yield session


@dataclass(slots=True, kw_only=True)
class Watch:
    """Times the steps of the last stage."""

    first: int
    began: float = 0.0
    ended: float = 0.0
    rows: list[dict[str, Any]] = field(default_factory=list)

    def step_started(self, step: int, episodes: int) -> None:
        """The clock starts with the stage."""
        if step == self.first:
            self.began = time.monotonic()

    def step_done(self, step: int, metrics: dict[str, Any]) -> None:
        """The clock stops with the last step."""
        print(f"step {step}", end="\r", file=sys.stderr, flush=True)
        if step >= self.first:
            self.ended = time.monotonic()
            self.rows.append(metrics)

    def mean(self, key: str) -> float | None:
        """Over the steps that know it."""
        values = [row[key] for row in self.rows if row.get(key) is not None]
        return fmean(values) if values else None

    def __getattr__(self, name: str) -> Any:
        """All else that an observer is told is of no interest."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run."""

    staleness: int
    seed: int
    episodes: int
    seconds: float
    success: float
    low: float
    high: float
    reaches_bar: bool
    figures: dict[str, float | None]

    @property
    def rate(self) -> float:
        """Episodes per second."""
        return self.episodes / self.seconds


def config_of(args: argparse.Namespace, staleness: int, seed: int, folder: str) -> RunConfig:
    """The run, which is the same for every staleness."""
    imitation = {
        "steps": args.warm,
        "algorithm": {"name": "sft", "lr": 3e-3, "batch": 16},
        "data": {"source": "reference", "n": 64},
    }
    return build_config(
        {
            "env": {"name": "math", "level": 1},
            "model": {"name": args.model, "device": args.device},
            "seed": seed,
            "runs_dir": folder,
            "stages": [
                imitation,
                {"steps": args.steps, "algorithm": {"name": "grpo", "lr": args.lr}},
            ],
            "rollouts": {
                "tasks_per_step": args.tasks,
                "group_size": args.group,
                "max_turns": 6,
                "temperature": 1.0,
                "staleness": staleness,
            },
            "eval": {"n": args.heldout, "before": False},
            "hardware": {"threads": args.threads},
        }
    )


def train(args: argparse.Namespace, staleness: int, seed: int) -> tuple[Outcome, EvalReport]:
    """One run, and its last evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(args, staleness, seed, folder)
        latency = Latency(median=args.median, sigma=args.sigma, seed=seed)
        environment: Any = SlowEnvironment(open_environment(config.env), latency)
        watch = Watch(first=args.warm + 1)
        observer: Any = watch
        policy, run = build_policy(config), create_run(config, "run")
        with run.hold(), trainer_for(config, run, policy, observer, environment) as trainer:
            result = asyncio.run(trainer.run())
    report = result.reports[config.steps]
    outcome = Outcome(
        staleness=staleness,
        seed=seed,
        episodes=sum(row["episodes"] for row in watch.rows),
        seconds=watch.ended - watch.began,
        success=report.success.value,
        low=report.success.low,
        high=report.success.high,
        reaches_bar=report.success.low >= BAR,
        figures={key: watch.mean(key) for key in (*NOTED, *WAITS)},
    )
    return outcome, report


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Every staleness with every seed, beside the strict loop with that seed."""
    rows = []
    for seed in args.seeds:
        strict, strict_report = train(args, 0, seed)
        rows.append({**asdict(strict), "rate": strict.rate, "speedup": 1.0, "difference": None})
        for staleness in args.staleness:
            found, report = train(args, staleness, seed)
            change = compare_reports(report, strict_report).success_difference
            rows.append(
                {
                    **asdict(found),
                    "rate": found.rate,
                    "speedup": found.rate / strict.rate,
                    "difference": [change.value, change.low, change.high],
                }
            )
    return rows


def show(rows: Sequence[dict[str, Any]]) -> None:
    """A line for each run."""
    print("seed  staleness  episodes/s  speed-up  held-out success    bar  difference")
    for row in rows:
        change = row["difference"]
        apart = "" if change is None else f"{change[0]:+.2f} ({change[1]:+.2f}..{change[2]:+.2f})"
        print(
            f"{row['seed']:4}  {row['staleness']:9}  {row['rate']:10.1f}  {row['speedup']:7.2f}x  "
            f"{row['success']:.2f} ({row['low']:.2f}..{row['high']:.2f})  "
            f"{'yes' if row['reaches_bar'] else 'no':>3}  {apart}"
        )
    for row in rows:
        known = [f"{k} {v:.3f}" for k, v in row["figures"].items() if v is not None]
        print(f"seed {row['seed']}, staleness {row['staleness']}: {', '.join(known)}")


def arguments() -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--staleness", type=int, nargs="+", default=[2])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--median", type=float, default=0.15, help="seconds that a turn takes")
    parser.add_argument("--sigma", type=float, default=1.0, help="how uneven they are")
    parser.add_argument("--warm", type=int, default=60, help="steps of imitation")
    parser.add_argument("--lr", type=float, default=3e-4, help="of GRPO")
    parser.add_argument("--steps", type=int, default=40, help="steps of GRPO")
    parser.add_argument("--tasks", type=int, default=8, help="groups of a step")
    parser.add_argument("--group", type=int, default=8, help="episodes of a group")
    parser.add_argument("--heldout", type=int, default=100)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    """1 where a run stays below the bar, or an overlapped one gains less than 1.3 x."""
    args = arguments()
    rows = measure(args)
    if args.json:
        print(json.dumps({"threads": torch.get_num_threads(), "rows": rows}))
    else:
        show(rows)
    fast = all(row["speedup"] >= 1.3 for row in rows if row["staleness"])
    return 0 if fast and all(row["reaches_bar"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
