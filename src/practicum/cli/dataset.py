"""`practicum dataset build`: recorded episodes to a training set."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from practicum.cli.arguments import takes_options

if TYPE_CHECKING:
    from rich.console import Console

    from practicum.core.config.config_sections import EnvConfig
    from practicum.core.task import JSON
    from practicum.traces.datasets.sources import DatasetSource, DatasetWatcher

app = typer.Typer(help="Make training sets from recorded episodes.", no_args_is_help=True)

CHOICES: dict[str, tuple[str, ...]] = {
    "kind": ("sft", "kto", "dpo", "grpo"),
    "only": ("good", "bad", "all"),
    "weight_by": ("score",),
    "duplicates": ("exact", "near", "keep"),
    "balance": ("weight", "sample", "none"),
    "form": ("jsonl", "json", "parquet"),
}
NAMES = {"form": "format"}


@app.callback()
def dataset() -> None:
    """Make training sets from recorded episodes."""


@dataclass(frozen=True, kw_only=True)
class BuildWords:
    """The options of `build`, as they were typed."""

    kind: Annotated[str, typer.Option(metavar="sft|kto|dpo|grpo", help="What it is to train.")]
    source: Annotated[
        str,
        typer.Option("--from", metavar="STORE|RUN|FILE|reference", help="What it is made from."),
    ]
    out: Annotated[Path, typer.Option(metavar="DIR|FILE", help="Where it goes.")]
    where: Annotated[
        str, typer.Option(metavar="QUESTION", help='Which episodes, such as "score >= 0.5".')
    ] = ""
    env: Annotated[
        str | None,
        typer.Option(metavar="ENV", help="Environment, for --from reference, such as math."),
    ] = None
    env_option: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="key=value", help="Its options, such as level=2."),
    ] = None
    only: Annotated[
        str | None, typer.Option(metavar="good|bad|all", help="sft takes good ones unless told.")
    ] = None
    min_score: Annotated[float | None, typer.Option(help="Leave out what scored less.")] = None
    good_at: Annotated[
        float, typer.Option(help="Score from which an episode without a verdict is good.")
    ] = 0.5
    weight_by: Annotated[
        str, typer.Option(metavar="score", help="sft: weigh by score instead of choosing.")
    ] = ""
    margin: Annotated[float, typer.Option(help="dpo: how much better the chosen one is.")] = 0.0
    duplicates: Annotated[
        str | None,
        typer.Option(metavar="exact|near|keep", help="Which doubles go; all stay for grpo."),
    ] = None
    near: Annotated[
        float, typer.Option(help="Jaccard index from which texts are nearly the same.")
    ] = 0.8
    balance: Annotated[
        str | None,
        typer.Option(metavar="weight|sample|none", help="kto: good against bad; else tasks."),
    ] = None
    heldout: Annotated[float, typer.Option(help="Share of the tasks to keep apart.")] = 0.0
    n: Annotated[int, typer.Option(min=0, help="At most so many rows; 0 takes all.")] = 0
    seed: Annotated[int, typer.Option(help="Which way chance falls.")] = 0
    form: Annotated[
        str, typer.Option("--format", metavar="jsonl|json|parquet", help="For a folder.")
    ] = "jsonl"
    replace: Annotated[bool, typer.Option("--replace", help="Over what is there.")] = False
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


@app.command()
@takes_options(BuildWords)
def build(words: BuildWords) -> None:
    """Make a training set, and say what is in it and what was left out.

    practicum dataset build --kind sft --from reference --env math --out math

    practicum dataset build --kind kto --from traces.sqlite --out kto

    practicum dataset build --kind dpo --from runs/demo --heldout 0.1 --out dpo

    practicum dataset build --kind sft --from runs/demo --out good.parquet

    Only recorded answers are used. A task with one answer makes no pair: none is invented.
    """
    import asyncio
    import json

    from rich.console import Console

    from practicum.assemble.datasets import build_dataset
    from practicum.traces.datasets.dataset_writing import describe, write_dataset

    source, options = _source(words), _options(words)
    with _counting(Console(stderr=True)) as watch:
        built = asyncio.run(build_dataset(source, options, watch))
    question = _question(words)
    if not built.train:
        report: dict[str, Any] = {
            "out": None,
            "question": question,
            "statistics": describe(built),
        }
    else:
        manifest = write_dataset(
            built, words.out, form=words.form, question=question, replace=words.replace
        )
        report = {"out": str(words.out), **manifest}
    if words.json_output:
        print(json.dumps(report))
    else:
        _print(Console(highlight=False), report)
    raise typer.Exit(0 if built.train else 1)


def _source(words: BuildWords) -> "DatasetSource":
    from practicum.core.errors import UserError
    from practicum.traces.datasets.sources import DatasetSource

    if words.source != "reference" and (words.env is not None or words.env_option):
        raise UserError(
            f"--env and --set go with --from reference; from {words.source!r}, choose episodes of "
            f'an environment with --where "env = {words.env or "math"}"'
        )
    return DatasetSource(
        name=words.source, where=words.where, good_at=words.good_at, env=_env_config(words)
    )


def _env_config(words: BuildWords) -> "EnvConfig | None":
    from practicum.core.config.config_sections import EnvConfig
    from practicum.core.config.parse_config import apply_overrides

    if words.env is None:
        return None
    settings = [f"env.{word.removeprefix('env.')}" for word in words.env_option or []]
    values = apply_overrides({"env": {"name": words.env}}, settings)
    return EnvConfig.model_validate(values["env"])


def _options(words: BuildWords) -> Any:
    from practicum.core.errors import UserError
    from practicum.traces.datasets.build import BuildOptions

    for field, allowed in CHOICES.items():
        value = getattr(words, field)
        if value and value not in allowed:
            name = NAMES.get(field, field).replace("_", "-")
            raise UserError(f"--{name} {value!r} is not known; choose {', '.join(allowed)}")
    shared = ("kind", "only", "min_score", "weight_by", "margin", "duplicates", "near")
    more = ("balance", "heldout", "n", "seed")
    return BuildOptions(**{name: getattr(words, name) for name in (*shared, *more)})


def _question(words: BuildWords) -> "dict[str, JSON]":
    """What was asked, without where the answer went."""
    asked = {name: value for name, value in asdict(words).items() if value not in (None, "")}
    for name in ("out", "replace", "json_output"):
        asked.pop(name, None)
    return asked


@contextmanager
def _counting(console: "Console") -> "Iterator[DatasetWatcher]":
    """A line that counts what was read, while it is read."""
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.completed} read"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("reading", total=None)
        yield lambda: bars.advance(task)


def _print(console: "Console", report: Mapping[str, Any]) -> None:
    from practicum.cli.arguments import plain

    figures = report["statistics"]
    for side in ("train", "heldout"):
        if figures[side]["rows"]:
            _print_side(console, side, figures[side])
    if figures["split"]["largest_cluster"] > 1:
        largest = figures["split"]["largest_cluster"]
        console.print(f"kept on one side: up to {largest} tasks with nearly the same question")
    left_out = figures["left_out"]
    if left_out["total"]:
        console.print(f"left out: {left_out['total']}")
    for reason, count in left_out["reasons"].items():
        example = plain(left_out["for_example"][reason][0])
        console.print(f"  {count:6d}  {plain(reason)} ({example})", markup=False, soft_wrap=True)
    for note in figures["notes"]:
        console.print(f"note: {note}")
    if report["out"] is None:
        console.print("nothing is left to learn from, so nothing was written")
    else:
        console.print(f"written: {report['out']}", markup=False)


def _print_side(console: "Console", side: str, figures: Mapping[str, Any]) -> None:
    console.print(
        f"{side}: {figures['rows']} rows, {figures['examples']} answers, {figures['tasks']} tasks"
    )
    for name, facts in figures["classes"].items():
        if name == "unlabelled":
            continue
        console.print(f"  {name}: {facts['examples']}, together weighing {facts['weight']:g}")
    spreads = ("turns", "prompt_characters", "answer_characters", "reward", "weight")
    for name in spreads:
        spread = figures[name]
        if spread is not None and (name != "weight" or spread["min"] < spread["max"]):
            of = name.replace("_", " ")
            console.print(
                f"  {of}: median {spread['median']:g}, 95 % up to {spread['p95']:g}, "
                f"{spread['min']:g} to {spread['max']:g}"
            )
    if figures["with_own_tokens"]:
        console.print(f"  with the tokens they were sampled in: {figures['with_own_tokens']}")
