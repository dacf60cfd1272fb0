"""`import_traces` (files of other systems into a store) and `score_traces` (score them again)."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from practicum.core.errors import UserError
from practicum.core.interfaces import Reward
from practicum.core.sample import Episode
from practicum.core.task import Outcome, Task
from practicum.store.trace_store import ImportProgress, SqliteTraceStore
from practicum.traces.importers.recognise import Format, files_in, find_format, recognise
from practicum.traces.importers.records import Imported, Part
from practicum.traces.redaction import Redactor

BATCH_PARTS = 200
BATCH_BYTES = 4 << 20
"""A batch is one transaction: it bounds memory, and the work that a kill loses."""
PROBLEMS_KEPT = 100
"""Problems listed in the report; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A record of a file that could not be imported."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{place}: {self.reason}"


@dataclass(slots=True, kw_only=True)
class FileImport:
    """Counts for one file."""

    file: str
    format: str
    kept: int = 0
    doubled: int = 0
    """Episodes that were in the store already."""
    refused: int = 0
    resumed_at: int = 0
    """Records that an earlier, interrupted import had processed."""


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """The result of an import."""

    files: list[FileImport] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    redacted: Counter[str] = field(default_factory=Counter)

    @property
    def kept(self) -> int:
        """Episodes that were new."""
        return sum(file.kept for file in self.files)

    @property
    def doubled(self) -> int:
        """Episodes that were in the store already."""
        return sum(file.doubled for file in self.files)

    @property
    def refused(self) -> int:
        """Records that could not be imported."""
        return sum(file.refused for file in self.files)


class ImportWatcher(Protocol):
    """Progress callbacks of an import."""

    def file_started(self, file: Path, format: str, size: int) -> None:
        """A file of `size` bytes is being read."""

    def read(self, offset: int, episodes: int) -> None:
        """`offset` bytes of it are done; the last batch had this many episodes."""


def import_traces(
    paths: Sequence[Path],
    store: SqliteTraceStore,
    watcher: ImportWatcher,
    *,
    format: str = "",
    env: str = "",
    redact: bool = True,
) -> ImportReport:
    """Import files and folders into a store. Idempotent: each episode is stored once.

    Args:
        paths: Files, or folders of them.
        store: The store.
        watcher: Progress callbacks.
        format: Of all files; recognised by content if empty.
        env: Overrides the environment that the files name.
        redact: Whether to remove secrets.
    """
    report = ImportReport()
    options = " ".join([*([f"env={env}"] if env else []), *([] if redact else ["secrets kept"])])
    redactor = Redactor() if redact else None
    for path, known in find_importable(paths, format):
        if isinstance(known, UserError):
            report.files.append(FileImport(file=str(path), format="", refused=1))
            _remember(report, path, 0, str(known))
            continue
        _FileReader(path, known, store, report, watcher).run(options, env, redactor)
    report.redacted = redactor.counts if redactor else Counter()
    return report


def find_importable(paths: Sequence[Path], format: str) -> list[tuple[Path, Format | UserError]]:
    """Each file with its format, or with why it has none; raises that of a file given itself."""
    chosen = find_format(format) if format else None
    found: list[tuple[Path, Format | UserError]] = []
    for given in paths:
        for path in files_in(given):
            try:
                found.append((path, chosen or recognise(path)))
            except UserError as error:
                if path == given:
                    raise
                found.append((path, error))
    return found


class _FileReader:
    """Imports one file, from where an earlier import of it stopped."""

    def __init__(
        self,
        path: Path,
        format: Format,
        store: SqliteTraceStore,
        report: ImportReport,
        watcher: ImportWatcher,
    ) -> None:
        self._path = path
        self._format = format
        self._store = store
        self._report = report
        self._watcher = watcher
        self._row = FileImport(file=str(path), format=format.name)
        report.files.append(self._row)

    def run(self, options: str, env: str, redactor: Redactor | None) -> None:
        content, size = _content_hash(self._path)
        progress = self._store.import_progress(content, self._format.name, options)
        self._watcher.file_started(self._path, self._format.name, size)
        if progress.is_done and not progress.refused:
            self._row.doubled = progress.kept + progress.doubled
            return
        if progress.is_done:  # it had problems: read it again, to report them again
            progress = ImportProgress(content=content, format=self._format.name, options=options)
        progress = replace(progress, file=str(self._path.absolute()))
        self._row.resumed_at = progress.position
        self._row.refused = progress.refused
        parts = self._format.read(self._path, progress.position)
        for batch in _batches(parts):
            found = [_prepared(one, env, redactor) for part in batch for one in part.found]
            progress = self._store_batch(progress, batch, found)
            self._watcher.read(batch[-1].offset, len(found))
        self._store.add_imported([], progress=replace(progress, is_done=True))
        self._watcher.read(size, 0)

    def _store_batch(
        self, progress: ImportProgress, batch: list[Part], found: list[Imported]
    ) -> ImportProgress:
        wrong = [part for part in batch if part.problem]
        after = replace(
            progress,
            position=progress.position + len(batch),
            refused=progress.refused + len(wrong),
        )
        stored = self._store.add_imported(
            [one.episode for one in found],
            tasks=[one.task for one in found],
            labels=[label for one in found for label in one.labels],
            identities={one.episode.trace.id: one.identity for one in found if one.identity},
            progress=after,
        )
        self._row.kept += stored.kept
        self._row.doubled += stored.doubled
        self._row.refused += len(wrong)
        for part in wrong:
            _remember(self._report, self._path, part.line, part.problem)
        return replace(after, kept=after.kept + stored.kept, doubled=after.doubled + stored.doubled)


