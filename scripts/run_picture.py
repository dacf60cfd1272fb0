"""Draws a finished run as an SVG: what `watch` shows, and the evaluations of its stages.

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
from practicum.evaluation.report import render_stages, stage_ends
from practicum.store.run_dir import find_run

COLUMNS = 100


def main(run_name: str, target: str) -> None:
    """Write the picture."""
    run = find_run(run_name, Path("runs"))
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    console.print(render_run(read_run(run), Canvas.of(console)))
    console.print(render_stages(stage_ends(run.config(), read_evaluations(run))))
    drawn = console.export_svg(title=f"practicum watch {run.name}")
    # The reader's own fixed-width font does; the picture must not fetch one.
    Path(target).write_text(re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL))


if __name__ == "__main__":
    main(*sys.argv[1:3])
