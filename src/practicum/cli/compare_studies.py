"""`practicum compare`: two studies, over their seeds and the held-out tasks."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from practicum.core.task import JSON
    from practicum.workflows.studies import Study

PICTURES = (".svg", ".png", ".pdf")


def compare(
    first: Annotated[
        str, typer.Argument(metavar="STUDY|RUN", help="The one to compare with: folder or name.")
    ],
    second: Annotated[
        str | None,
        typer.Argument(metavar="[STUDY|RUN]", help="The other; alone the first is shown."),
    ] = None,
    bar: Annotated[
        float, typer.Option(help="What the lower bound of a seed's success is held against.")
    ] = 0.8,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg|png", help="Draw curves with bands over seeds there."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    runs_dir: Annotated[Path, typer.Option(help="Folder that holds the studies.")] = Path("runs"),
) -> None:
    """Compare two studies: the same tasks, several seeds each.

    practicum compare runs/before runs/after              success, difference, chance of improvement

    practicum compare runs/before runs/after --plot curves.svg

    practicum compare runs/after --bar 0.9                one study by itself

    Intervals hold for the chance of seeds and of tasks. A single run is one
    seed, and its interval is over tasks only.
    """
    from rich.console import Console

    from practicum.workflows.studies import load_study

    if plot is not None:
        _check_picture(plot)
    studies = [load_study(name, runs_dir) for name in (first, second) if name is not None]
    values, table = _compared(studies, bar)
    if plot is not None:
        from practicum.workflows.studies import plot_studies

        plot_studies(studies).save(plot)
    if json_output:
        print(json.dumps(values, allow_nan=False))
        return
    console = Console()
    console.print(table)
    if plot is not None:
        console.print(f"curves: {plot}", highlight=False, markup=False)


def _compared(studies: "list[Study]", bar: float) -> "tuple[dict[str, JSON], Table]":
    """What is said of one study or of two, as JSON and as a table."""
    from practicum.evaluation.study_report import (
        compare_studies,
        render_study,
        render_study_comparison,
        study_comparison_to_json,
        study_to_json,
    )

    if len(studies) == 1:
        report = studies[0].report(bar)
        return study_to_json(report), render_study(report)
    found = compare_studies(studies[0].evidence, studies[1].evidence, bar)
    return study_comparison_to_json(found), render_study_comparison(found)


def _check_picture(path: Path) -> None:
    from practicum.core.errors import UserError

    if path.suffix not in PICTURES:
        raise UserError(
            f"--plot {str(path)!r} is no picture; end it with {', '.join(PICTURES)}, such as "
            "--plot curves.svg"
        )
    if not path.absolute().parent.is_dir():
        raise UserError(f"there is no folder {str(path.parent)!r}; make it, or choose another file")
