"""`practicum runs`: the runs of a folder, or one of them in full."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from practicum.core.task import JSON


def runs(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|STUDY|latest", help="A run's name or folder; all runs if left out."
        ),
    ] = None,
    runs_dir: Annotated[Path, typer.Option(help="Folder that holds the runs.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List runs and studies, or show one in full.

    The one started last is first. In full: config, each start, every
    held-out evaluation and what training gained on the same tasks,
    checkpoints, last steps and last episodes.
    """
    from practicum.store.study_dir import find_study

    study = find_study(run, runs_dir) if run is not None else None
    if run is None or study is not None:
        _list(runs_dir if study is None else study.path, as_json)
    else:
        _show(run, runs_dir, as_json)


def _list(runs_dir: Path, as_json: bool) -> None:
    from rich.console import Console

    from practicum.analysis.run_json import brief_to_json
    from practicum.analysis.run_view import read_runs
    from practicum.cli.views.charts import Canvas
    from practicum.cli.views.run_tables import render_runs
    from practicum.store.run_dir import list_runs
    from practicum.store.study_dir import list_studies

    views, unreadable = read_runs(list_runs(runs_dir))
    studies = [(study, len(study.facts().seeds)) for study in list_studies(runs_dir)]
    if as_json:
        briefs: list[JSON] = [brief_to_json(view) for view in views]
        problems: list[JSON] = [{"name": run.name, "reason": run.reason} for run in unreadable]
        several: list[JSON] = [
            {"name": study.name, "seeds": seeds, "done": seeds - len(study.unfinished())}
            for study, seeds in studies
        ]
        found: dict[str, JSON] = {"runs_dir": str(runs_dir), "runs": briefs}
        _print_json({**found, "studies": several, "unreadable": problems})
    elif views or unreadable or studies:
        console = Console(highlight=False)
        if views or unreadable:
            console.print(render_runs(views, unreadable, Canvas.of(console)))
        for study, seeds in studies:
            typer.echo(
                f"study {study.name}: {seeds - len(study.unfinished())} of {seeds} seeds done; "
                f"practicum compare {study.name}"
            )
    else:
        typer.echo(f"There are no runs in {runs_dir}; start one with: practicum train math")


def _show(named: str, runs_dir: Path, as_json: bool) -> None:
    from rich.console import Console

    from practicum.analysis.run_json import view_to_json
    from practicum.analysis.run_view import gain_of, read_run
    from practicum.cli.views.charts import Canvas
    from practicum.cli.views.run_tables import render_whole_run
    from practicum.evaluation.report import comparison_to_json
    from practicum.store.run_dir import find_run

    view = read_run(find_run(named, runs_dir))
    comparison, sentence = gain_of(view)
    if as_json:
        told = comparison_to_json(comparison) if comparison else None
        _print_json({**view_to_json(view), "comparison": told})
    else:
        console = Console(highlight=False)
        console.print(render_whole_run(view, Canvas.of(console), sentence))


def _print_json(values: "dict[str, JSON]") -> None:
    typer.echo(json.dumps(values, indent=2, allow_nan=False))
