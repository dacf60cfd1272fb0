"""`practicum train`: run the loop."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from practicum.core.interrupted import INTERRUPTED

if TYPE_CHECKING:
    from practicum.assemble.driver import OpenRun, TrainedRun
    from practicum.cli.progress import TrainingProgress
    from practicum.core.checkpoint import EvalReport
    from practicum.core.config.run_config import RunConfig
    from practicum.store.run_dir import RunDir
    from practicum.store.study_dir import StudyDir


SOURCE = typer.Argument(metavar="CONFIG|ENV", help="A YAML file, or an environment such as math.")
OVERRIDES = typer.Argument(metavar="[key=value]...", help="Values that win, such as steps=12.")


def train(
    source: Annotated[str | None, SOURCE] = None,
    overrides: Annotated[list[str] | None, OVERRIDES] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN[/step_N]|STUDY", help="Go on; a step: as a new run.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="ID", help="The run's folder in runs; or ./ID.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved config and the plan, and stop.")
    ] = False,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="N|A,B,...", help="A study: train each of these seeds."),
    ] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Seeds at once; what the machine allows unless given.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Learn in so many processes, a GPU each.")
    ] = None,
) -> None:
    """Train a model by letting it act on tasks.

    practicum train math                                the defaults

    practicum train math model=tiny steps=12 --name try   a tiny model, in seconds

    practicum train configs/demo.yaml algorithm.lr=1e-4   a config file and a change

    practicum train configs/from_traces.yaml              learn from recorded traces

    practicum train --resume runs/try                     go on where it stopped

    practicum train configs/demo.yaml --seeds 5           a study: five seeds

    practicum train configs/demo.yaml --processes 4       four GPUs of this machine
    """
    together = _processes(processes, seeds, dry_run=dry_run)
    if together is None:
        return  # this was another process of a run, which has ended
    overrides = [*(overrides or []), *_place_of(name), *together]
    if resume is not None and (study := _study(resume, seeds, name)) is not None:
        from practicum.cli.study import go_on

        return go_on(study, ([source] if source else []) + overrides, parallel)
    config, run = _resolve(source, overrides, resume, name, makes=not dry_run)
    if dry_run:
        _print_plan(config)
        return
    print(f"loading {config.model.name}", file=sys.stderr, flush=True)  # before it takes a moment
    called = name and Path(name).name
    if seeds is None:
        _train_one(config, run, called)
        return
    from practicum.cli.study import start_study

    start_study(config, seeds, called, parallel)


def _train_one(config: "RunConfig", run: "RunDir | None", name: str | None) -> None:
    from practicum.assemble.driver import train_run

    _finish(train_run(config, observe, name=name, resumed=run))


def _processes(asked: int | None, seeds: str | None, *, dry_run: bool) -> list[str] | None:
    """How many processes learn together, as a word of the config; None where this was another."""
    from practicum.assemble.learner_processes import follow_leader, launched
    from practicum.core.errors import UserError

    launch = launched()
    if launch is not None and launch.rank:
        if not dry_run:
            follow_leader(launch)
        return None
    if (asked or launch) and seeds is not None:
        raise UserError(
            "--processes and --seeds cannot be given together; --parallel says how many seeds are "
            "trained at once"
        )
    if launch is None and "ACCELERATE_MIXED_PRECISION" in os.environ:
        print(
            "accelerate launch changes nothing here: it has started one process; leave it out",
            file=sys.stderr,
        )
    count = asked or (launch.size if launch else 0)
    return [f"hardware.processes={count}"] if count else []


def _place_of(name: str | None) -> list[str]:
    """What a name that is a path says of the folder that the run's own lies in."""
    is_path = name is not None and any(one in name for one in "/\\")
    return [f"runs_dir={Path(name).parent}"] if name and is_path else []


