"""`practicum runs`: the runs of a folder, or one of them in full."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from practicum.cli.views.run_view import RunView
    from practicum.core.checkpoint import EvalReport
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

    from practicum.cli.views.charts import Canvas
    from practicum.cli.views.run_tables import brief_to_json, read_runs, render_runs
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

    from practicum.cli.views.charts import Canvas
    from practicum.cli.views.run_tables import render_whole_run, view_to_json
    from practicum.cli.views.run_view import read_run
    from practicum.store.run_dir import find_run

    view = read_run(find_run(named, runs_dir))
    comparison, sentence = _compare(view)
    if as_json:
        _print_json({**view_to_json(view), "comparison": comparison})
    else:
        console = Console(highlight=False)
        console.print(render_whole_run(view, Canvas.of(console), sentence))


def _compare(view: "RunView") -> "tuple[dict[str, JSON] | None, str]":
    """What training gained on the same tasks, as JSON and in a sentence; nothing if not known."""
    from practicum.core.errors import UserError
    from practicum.evaluation.compare import compare_reports
    from practicum.evaluation.report import comparison_to_json, verdict

    before, after = view.before, view.after
    if not (before and after and before.has_report and after.has_report):
        return None, ""
    try:
        gained = compare_reports(_report(view, after.step), _report(view, before.step))
    except UserError as error:  # the rest of the run is still worth showing
        return None, str(error)
    return comparison_to_json(gained), verdict(gained)


def _report(view: "RunView", step: int) -> "EvalReport":
    from practicum.cli.views.run_view import report_path
    from practicum.evaluation.report import report_from_json

    return report_from_json(json.loads(report_path(view.path, step).read_text(encoding="utf-8")))


def _print_json(values: "dict[str, JSON]") -> None:
    typer.echo(json.dumps(values, indent=2, allow_nan=False))
