"""`practicum report`: a run or a study on paper."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN|STUDY|latest", help="Whose: a name or a folder.")
    ],
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE.html|.pdf|.md", help="Where to write it.")
    ] = Path("report.html"),
    runs_dir: Annotated[Path, typer.Option(help="Folder that holds the runs.")] = Path("runs"),
) -> None:
    """Write a report that stands alone: one file, charts inside.

    practicum report latest --to report.html

    practicum report runs/study --to study.pdf

    practicum report runs/first --to README.md            a model card as the hub reads it

    What was trained on what, evidence with intervals and n, alarms, good and
    bad episodes, the config, and the commands that make it again.
    """
    from practicum.reports.document import check_form, write_document
    from practicum.reports.run_report import report_on_run
    from practicum.reports.seeds_report import report_on_study
    from practicum.store.durable import storage_errors
    from practicum.store.run_dir import find_run
    from practicum.store.study_dir import find_study

    check_form(to)
    study = find_study(run, runs_dir)
    document = report_on_study(study) if study else report_on_run(find_run(run, runs_dir))
    with storage_errors(to):
        write_document(document, to)
    typer.echo(f"written: {to} ({to.stat().st_size / 1e3:.0f} kB)")
