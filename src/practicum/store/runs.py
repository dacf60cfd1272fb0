"""The runs of a folder, and how a user names one of them."""

import difflib
from pathlib import Path

from practicum.core.errors import UserError
from practicum.store.run_dir import RunDir

__all__ = ["find_run", "latest_run", "list_runs"]

LATEST = "latest"
SHOWN = 5
"""Run names a message lists."""


def list_runs(runs_dir: Path) -> list[RunDir]:
    """Every run in the folder, the one started last first."""
    if not runs_dir.is_dir():
        return []
    runs = [RunDir(path) for path in sorted(runs_dir.iterdir()) if _is_listed(path)]
    return sorted(runs, key=_last_started, reverse=True)


def latest_run(runs_dir: Path) -> RunDir:
    """The run started last."""
    runs = list_runs(runs_dir)
    if not runs:
        raise UserError(f"there are no runs in {runs_dir}; start one with: practicum train math")
    return runs[0]


def find_run(named: str | Path, runs_dir: Path) -> RunDir:
    """The run a user means by a path, a name in `runs_dir`, or `latest`.

    Example:
        `find_run("latest", Path("runs"))`, `find_run("runs/math-20261115-142233", Path("runs"))`
    """
    path = Path(named)
    if path.name == LATEST:
        return latest_run(path.parent if len(path.parts) > 1 else runs_dir)
    for candidate in (path, runs_dir / path):
        if RunDir.is_run(candidate):
            return RunDir(candidate)
    raise _missing(path, runs_dir)


def _missing(path: Path, runs_dir: Path) -> UserError:
    folder = path.parent if len(path.parts) > 1 and path.parent.is_dir() else runs_dir
    names = [run.name for run in list_runs(folder)]
    if not names:
        return UserError(
            f"there is no run {str(path)!r}, and no runs in {folder}; "
            "start one with: practicum train math"
        )
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UserError(
        f"there is no run {str(path)!r}; {hint}the newest in {folder}: {', '.join(names[:SHOWN])}"
    )


def _is_listed(path: Path) -> bool:
    return not path.name.startswith(".") and RunDir.is_run(path)


def _last_started(run: RunDir) -> float:
    try:
        return run.facts().last_started_at
    except UserError:
        return 0.0  # still listed, after the sound ones; reading its facts says what is wrong