def _study(resume: str, seeds: str | None, name: str | None) -> "StudyDir | None":
    """The study that is to go on; None where it is a run."""
    from practicum.core.errors import UserError
    from practicum.store.study_dir import find_study

    if seeds is not None:
        raise UserError("--seeds and --resume cannot be given together; a study keeps its seeds")
    study = find_study(resume, Path("runs"))
    if study is not None and name is not None:
        raise UserError("--name and --resume cannot be given together; a study keeps its name")
    return study


def _resolve(
    source: str | None, overrides: list[str], resume: str | None, name: str | None, *, makes: bool
) -> "tuple[RunConfig, RunDir | None]":
    from practicum.config_files import read_config, resumed_config
    from practicum.core.errors import UserError

    if resume is not None:
        words = ([source] if source else []) + overrides
        return resumed_config(resume, words, name, makes=makes)
    if source is None:
        raise UserError(
            "nothing to train: give a config file or an environment, such as: practicum train math"
        )
    return read_config(source, overrides), None


def _print_plan(config: "RunConfig") -> None:
    """What a run would do to the machine; refused where it does not fit."""
    from practicum.assemble.build_policy import plan_run
    from practicum.assemble.build_stages import with_own_options
    from practicum.assemble.driver import open_run_environment
    from practicum.cli.plan_view import print_plan
    from practicum.core.trusted_code import NotTrusted
    from practicum.engine.planning.machine import detect_machine
    from practicum.engine.planning.memory_plan import check_fits

    environment = None
    try:
        environment = open_run_environment(config)  # options are checked before all else
        config = with_own_options(config)
    except NotTrusted as error:  # a plan needs no code of a stranger's
        print(f"not checked: {error}", file=sys.stderr)
    machine = detect_machine()
    plan = plan_run(config, machine)
    print_plan(config, plan, machine, environment)
    if plan is not None:
        check_fits(plan, machine)


def observe(opened: "OpenRun") -> "TrainingProgress":
    """Say what is about to train, and show how it goes on."""
    from rich.console import Console

    from practicum.cli.progress import TrainingProgress
    from practicum.core.capabilities import parts_of, sandbox_kind

    console = Console(stderr=True)
    config, environment = opened.config, opened.environment
    learning, base = opened.policy.trainable_share
    place = f"on {', '.join(parts_of(environment))}" if environment else "on recorded traces"
    console.print(
        f"run {opened.run.path}: {config.model.name} {place}, training "
        f"{learning:,} of {learning + base:,} parameters ({learning / (learning + base):.2%})",
        highlight=False,
    )
    kind = sandbox_kind(environment) if environment else ""
    if kind:
        console.print(f"its commands run in sandboxes of kind {kind}", highlight=False)
    if opened.note:
        console.print(opened.note, highlight=False)
    return TrainingProgress(console, config.steps)


def _finish(trained: "TrainedRun") -> None:
    from rich.console import Console

    run, result = trained.run, trained.result
    if result.interrupted:
        console = Console(stderr=True)
        console.print(f"stopped after {result.state.step} steps; go on with:", highlight=False)
        console.print(f"  practicum train --resume {run.path}", highlight=False)
        raise typer.Exit(INTERRUPTED)
    _print_result(run, result.reports)


def _print_result(run: "RunDir", reports: "dict[int, EvalReport]") -> None:
    from rich.console import Console

    from practicum.evaluation.compare import compare_reports
    from practicum.evaluation.report import (
        find_masked,
        render_comparison,
        render_stages,
        stage_ends,
    )
    from practicum.evaluation.study_report import ONE_SEED

    console = Console()
    console.print(f"{run.path} is done.", highlight=False)
    course = stage_ends(run.config(), reports) if len(reports) > 2 else []
    if len(course) > 2:
        console.print(render_stages(course))
    if len(reports) > 1:
        before, after = reports[min(reports)], reports[max(reports)]
        console.print(render_comparison(after, before, compare_reports(after, before)))
        if before.masked or after.masked:
            console.print(find_masked(str(run.path)), markup=False, soft_wrap=True)
        console.print(ONE_SEED, highlight=False)
