"""Draws a finished run as an SVG: what `watch` shows, and the comparison before and after.

python scripts/run_picture.py runs/demo docs/demo.svg
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console

from practicum.assemble.driver import read_evaluations
from practicum.cli.views.charts import Canvas
from practicum.cli.views.run_screen import render_run
from practicum.cli.views.run_view import read_run
from practicum.evaluation.compare import compare_reports
from practicum.evaluation.report import render_comparison
from practicum.store.run_dir import find_run

COLUMNS = 100


def main(run_name: str, target: str) -> None:
    """Write the picture."""
    run = find_run(run_name, Path("runs"))
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    console.print(render_run(read_run(run), Canvas.of(console)))
    reports = read_evaluations(run)
    if len(reports) > 1:
        before, after = reports[min(reports)], reports[max(reports)]
        console.print(render_comparison(after, before, compare_reports(after, before)))
    drawn = console.export_svg(title=f"practicum watch {run.name}")
    # The reader's own fixed-width font does; the picture must not fetch one.
    Path(target).write_text(re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL))


if __name__ == "__main__":
    main(*sys.argv[1:3])
