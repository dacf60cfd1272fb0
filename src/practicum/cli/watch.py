"""`practicum watch`: a live view of a run."""

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from practicum.store.run_dir import RunDir


def watch(
    run: Annotated[
        str, typer.Argument(metavar="RUN|STUDY|latest", help="A run's name or folder.")
    ] = "latest",
    runs_dir: Annotated[Path, typer.Option(help="Folder that holds the runs.")] = Path("runs"),
    once: Annotated[bool, typer.Option("--once", help="Print one frame and leave.")] = False,
    refresh: Annotated[float, typer.Option(min=0.1, help="Seconds between frames.")] = 1.0,
) -> None:
    """Watch a run while it trains, or look at one that has ended.

    Of a study, its runs. Shows progress and time left, curves, held-out evaluations with their
    intervals, the latest episode turn by turn, and what is worth a
    person's eye. It only reads the run's folder: leave with Ctrl-C at any
    time, and the training goes on.
    """
    from rich.console import Console

    from practicum.analysis.run_view import read_run, read_runs
    from practicum.cli.views.charts import Canvas
    from practicum.cli.views.run_screen import render_run
    from practicum.cli.views.run_tables import render_runs
    from practicum.store.run_dir import find_run, list_runs
    from practicum.store.study_dir import find_study

    console = Console(highlight=False)
    study = find_study(run, runs_dir)
    if study is not None:
        console.print(render_runs(*read_runs(list_runs(study.path)), Canvas.of(console)))
        typer.echo(f"one of them: practicum watch {study.path}/seed_{study.facts().seeds[0]}")
        return
    found = find_run(run, runs_dir)
    # A forced colour setting makes rich take a pipe for a terminal, so the stream itself is asked.
    if not once and sys.stdout.isatty() and not console.is_dumb_terminal:
        # Leaving is not an error; the last frame, below, stays on the screen.
        with suppress(KeyboardInterrupt):
            _follow(found, console, refresh)
    console.print(render_run(read_run(found), Canvas.of(console)))


def _follow(run: "RunDir", console: "Console", refresh: float) -> None:
    """Draw frame after frame until the run no longer trains."""
    from rich.live import Live

    from practicum.analysis.run_view import RunStatus, read_run
    from practicum.cli.views.charts import Canvas
    from practicum.cli.views.run_screen import render_run

    view = read_run(run)
    if view.status is not RunStatus.RUNNING:
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while view.status is RunStatus.RUNNING:
            live.update(render_run(view, Canvas.of(console, fit_height=True)), refresh=True)
            time.sleep(refresh)
            view = read_run(run)
