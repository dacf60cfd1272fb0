"""`RunFolders`: the runs and studies of a folder by name, each read again when it has changed."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from practicum.analysis.run_view import RunView, Unreadable, read_run
from practicum.core.errors import UserError
from practicum.store.run_dir import EVALS, NAME, RunDir, list_runs
from practicum.store.study_dir import StudyDir, list_studies

FRESH_S = 1.0
"""How long a run in training is believed as it was read: its time left moves with the clock."""

KEPT = 200
"""Results of statistics over seeds and tasks that are kept: each takes seconds."""

T = TypeVar("T")
Stamp = tuple[object, ...]


class NotThere(UserError):
    """A run, study or episode that a URL names and that there is not."""


class RunFolders:
    """The runs of a folder: `first`, or `study/seed_0` of a study.

    Names come from URLs, so each part must be a run's name: no other file is ever opened.
    """

    def __init__(self, runs_dir: Path) -> None:
        self.path = runs_dir
        self._views: dict[str, tuple[Stamp, float, RunView]] = {}
        self._lock = threading.Lock()
        self._worked_out: OrderedDict[Hashable, Any] = OrderedDict()

    def run(self, name: str) -> RunDir:
        """A run by its name."""
        parts = name.split("/")
        if len(parts) <= 2 and all(NAME.fullmatch(part) for part in parts):
            path = self.path.joinpath(*parts)
            if RunDir.is_run(path):
                return RunDir(path)
        raise NotThere(f"there is no run {name!r} in {self.path}; the first page lists those there")

    def study(self, name: str) -> StudyDir:
        """A study by its name."""
        if NAME.fullmatch(name) and StudyDir.is_study(self.path / name):
            return StudyDir(self.path / name)
        raise NotThere(
            f"there is no study {name!r} in {self.path}; the first page lists those there"
        )

    def name_of(self, run: RunDir) -> str:
        """How a URL names a run."""
        return run.path.relative_to(self.path).as_posix()

    def view(self, name: str) -> RunView:
        """The run as its folder shows it now."""
        run = self.run(name)
        stamp = stamp_of(run)
        with self._lock:
            known = self._views.get(name)
        now = time.monotonic()
        if known is not None and known[0] == stamp:
            is_training = known[2].pid is not None
            if not is_training or now - known[1] < FRESH_S:
                return known[2]
        view = read_run(run, with_episodes=False)
        with self._lock:
            self._views[name] = (stamp, now, view)
        return view

    def views(self) -> tuple[dict[str, RunView], list[Unreadable]]:
        """Every run outside of studies by name; one that is damaged does not hide the others."""
        return self._read(self.name_of(run) for run in list_runs(self.path))

    def seeds(self, study: StudyDir) -> dict[str, RunView]:
        """The runs of a study that were started and can be read, by name."""
        return self._read(self.name_of(run) for run in study.runs().values())[0]

    def studies(self) -> list[StudyDir]:
        """Every study, by name."""
        return list_studies(self.path)

    def worked_out(self, what: str, views: Sequence[RunView], work: Callable[[], T]) -> T:
        """What a function makes of the evaluations of runs, made again when there are more."""
        key = (what, *((view.path, _changed(view.path / EVALS)) for view in views))
        with self._lock:
            if key in self._worked_out:
                found: T = self._worked_out[key]
                return found
        made = work()
        with self._lock:
            self._worked_out[key] = made
            while len(self._worked_out) > KEPT:
                self._worked_out.popitem(last=False)
        return made

    def _read(self, names: Iterator[str]) -> tuple[dict[str, RunView], list[Unreadable]]:
        views: dict[str, RunView] = {}
        unreadable: list[Unreadable] = []
        for name in names:
            try:
                views[name] = self.view(name)
            except UserError as error:
                unreadable.append(Unreadable(name, str(error)))
        return views, unreadable


def stamp_of(run: RunDir) -> Stamp:
    """What differs once anything that the pages show of a run has changed."""
    evals = run.path / EVALS
    files = (run.metrics_path, run.facts_path, run.config_path, run.checkpoints_path, evals)
    return (run.trainer_pid(), *map(_changed, files))


def folder_stamp(folder: Path) -> Stamp:
    """The same for all runs of a folder; what its list shows."""
    runs = [*list_runs(folder), *(run for s in list_studies(folder) for run in s.runs().values())]
    return tuple((str(run.path), stamp_of(run)) for run in runs)


def _changed(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