def _remember(report: ImportReport, path: Path, line: int, reason: str) -> None:
    if len(report.problems) < PROBLEMS_KEPT:
        report.problems.append(Problem(file=str(path), line=line, reason=reason))


def _batches(parts: Iterator[Part]) -> Iterator[list[Part]]:
    batch: list[Part] = []
    begun = 0
    for part in parts:
        batch.append(part)
        if len(batch) >= BATCH_PARTS or part.offset - begun > BATCH_BYTES:
            yield batch
            batch, begun = [], part.offset
    if batch:
        yield batch


def _prepared(one: Imported, env: str, redactor: Redactor | None) -> Imported:
    if env:
        trace = replace(one.episode.trace, env=env)
        one = replace(
            one, episode=replace(one.episode, trace=trace), task=replace(one.task, env=env)
        )
    if redactor is None:
        return one
    return replace(
        one,
        episode=redactor.episode(one.episode),
        task=redactor.task(one.task),
        labels=tuple(map(redactor.label, one.labels)),
    )


def _content_hash(path: Path) -> tuple[str, int]:
    """SHA-256 and size of a file, or of all files of a folder with their names."""
    digest, size = hashlib.sha256(), 0
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    for file in files:
        if path.is_dir():
            digest.update(f"{file.relative_to(path)}\0".encode())
        with file.open("rb") as opened:
            while chunk := opened.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
    return digest.hexdigest(), size


class ScoreWatcher(Protocol):
    """Progress callback of scoring."""

    def scored(self, episode: Episode) -> None:
        """An episode has its new score."""


@dataclass(slots=True, kw_only=True)
class ScoreReport:
    """Scores of stored episodes, summed up."""

    scored: int = 0
    unscored: int = 0
    total: float = 0.0
    components: dict[str, float] = field(default_factory=dict)
    """Sums by component, over the scored episodes."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why the others could not be scored."""

    @property
    def mean(self) -> float | None:
        """Mean score of the scored episodes."""
        return self.total / self.scored if self.scored else None

    @property
    def means(self) -> dict[str, float]:
        """Mean of each component."""
        return {name: total / self.scored for name, total in self.components.items()}


async def score_traces(
    store: SqliteTraceStore, reward: Reward, watcher: ScoreWatcher, *, where: str = ""
) -> ScoreReport:
    """Score stored episodes with a reward and store the scores, a transaction per batch."""
    report = ScoreReport()
    rows = store.query_rows(where)
    while batch := list(islice(rows, BATCH_PARTS)):
        scored: list[tuple[int, Episode]] = []
        for row, episode in batch:
            new = await rescored(store, reward, episode)
            scored.append((row, new))
            _count(report, new)
            watcher.scored(new)
        store.rescore(scored)
    return report


async def rescored(store: SqliteTraceStore, reward: Reward, episode: Episode) -> Episode:
    """A stored episode with a reward's score; does not write to the store."""
    trace = episode.trace
    task = store.task(trace.env, trace.task_id) or Task(
        id=trace.task_id, env=trace.env, split="train"
    )
    outcome = episode.outcome or Outcome(success=None)
    return replace(episode, score=await reward.score(task, trace, outcome))


def _count(report: ScoreReport, episode: Episode) -> None:
    value = episode.score.value
    if value is None:
        report.unscored += 1
        report.reasons[episode.score.reason or "the reward gave none"] += 1
        return
    report.scored += 1
    report.total += value
    for name, component in episode.score.components.items():
        report.components[name] = report.components.get(name, 0.0) + (component or 0.0)
