"""Draws what `make demo` printed as an SVG, from the training on.

make demo 2>&1 | tee demo.log
python scripts/run_picture.py demo.log docs/demo.svg
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 80
BEGIN = re.compile(r"\S*practicum train ")
"""The first line that is shown; what comes before is installation."""


def main(log: str, target: str) -> None:
    """Write the picture."""
    lines = Path(log).read_text(encoding="utf-8").splitlines()
    first = next(n for n, line in enumerate(lines) if BEGIN.match(line))
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    for line in lines[first:]:
        is_command = re.match(r"\S*practicum ", line) is not None
        console.print(Text(line.rstrip(), style="bold" if is_command else ""))
    drawn = console.export_svg(title="make demo")
    # The reader's own fixed-width font does; the picture must not fetch one.
    Path(target).write_text(re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL))


if __name__ == "__main__":
    main(*sys.argv[1:3])
