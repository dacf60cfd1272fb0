"""`practicum plan`: what a run would do on many GPUs, by simulation."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from practicum.cli.arguments import takes_options

if TYPE_CHECKING:
    from practicum.core.config.run_config import RunConfig
    from practicum.engine.planning.cards import Card
    from practicum.engine.planning.fleet_plan import SizePlan, Unit
    from practicum.engine.planning.simulation import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What is planned; without `--calibrate` every figure is one of these."""

    gpus: Annotated[
        str, typer.Option(metavar="N|A..B|A,B", help="How many; A..B doubles from A to B.")
    ] = "8..512"
    model: Annotated[str, typer.Option(metavar="MODEL", help="Name, hub id or folder.")] = (
        "qwen2.5-7b"
    )
    device: Annotated[str, typer.Option(metavar="CARD", help="What the GPUs are.")] = "h200"
    price: Annotated[
        float | None, typer.Option(min=0.0, help="Dollars an hour of one; else about what it is.")
    ] = None
    staleness: Annotated[
        int, typer.Option(min=0, help="Updates that episodes may be behind (rollouts.staleness).")
    ] = 1
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of a step.")] = 64
    group: Annotated[int, typer.Option(min=1, help="Episodes of a task.")] = 16
    turns: Annotated[int, typer.Option(min=1, help="Turns of an episode.")] = 6
    tokens: Annotated[float, typer.Option(min=1.0, help="Tokens of a turn, on average.")] = 256.0
    spread: Annotated[
        float, typer.Option(min=0.0, help="Standard deviation by mean, of tokens and seconds.")
    ] = 0.8
    prompt: Annotated[int, typer.Option(min=0, help="Tokens that a task is told in.")] = 800
    reply: Annotated[int, typer.Option(min=0, help="Tokens of an environment's answer.")] = 128
    env_s: Annotated[float, typer.Option(min=0.0, help="Seconds of an environment's answer.")] = 1.0
    sessions: Annotated[
        int, typer.Option(min=0, help="Episodes that environments have room for; 0 for all.")
    ] = 0
    calibrate: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Take rates and episodes from a run of yours instead."),
    ] = None
    runs_dir: Annotated[Path, typer.Option(help="Folder that holds the runs.")] = Path("runs")
    steps: Annotated[int, typer.Option(min=1, help="Steps to simulate, after the first.")] = 4
    seed: Annotated[int, typer.Option(help="Of the lengths that are drawn.")] = 0
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


