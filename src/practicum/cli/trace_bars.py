"""Progress of long work on traces."""

from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from practicum.core.sample import Episode

__all__ = ["EpisodesBar", "ImportBar"]


class _Bar:
    """A bar on standard error that is there inside a `with` block."""

    _bars: Progress

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bars.stop()


class ImportBar(_Bar):
    """How much of a file has been imported; says which format it is in."""

    def __init__(self, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            DownloadColumn(),
            TextColumn("{task.fields[episodes]} episodes"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bars.add_task("reading", total=None, episodes=0)
        self._episodes = 0

    def file_started(self, file: Path, format: str, size: int) -> None:
        """A file is being read."""
        if not self._quiet:
            self._console.print(f"{file}: {format}", markup=False, soft_wrap=True)
        self._bars.update(self._task, description=file.name, total=size, completed=0)

    def read(self, offset: int, episodes: int) -> None:
        """So many bytes of it are done."""
        self._episodes += episodes
        self._bars.update(self._task, completed=offset, episodes=self._episodes)


class EpisodesBar(_Bar):
    """How many episodes are done."""

    def __init__(self, label: str, total: int) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bars.add_task(label, total=total)

    def one(self) -> None:
        """One more."""
        self._bars.advance(self._task)

    def scored(self, episode: Episode) -> None:
        """One more has its new score."""
        self.one()
