"""`practicum train`: run the loop."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from practicum.core.config import RunConfig
    from practicum.core.interfaces import Environment
    from practicum.core.report import EvalReport
    from practicum.store import RunDir

__all__ = ["train"]

INTERRUPTED = 130


def train(
    source: Annotated[
        str | None,
        typer.Argument(metavar="CONFIG|ENV", help="A YAML file, or an environment such as math."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Values that win, such as steps=12."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with this run instead.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="ID", help="What to call the run's folder.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved config and the plan, and stop.")
    ] = False,
) -> None:
    """Train a model by letting it act on tasks.

    practicum train math                                the defaults

    practicum train math model=tiny steps=12 --name try   a tiny model, in seconds

    practicum train configs/demo.yaml algorithm.lr=1e-4   a config file and a change

    practicum train configs/from_traces.yaml              learn from recorded traces

    practicum train --resume runs/try                     go on where it stopped
    """
    from practicum.assemble import build_policy, create_run, open_place, sandbox_kind

    config, run = _resolve(source, overrides or [], resume, name)
    environment = open_place(config)  # options are checked before anything is made
    _check_plan(config, dry_run)
    if dry_run:
        return
    if environment is not None:
        sandbox_kind(environment)  # before the model is loaded: there may be no sandbox
    policy = build_policy(config)  # before the run is made: a model may not be there
    if run is None:
        run = create_run(config, name)
    with run.hold():
        if config != run.config():
            run.replace_config(config)
        _train(config, run, policy, environment)


def _resolve(
    source: str | None, overrides: list[str], resume: str | None, name: str | None
) -> "tuple[RunConfig, RunDir | None]":
    from practicum.cli.config_source import read_config
    from practicum.core.errors import UserError

    if resume is not None:
        if name is not None:
            raise UserError("--name and --resume cannot be given together; a run keeps its name")
        words = ([source] if source else []) + overrides
        config, run = _resumed(resume, words)
    elif source is None:
        raise UserError(
            "nothing to train: give a config file or an environment, such as: practicum train math"
        )
    else:
        config, run = read_config(source, overrides), None
    return config, run


def _resumed(resume: str, words: list[str]) -> "tuple[RunConfig, RunDir]":
    """The run's own config; a config file or overrides given besides must not change it."""
    from pathlib import Path

    from practicum.cli.config_source import read_config
    from practicum.core.config import apply_overrides, build_config, changed_keys
    from practicum.core.errors import ConfigError
    from practicum.store import find_run

    run = find_run(resume, Path("runs"))
    saved = run.config()
    if words and "=" not in words[0]:
        config = read_config(words[0], words[1:])
    else:
        config = build_config(apply_overrides(saved.model_dump(), words), resume)
    changed = changed_keys(saved, config)
    if changed:
        raise ConfigError(
            f"{run.path} was made with another config; these keys differ: {', '.join(changed)}; "
            f"resume without them (practicum train --resume {run.path}), or start another run"
        )
    return config, run


def _check_plan(config: "RunConfig", dry_run: bool) -> None:
    """Stop before loading anything that would not fit; `--dry-run` shows the plan."""
    from practicum.cli.plan_view import print_plan
    from practicum.hardware import check_fits, detect_machine, plan_memory

    machine = detect_machine()
    plan = plan_memory(config, machine)
    if dry_run:
        print_plan(config, plan, machine)
    if plan is not None:
        check_fits(plan, machine)


def _train(
    config: "RunConfig", run: "RunDir", policy: Any, environment: "Environment | None"
) -> None:
    from rich.console import Console

    from practicum.assemble import run_and_close, sandbox_kind, trainer_for
    from practicum.cli.progress import TrainingProgress
    from practicum.core.event_loop import run_attended

    console = Console(stderr=True)
    with (
        TrainingProgress(console, config.steps) as progress,
        trainer_for(config, run, policy, progress, environment) as trainer,
    ):
        learning, base = policy.trainable_share
        place = f"on {config.env.name}" if environment else "on recorded traces"
        console.print(
            f"run {run.path}: {config.model.name} {place}, training "
            f"{learning:,} of {base + learning:,} parameters ({learning / base:.2%})",
            highlight=False,
        )
        kind = sandbox_kind(environment) if environment else ""
        if kind:
            console.print(f"its commands run in sandboxes of kind {kind}", highlight=False)
        result = run_attended(
            run_and_close(environment, trainer.run()) if environment else trainer.run()
        )
    if result.interrupted:
        console.print(f"stopped after {result.state.step} steps; go on with:", highlight=False)
        console.print(f"  practicum train --resume {run.path}", highlight=False)
        raise typer.Exit(INTERRUPTED)
    _print_result(run, result.reports)


def _print_result(run: "RunDir", reports: "dict[int, EvalReport]") -> None:
    from rich.console import Console

    from practicum.evaluation import compare_reports, render_comparison

    console = Console()
    console.print(f"{run.path} is done.", highlight=False)
    if len(reports) > 1:
        before, after = reports[min(reports)], reports[max(reports)]
        console.print(render_comparison(after, before, compare_reports(after, before)))
