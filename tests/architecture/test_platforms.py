"""What needs no sandbox loads no module that only POSIX has."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "practicum"
POSIX_ONLY = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
MAY = "sandboxes/"
"""Linux machines are made there, and used by some of `practicum_envs`, and nowhere else."""
SWITCHED = "core/file_locks.py"
"""Asks `sys.platform` first."""


def loaded_at_once(path: Path) -> set[str]:
    """Modules that a file imports outside functions and outside a question about the platform."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_posix_modules_are_loaded_only_where_machines_are_made() -> None:
    faults = []
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith(MAY) and loaded_at_once(path) & POSIX_ONLY:
            faults.append(place)
    assert faults == []


def test_the_locks_ask_which_platform_it_is() -> None:
    text = (ROOT / SWITCHED).read_text(encoding="utf-8")
    assert 'if sys.platform == "win32":\n    import msvcrt' in text
    assert "import fcntl" in text
