"""How long the command line and the package take to open.

Runs each command in fresh interpreters, in turns, and sets it beside an interpreter that does
nothing. The first round, which fills the file cache, is not counted.

    python benchmarks/startup.py --rounds 10
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

HELP = "import sys; sys.argv[0] = 'practicum'; from practicum.cli.main import main; main()"

CASES: dict[str, tuple[tuple[str, ...], float | None]] = {
    "python -c pass": (("-c", "pass"), None),
    "import practicum": (("-c", "import practicum"), 0.5),
    "practicum --help": (("-c", HELP, "--help"), 0.3),
}
"""What is run, and the seconds it may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One command's times in seconds."""

    command: str
    rounds: int
    median_s: float
    fastest_s: float
    slowest_s: float
    above_python_s: float
    """Median beyond the interpreter's own."""
    bar_s: float | None


def seconds(arguments: tuple[str, ...]) -> float:
    """Wall time of one fresh interpreter."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def measure(rounds: int) -> list[Row]:
    """All cases, one after the other in each round, so that a busy moment hits them alike."""
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for turn in range(rounds + 1):
        for name, (arguments, _) in CASES.items():
            taken = seconds(arguments)
            if turn:
                times[name].append(taken)
    bare = statistics.median(times["python -c pass"])
    return [
        Row(
            command=name,
            rounds=rounds,
            median_s=statistics.median(taken),
            fastest_s=min(taken),
            slowest_s=max(taken),
            above_python_s=statistics.median(taken) - bare,
            bar_s=CASES[name][1],
        )
        for name, taken in times.items()
    ]


def print_table(rows: list[Row]) -> None:
    table = Table(title=f"Start-up, {rows[0].rounds} rounds, Python {sys.version.split()[0]}")
    table.add_column("command")
    for heading in ("median s", "fastest s", "slowest s", "above python s", "bar s"):
        table.add_column(heading, justify="right")
    for row in rows:
        numbers = (row.median_s, row.fastest_s, row.slowest_s, row.above_python_s)
        bar = "" if row.bar_s is None else f"{row.bar_s:.1f}"
        table.add_row(row.command, *(f"{number:.3f}" for number in numbers), bar)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times opening practicum.")
    parser.add_argument("--rounds", type=int, default=10, help="rounds to count")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    rows = measure(arguments.rounds)
    if arguments.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
    else:
        print_table(rows)


if __name__ == "__main__":
    main()
