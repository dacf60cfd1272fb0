"""A logic that stands in two places is changed in one of them: runs of copied lines are counted."""

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src"

RUN = 6
"""Lines that make a copy."""
MOST_PAIRS = 27
"""Pairs of files, or a file with itself, that may share a run to the letter."""
PASSED_OVER = re.compile(r'(#|"""|import\b|from\b)|\W*$')
"""Comments, docstrings of one line, imports, blank lines and lone punctuation."""


def code_of(text: str) -> list[str]:
    """The lines that count, with white space folded."""
    folded = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in folded if not PASSED_OVER.match(line)]


def copied(files: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The pairs of files, by name and text, that share a run."""
    places = defaultdict(list)
    for name, text in files:
        lines = code_of(text)
        for start in range(len(lines) - RUN + 1):
            places[tuple(lines[start : start + RUN])].append((name, start))
    return {
        (one, two)
        for found in places.values()
        for (one, first), (two, second) in combinations(found, 2)
        if one != two or second - first >= RUN
    }


def test_few_runs_of_lines_stand_in_two_places() -> None:
    files = [path for path in sorted(ROOT.rglob("*.py")) if "tests" not in path.parts]
    pairs = sorted(copied((str(p.relative_to(ROOT)), p.read_text("utf-8")) for p in files))
    assert len(pairs) <= MOST_PAIRS, "\n".join(f"{one} ~ {two}" for one, two in pairs)


def test_a_copied_run_is_seen_whatever_stands_between_its_lines() -> None:
    lines = [f"value_{n} = {n}" for n in range(RUN)]
    plain = "\n".join(lines)
    spread = "\n\n    # why\n    ".join(lines)
    other = "\n".join(lines[1:])
    files = [("a.py", plain), ("b.py", spread), ("c.py", other), ("d.py", f"{plain}\n{plain}")]
    assert copied(files) == {("a.py", "b.py"), ("a.py", "d.py"), ("b.py", "d.py"), ("d.py", "d.py")}
