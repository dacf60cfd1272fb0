"""What files may not say: where they were written, and that something is still to be done."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
GENERATED = {".git", ".hypothesis", ".venv", "__pycache__", "build", "dist", "runs"}
CACHES = re.compile(r"\..*_cache|.*\.egg-info")
TEXT = {"", ".cfg", ".html", ".ini", ".json", ".md", ".py", ".sh", ".toml", ".yaml", ".yml"}

# Written in pieces, so that this file does not say them itself.
MACHINE = re.compile(
    "|".join(
        [
            # Sandboxes have a /root and a /work of their own.
            r"(?<![\w.~-])/wo" + r"rk/(\.?[a-z]+/|main)",
            r"(?<![\w.~-])/(root/\.[a-z]|opt/(dev|pypi|wheels)\b)",
            r"\.\./" + "shared",
            "pypi" + r"\.org",
            "python" + r"hosted\.org",
            "download" + r"\.pytorch\.org",
            "--(extra-)?" + "index-url",
            "--find" + "-links",
        ]
    )
)
UNFINISHED = re.compile(
    "TO" + "DO|FIX" + "ME|X" + "XX|NotImplemented" + r"Error(\(\))?\s*$|\b[Hh]elper"
)


def is_generated(path: Path) -> bool:
    parts = path.relative_to(REPOSITORY).parts
    return any(part in GENERATED or CACHES.fullmatch(part) for part in parts)


FILES = sorted(
    path
    for path in REPOSITORY.rglob("*")
    if path.suffix in TEXT and not is_generated(path) and path.is_file()
)
SOURCES = [path for path in FILES if path.is_relative_to(REPOSITORY / "src")]


def hits(paths: list[Path], pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(REPOSITORY)}:{number} {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_names_one_machine_or_one_registry() -> None:
    found = hits(FILES, MACHINE)
    assert not found, "\n".join(found)


def test_nothing_in_the_source_is_left_to_do() -> None:
    found = hits(SOURCES, UNFINISHED)
    assert not found, "\n".join(found)


def test_the_files_of_the_repository_are_the_ones_read() -> None:
    assert {REPOSITORY / "Makefile", REPOSITORY / ".ci" / "run", Path(__file__)} <= set(FILES)
    assert REPOSITORY / "src" / "practicum" / "core" / "trace.py" in SOURCES


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("cd /wo" + "rk/main", MACHINE),
        ("see ../sha" + "red/design.md", MACHINE),
        ("pip install --extra-in" + "dex-url https://mirror.example/simple", MACHINE),
        ("# TO" + "DO: write this", UNFINISHED),
        ("raise NotImplemented" + "Error", UNFINISHED),
    ],
    ids=["path", "folder-beside", "registry", "note", "placeholder"],
)
def test_what_is_looked_for_is_found(text: str, pattern: re.Pattern[str]) -> None:
    assert pattern.search(text)
