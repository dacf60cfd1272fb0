"""`practicum sweep`: a study for each of several settings, and how they compare."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from practicum.core.interrupted import INTERRUPTED

if TYPE_CHECKING:
    from rich.table import Table

    from practicum.store.sweep_dir import SweepDir
    from practicum.workflows.sweeps import SettingResult

FAILED = 1


def sweep(
    source: Annotated[
        str | None,
        typer.Argument(metavar="CONFIG|ENV", help="A YAML file, or an environment such as math."),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="key=a,b,c [key=value]...", help="What is swept, and what is not."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="N|A,B,...", help="Seeds of each setting; one unless given."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="ID", help="The sweep's folder in runs.")
    ] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Seeds at once; what the machine allows unless given.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="SWEEP", help="Go on; or show one that is done.")
    ] = None,
    runs_dir: Annotated[Path, typer.Option(help="Where --resume looks.")] = Path("runs"),
) -> None:
    """Train every combination of some settings, and compare them.

    practicum sweep math model=tiny algorithm.lr=1e-4,3e-4,1e-3

    practicum sweep configs/demo.yaml rollouts.group_size=4,8 --seeds 3

    practicum sweep --resume sweep

    Each setting is a study in the sweep's folder, on the same held-out tasks.
    The more settings, the more of them seem to differ by luck: it says so.
    """
    from practicum.core.errors import UserError
    from practicum.store.sweep_dir import find_sweep

    if resume is not None:
        if source or words or seeds or name:
            raise UserError(
                "a sweep that goes on keeps its settings and seeds; type only: practicum sweep "
                f"--resume {resume}"
            )
        found = find_sweep(resume, runs_dir)
    elif source is None:
        raise UserError(
            "name what is swept: practicum sweep CONFIG key=a,b, or go on with practicum sweep "
            "--resume SWEEP"
        )
    else:
        found = _create(source, words or [], seeds, name, parallel)
    has_failed = _train(found, parallel)
    _show(found)
    if has_failed:
        raise typer.Exit(FAILED)


def _create(
    source: str, words: list[str], seeds: str | None, name: str | None, parallel: int | None
) -> "SweepDir":
    from practicum.config_files import read_config
    from practicum.core.config.parse_config import build_config
    from practicum.store.study_dir import parse_seeds
    from practicum.store.sweep_dir import SweepDir
    from practicum.workflows.sweeps import settings_of

    settings = settings_of(words, lambda chosen: read_config(source, chosen))
    first = build_config(settings[0].config, source)
    numbers = parse_seeds(seeds, first.seed) if seeds is not None else (first.seed,)
    runs_dir = Path(first.runs_dir)
    return SweepDir.create(runs_dir, settings, numbers, name=name, parallel=parallel)


def _train(found: "SweepDir", parallel: int | None) -> bool:
    """Train what is not done, one setting after the other; whether a seed has failed."""
    from practicum.cli.study import run_study, share_machine
    from practicum.workflows.sweeps import prepare_setting

    facts, has_failed = found.facts(), False
    for number, setting in enumerate(facts.settings, start=1):
        study = found.study(setting)
        if study is not None and not study.unfinished():
            continue
        place = f"setting {number} of {len(facts.settings)}"
        typer.echo(f"{place}: {' '.join(setting.words)}", err=True)
        wanted = parallel or facts.parallel
        config, at_once = share_machine(found.config(setting), len(facts.seeds), wanted)
        study = prepare_setting(found, setting, at_once, config.hardware.threads)
        try:
            run_study(study, at_once)
        except typer.Exit as left:
            if left.exit_code == INTERRUPTED:
                typer.echo(f"or all: practicum sweep --resume {found.path}", err=True)
                raise
            has_failed = True  # the other settings may be sound
    return has_failed


def _show(found: "SweepDir") -> None:
    from rich.console import Console

    from practicum.workflows.sweeps import many_looks, sweep_results

    results = sweep_results(found)
    console = Console(highlight=False)
    console.print(_table(found, results))
    for sentence in many_looks(results):
        console.print(sentence, markup=False, soft_wrap=True)


def _table(found: "SweepDir", results: "list[SettingResult]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    from practicum.evaluation.study_report import show_over_seeds

    table = Table(title=f"{found.path}: held-out success, 95 % intervals", title_justify="left")
    for heading in ("setting", "success", "seeds", "tasks", "difference to the first"):
        table.add_column(heading, overflow="fold")
    for number, one in enumerate(results):
        report, gain = one.report, one.difference
        table.add_row(
            Text(one.label),
            Text(show_over_seeds(report.success) if report else "-"),
            str(len(report.seeds)) if report else "-",
            str(report.n_tasks) if report else "-",
            Text(show_over_seeds(gain, signed=True) if gain else one.told or "-" * (number > 0)),
        )
    return table
