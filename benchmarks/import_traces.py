"""How fast traces are imported, and how much memory that takes.

Makes files of generated conversations with tool calls, imports each in a fresh process, redaction
and all, and prints seconds, traces a second and the most memory the process held. Memory is flat
when ten times the traces take hardly more of it.

    python benchmarks/import_traces.py --sizes 1000 10000
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

BAR_TRACES = 10_000
BAR_S = 60.0
"""Ten thousand traces are imported in under a minute on two cores."""

GROWTH = 1.25
"""How much more memory ten times the traces may take."""

SENTENCE = (
    "the file folder lists reads writes counts lines users groups then checks that every name is "
    "there and prints what was found before it goes on with the next one until nothing is left"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One import."""

    traces: int
    file_mb: float
    seconds: float
    a_second: float
    peak_mb: float
    store_mb: float


def write_traces(path: Path, count: int, seed: int = 0) -> None:
    """Conversations of six turns with tool calls, about five thousand characters each."""
    chance = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(chance.choices(SENTENCE.split(), k=words))

    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            messages = [
                {"role": "system", "content": text(60)},
                {"role": "user", "content": f"task {number}: {text(30)}"},
            ]
            for turn in range(5):
                call = {
                    "id": f"call_{turn}",
                    "type": "function",
                    "function": {"name": "bash", "arguments": json.dumps({"script": text(12)})},
                }
                messages.append({"role": "assistant", "content": text(25), "tool_calls": [call]})
                messages.append(
                    {"role": "tool", "tool_call_id": f"call_{turn}", "content": text(90)}
                )
            messages.append({"role": "assistant", "content": f"done {number}: {text(30)}"})
            row = {"messages": messages, "reward": number % 2, "success": bool(number % 2)}
            file.write(json.dumps(row) + "\n")


def import_file(path: Path, store: Path) -> None:
    """Import a file in this process and print what it took, as the parent reads it."""
    from practicum.store.trace_store import SqliteTraceStore
    from practicum.traces.importing import import_traces

    class Silent:
        def file_started(self, file: Path, format: str, size: int) -> None:
            """Nothing is shown."""

        def read(self, offset: int, episodes: int) -> None:
            """Nothing is shown."""

    start = time.perf_counter()
    with SqliteTraceStore(store) as opened:
        report = import_traces([path], opened, Silent())
    seconds = time.perf_counter() - start
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"kept": report.kept, "seconds": seconds, "peak_mb": peak_kb / 1024}))


def measure(count: int, folder: Path) -> Row:
    """One import in a process of its own."""
    path, store = folder / f"{count}.jsonl", folder / f"{count}.sqlite"
    write_traces(path, count)
    command = [sys.executable, __file__, "--import-file", str(path), str(store)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    if found["kept"] != count:
        raise SystemExit(f"{found['kept']} of {count} traces were kept")
    return Row(
        traces=count,
        file_mb=path.stat().st_size / 1e6,
        seconds=found["seconds"],
        a_second=count / found["seconds"],
        peak_mb=found["peak_mb"],
        store_mb=store.stat().st_size / 1e6,
    )


def shortfalls(rows: list[Row]) -> list[str]:
    """What does not hold of what is promised."""
    slow = [
        f"{row.traces} traces took {row.seconds:.1f} s; {BAR_S:.0f} s are allowed"
        for row in rows
        if row.seconds > BAR_S * max(1.0, row.traces / BAR_TRACES)
    ]
    small, large = min(rows, key=lambda r: r.traces), max(rows, key=lambda r: r.traces)
    if large.peak_mb > GROWTH * small.peak_mb:
        slow.append(
            f"memory grew from {small.peak_mb:.0f} to {large.peak_mb:.0f} MB, more than "
            f"{GROWTH:.2f} times"
        )
    return slow


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--import-file", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.import_file:
        import_file(*options.import_file)
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(count, Path(folder)) for count in options.sizes]
    problems = shortfalls(rows)
    if options.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "shortfalls": problems}))
    else:
        table = Table(box=None, header_style="bold")
        for heading in ("traces", "file MB", "seconds", "a second", "peak MB", "store MB"):
            table.add_column(heading, justify="right")
        for row in rows:
            cells = (row.file_mb, row.seconds, row.a_second, row.peak_mb, row.store_mb)
            table.add_row(str(row.traces), *(f"{cell:.1f}" for cell in cells))
        Console().print(table)
        print("\n".join(problems) or "as promised")
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