@takes_options(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Simulate a run on many GPUs: throughput, cost, split, staleness.

    Samplers, environments and learners are queues, simulated event by event
    with the rates measured on one H200, or with those of a run of yours:
    then a GPU of the plan is a machine like the one it ran on.

    practicum plan --gpus 8..512 --model qwen2.5-32b

    practicum plan --gpus 16 --model qwen2.5-7b --turns 20 --env-s 5   slow tools

    practicum plan --gpus 8,24 --device h100 --staleness 2 --price 2.2

    practicum plan --gpus 1..8 --calibrate latest   by the steps of your last run

    One row for each number of GPUs. `split` is samplers + learners, the best of those
    tried; `busy` is how much of the time each of the two works: where the
    learners wait (`waits`), more samplers or a higher staleness help, and
    where both are idle, the longest episode decides and more GPUs do not.
    `by turns` is the throughput of the same GPUs if all act, and then all learn.
    The assumptions are in docs/planning.md.
    """
    from practicum.cli.progress import EpisodesBar
    from practicum.engine.planning.cards import find_card
    from practicum.engine.planning.fleet_plan import plan_sizes, simulations

    card, sizes = find_card(options.device), read_sizes(options.gpus)
    unit, work = _calibrated(options) if options.calibrate else _of_card(options, card)
    with EpisodesBar("simulating", simulations(unit, work, sizes)) as bar:
        plans = list(
            plan_sizes(
                unit,
                work,
                sizes,
                staleness=options.staleness,
                sessions=options.sessions,
                steps=options.steps,
                seed=options.seed,
                tried=bar.one,
            )
        )
    price = card.price if options.price is None else options.price
    if options.json_output:
        _print_json(options, plans, unit, work, price)
    else:
        _print_table(options, plans, unit, work, card, price)


def read_sizes(text: str) -> list[int]:
    """Numbers of GPUs: one, several, or doubled from one to another.

    >>> read_sizes("8..48"), read_sizes("8,24")
    ([8, 16, 32, 48], [8, 24])
    """
    from practicum.core.errors import UserError

    found: list[int] = []
    try:
        for part in text.split(","):
            first, dots, last = part.partition("..")
            size, most = int(first), int(last) if dots else int(first)
            if not 1 <= size <= most:
                raise ValueError
            while size < most:
                found.append(size)
                size *= 2
            found.append(most)
    except ValueError:
        raise UserError(
            f"--gpus {text!r} is no number of GPUs; give one (16), several (8,24) or a range "
            "from the smaller to the larger, which is doubled (8..512)"
        ) from None
    return sorted(set(found))


def _of_card(options: PlanOptions, card: "Card") -> "tuple[Unit, Work]":
    from practicum.core.errors import UserError
    from practicum.engine.planning.fleet_plan import CardModel
    from practicum.engine.planning.model_shapes import KNOWN_SHAPES, find_shape
    from practicum.engine.planning.simulation import Work

    shape = find_shape(options.model) or find_shape(f"{options.model}-Instruct")  # one shape
    if shape is None:
        raise UserError(
            f"the shape of --model {options.model!r} is not known here; name a folder with its "
            f"config.json, or one of: {', '.join(n.rpartition('/')[2] for n in KNOWN_SHAPES)}"
        )
    work = Work(
        tasks=options.tasks,
        group=options.group,
        turns=options.turns,
        turn_tokens=options.tokens,
        turn_spread=options.spread,
        most_turn_tokens=max(1, round(8 * options.tokens)),
        prompt_tokens=options.prompt,
        reply_tokens=options.reply,
        environment_s=options.env_s,
        environment_spread=options.spread,
    )
    return CardModel(shape=shape, config=_config(options), card=card, work=work).unit(), work


def _config(options: PlanOptions) -> "RunConfig":
    """A run of these episodes, for what memory learning takes."""
    from practicum.core.config.parse_config import build_config

    return build_config(
        {
            "env": {"name": "math", "actions": "free"},  # turns of free text
            "model": options.model,
            "rollouts": {
                "tasks_per_step": options.tasks,
                "group_size": options.group,
                "max_turns": options.turns,
                "max_tokens": max(1, round(options.tokens)),
            },
        }
    )


def _calibrated(options: PlanOptions) -> "tuple[Unit, Work]":
    from practicum.engine.planning.fleet_plan import rates_of_run
    from practicum.store.events import read_metrics
    from practicum.store.run_dir import find_run

    assert options.calibrate is not None
    run = find_run(options.calibrate, options.runs_dir)
    rows = read_metrics(run.metrics_path).rows
    return rates_of_run([row.values for row in rows if row.kind == "step"])


def _facts(options: PlanOptions, one: "SizePlan", price: float) -> dict[str, Any]:
    best, result = one.best, one.best.result
    return {
        "gpus": one.gpus,
        "samplers": best.sampler_gpus,
        "learners": best.learner_gpus,
        "staleness": options.staleness,
        "episodes_per_s": result.episodes_per_s,
        "tokens_per_s": result.tokens / result.seconds,
        "step_s": result.step_s,
        "update_s": result.update_s,
        "learner_waits_s": result.waited_s,
        "sampler_busy": result.sampler_busy,
        "learner_busy": result.learner_busy,
        "staleness_mean": result.staleness_mean,
        "staleness_max": result.staleness_max,
        "dollars_per_1000_episodes": one.cost(price),
        "alternating_episodes_per_s": one.alternating.result.episodes_per_s,
    }


def _print_json(
    options: PlanOptions, plans: "list[SizePlan]", unit: "Unit", work: "Work", price: float
) -> None:
    import json
    from dataclasses import asdict

    value = {
        "model": None if options.calibrate else options.model,
        "calibrated_by": options.calibrate or "one H200",
        "dollars_per_gpu_hour": price,
        "rates": asdict(unit),
        "work": asdict(work),
        "sizes": [_facts(options, one, price) for one in plans],
    }
    typer.echo(json.dumps(value))


def _print_table(
    options: PlanOptions,
    plans: "list[SizePlan]",
    unit: "Unit",
    work: "Work",
    card: "Card",
    price: float,
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    what = (
        f"as run {options.calibrate}" if options.calibrate else f"{options.model} on {card.title}"
    )
    console.print(
        f"{what}: {work.episodes} episodes a step ({work.tasks} tasks × {work.group}), "
        f"{work.turns} turns of {work.turn_tokens:.0f} tokens; a replica takes "
        f"{unit.replica_gpus} GPU and a learning rank {unit.rank_gpus}; ${price:.2f} an hour each",
        markup=False,
        soft_wrap=True,
    )
    table = Table(box=None, padding=(0, 1))
    heads = ("GPUs", "split", "episodes/s", "step", "busy", "waits", "age", "$/1000", "by turns")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for one in plans:
        best, result = one.best, one.best.result
        table.add_row(
            str(one.gpus),
            f"{best.sampler_gpus} + {best.learner_gpus}",
            f"{result.episodes_per_s:.3g}",
            f"{result.step_s:.1f} s",
            f"{result.sampler_busy:.0%} {result.learner_busy:.0%}",
            f"{result.waited_s:.1f} s",
            f"{result.staleness_mean:.2f}",
            f"{one.cost(price):.3g}",
            f"{one.alternating.result.episodes_per_s:.3g}",
        )
    console.print(table)
