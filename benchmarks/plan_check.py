"""What `practicum plan` predicts, beside what was measured: here, and by others.

    python benchmarks/plan_check.py workers
    python benchmarks/plan_check.py peers

`workers`: the tiny model trains on `math`, served by a process that has room for so many episodes
at once and whose every answer is waited for. A run with room for all of them calibrates the plan,
which then says the throughput with one and with two workers; both are measured too.

`peers`: step times that verl's developers have published (docs/advance/fully_async.md of
verl-project/verl, 5 February 2026): Qwen2.5-Math-7B on H20, 512 prompts of 16 answers of at most
28K tokens, mini-batches of 32 prompts. What is not published, how long answers were and how fast
the learner is, is chosen such that the smallest size of each table agrees; the others are
predicted. Exit code 1 where a throughput or a step misses its limit, 15 % and 30 %.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from overlap import Latency, SlowEnvironment, Watch

from practicum.assemble.build_policy import build_policy
from practicum.assemble.driver import create_run, trainer_for
from practicum.assemble.environments import open_environment
from practicum.core.config.parse_config import build_config
from practicum.engine.planning.cards import Card
from practicum.engine.planning.fleet_plan import CardModel, rates_of_run
from practicum.engine.planning.model_shapes import KNOWN_SHAPES
from practicum.engine.planning.simulation import (
    Fleet,
    LearnerRates,
    SamplerRates,
    Simulated,
    Work,
    simulate,
)

LIMITS = {"workers": 0.15, "peers": 0.30}


def train(args: argparse.Namespace, workers: int) -> list[dict[str, Any]]:
    """The steps of a run whose environment has so many episodes at once; the first warms up."""
    with tempfile.TemporaryDirectory() as folder:
        config = build_config(
            {
                "env": {"name": "remote", "serve": "math", "max_episodes": workers},
                "model": "tiny",
                "steps": args.steps + 1,
                "runs_dir": folder,
                "warm_start": "none",
                "algorithm": "grpo",
                "rollouts": {
                    "tasks_per_step": 2,
                    "group_size": args.group,
                    "max_turns": 3,
                    "max_tokens": 16,
                    "replace_flat_groups": 0,
                },
                "eval": {"n": 0, "before": False},
                "hardware": {"threads": 1},
            }
        )
        latency = Latency(median=args.wait, sigma=args.sigma, seed=0)
        environment: Any = SlowEnvironment(open_environment(config.env), latency)
        watch: Any = Watch(first=1)
        policy, run = build_policy(config), create_run(config, "run")
        with run.hold(), trainer_for(config, run, policy, watch, environment) as trainer:
            asyncio.run(trainer.run())
    return list(watch.rows)[1:]


def throughput(rows: list[dict[str, Any]]) -> float:
    """Episodes a second, acting and learning."""
    spent = sum(row["rollout_s"] + row["update_s"] for row in rows)
    return float(sum(row["episodes"] for row in rows) / spent)


def check_workers(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Throughput with one and two workers."""
    unit, work = rates_of_run(train(args, 256))
    found = []
    for workers in (1, 2):
        fleet = Fleet(replicas=1, sampler=unit.sampler, learner=unit.learner(1), sessions=workers)
        predicted = simulate(fleet, work, steps=args.steps).episodes_per_s
        measured = throughput(train(args, workers))
        found.append(row(f"{workers} workers, episodes/s", predicted, measured))
    one, two = found
    ratio = two["predicted"] / one["predicted"], two["measured"] / one["measured"]
    return [*found, row("two by one", *ratio)]


def row(what: str, predicted: float, measured: float, *, is_fitted: bool = False) -> dict[str, Any]:
    """One comparison; of what is no step and no throughput, nothing is asked."""
    return {
        "what": what,
        "predicted": predicted,
        "measured": measured,
        "off": predicted / measured - 1,
        "is_fitted": is_fitted,
    }


H20 = Card(title="NVIDIA H20", gib=96, bandwidth_tb=4.0, tflops=148, price=0.0)

TOGETHER = {32: (357.41, 107.71, 269.80), 64: (150.72, 70.26, 133.41), 128: (177.85, 53.92, 113.81)}
"""GPUs, and seconds of generation, old log-probabilities and update where they take turns."""

APART = {32: 294.77, 64: 189.26, 128: 150.63}
"""GPUs, half of them generating, and seconds of a step."""


def answers(mean: float) -> Work:
    """A step, with answers of so many tokens; their spread is assumed."""
    return Work(
        tasks=512,
        group=16,
        turns=1,
        turn_tokens=mean,
        turn_spread=1.0,
        most_turn_tokens=28 * 1024,
        prompt_tokens=150,
    )


def h20_sampler() -> SamplerRates:
    """The 7B shape on an H20, by its data sheet and the shares measured on an H200."""
    config = build_config({"model": "Qwen/Qwen2.5-7B-Instruct"})
    shape = KNOWN_SHAPES["Qwen/Qwen2.5-7B-Instruct"]
    model = CardModel(shape=shape, config=config, card=H20, work=answers(4000))
    return model.sampler_rates(1)


def ranks_of(count: int, token_s: float) -> LearnerRates:
    """Sixteen mini-batches a step, whole answers on each rank."""
    return LearnerRates(ranks=count, token_s=token_s, minibatches=16, cuts_episodes=False)


def solve(of: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where a rising function has a value."""
    for _ in range(9):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) < wanted else (low, middle)
    return (low + high) / 2


def run_together(mean: float, gpus: int, token_s: float) -> Simulated:
    """Acting and learning by turns."""
    sampler, learner = h20_sampler(), ranks_of(gpus, token_s)
    fleet = Fleet(replicas=gpus, sampler=sampler, learner=learner, is_shared=True)
    return simulate(fleet, answers(mean), steps=1)


def run_apart(mean: float, gpus: int, token_s: float) -> Simulated:
    """Half of them generate, the next step while one is learned."""
    half, sampler = gpus // 2, h20_sampler()
    fleet = Fleet(replicas=half, sampler=sampler, learner=ranks_of(half, token_s), staleness=1)
    return simulate(fleet, answers(mean), steps=3)


def check_peers(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Steps of verl with 32, 64 and 128 GPUs."""
    acting, asking, updating = TOGETHER[32]
    mean = solve(lambda tokens: run_together(tokens, 32, 0.0).waited_s, acting, 500, 9000)
    loads = answers(mean).draw(0, 1)[0].sum(1)
    token_s = (asking + updating) / ranks_of(32, 1.0).seconds(loads)
    found = []
    for gpus, phases in TOGETHER.items():
        result = run_together(mean, gpus, token_s)
        is_fitted = gpus == 32
        pairs = {"acting": (result.waited_s, phases[0]), "step": (result.step_s, sum(phases))}
        found += [
            row(f"taking turns, {gpus} GPUs, {what}", *pair, is_fitted=is_fitted)
            for what, pair in pairs.items()
        ]
    learning = token_s * updating / (asking + updating)  # apart, nobody asks again
    apart = solve(lambda tokens: run_apart(tokens, 32, learning).step_s, APART[32], 500, 4000)
    for gpus, measured in APART.items():
        result = run_apart(apart, gpus, learning)
        label = f"{gpus // 2} generate, {gpus // 2} learn, step"
        found.append(row(label, result.step_s, measured, is_fitted=gpus == 32))
    print(
        f"fitted: answers of {mean:.0f} tokens taking turns and {apart:.0f} apart; "
        f"{token_s * 1e6:.0f} µs a token and rank",
        file=sys.stderr,
    )
    return found


def arguments() -> argparse.Namespace:
    """What to check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=LIMITS)
    parser.add_argument("--steps", type=int, default=2, help="measured steps of a run")
    parser.add_argument("--group", type=int, default=4, help="episodes of each of two tasks")
    parser.add_argument("--wait", type=float, default=2.0, help="seconds of an answer, the median")
    parser.add_argument("--sigma", type=float, default=0.2, help="how uneven they are")
    parser.add_argument("--repeats", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    """1 where a prediction misses its limit."""
    args = arguments()
    rows = check_workers(args) if args.what == "workers" else check_peers(args)
    if args.json:
        print(json.dumps(rows))
    else:
        for one in rows:
            fitted = "  (fitted)" if one["is_fitted"] else ""
            print(
                f"{one['what']:36} predicted {one['predicted']:8.3f}  measured "
                f"{one['measured']:8.3f}  {one['off']:+.1%}{fitted}"
            )
    limit, judged = LIMITS[args.what], [one for one in rows if not one["is_fitted"]]
    missed = [one for one in judged if abs(one["off"]) > limit and "acting" not in one["what"]]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
