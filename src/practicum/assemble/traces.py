"""Traces from elsewhere into a store, and stored ones scored again."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol, cast

from practicum.assemble.rewards import build_reward
from practicum.core.config import RewardConfig
from practicum.core.config.reward_components import JudgeComponent, TurnsComponent
from practicum.core.errors import ConfigError, UserError
from practicum.core.interfaces import Environment, Reward
from practicum.core.sample import Episode
from practicum.core.task import Outcome, Task
from practicum.importers import Format, Imported, Part, files_in, find_format, recognise
from practicum.redaction import Redactor
from practicum.store import ImportProgress, SqliteTraceStore

__all__ = [
    "FileImport",
    "ImportReport",
    "ImportWatcher",
    "Problem",
    "ScoreReport",
    "import_traces",
    "rescored",
    "reward_for_traces",
    "score_traces",
]

BATCH_PARTS = 200
BATCH_BYTES = 4 << 20
"""A batch is stored at once, so it bounds both the memory and what a kill makes do again."""
PROBLEMS_KEPT = 100
"""Reasons that are remembered for the report; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A part of a file that could not be used."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{place}: {self.reason}"


@dataclass(slots=True, kw_only=True)
class FileImport:
    """What became of one file."""

    file: str
    format: str
    kept: int = 0
    doubled: int = 0
    """Episodes that were in the store already."""
    refused: int = 0
    resumed_at: int = 0
    """Parts that an earlier import, which did not get to the end, had dealt with."""


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """What became of all files."""

    files: list[FileImport] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    redacted: Counter[str] = field(default_factory=Counter)

    @property
    def kept(self) -> int:
        """Episodes that are new in the store."""
        return sum(file.kept for file in self.files)

    @property
    def doubled(self) -> int:
        """Episodes that were there already."""
        return sum(file.doubled for file in self.files)

    @property
    def refused(self) -> int:
        """Parts of files that could not be used."""
        return sum(file.refused for file in self.files)


class ImportWatcher(Protocol):
    """Is told how an import goes."""

    def file_started(self, file: Path, format: str, size: int) -> None:
        """A file is being read."""
        ...

    def read(self, offset: int, episodes: int) -> None:
        """So many bytes of it have been dealt with; so many episodes were in the last of them."""
        ...


def import_traces(
    paths: Sequence[Path],
    store: SqliteTraceStore,
    watcher: ImportWatcher,
    *,
    format: str = "",
    env: str = "",
    redact: bool = True,
) -> ImportReport:
    """Read files and folders into a store; each episode once, however often this is called.

    Args:
        paths: Files, or folders of them.
        store: Where the episodes go.
        watcher: Is told how it goes.
        format: Of all files; recognised from their content when empty.
        env: The environment to file the episodes under, instead of what the source says.
        redact: Whether secrets are taken out; only ever False where the user said so.
    """
    chosen = find_format(format) if format else None
    report = ImportReport()
    options = " ".join([*([f"env={env}"] if env else []), *([] if redact else ["secrets kept"])])
    redactor = Redactor() if redact else None
    for given in paths:
        for path in files_in(given):
            try:
                known = chosen or recognise(path)
            except UserError as error:
                if path == given:
                    raise
                report.files.append(FileImport(file=str(path), format="", refused=1))
                _remember(report, path, 0, str(error))
                continue
            reader = _FileReader(path, known, store, report, watcher)
            reader.run(options, env, redactor)
    report.redacted = redactor.counts if redactor else Counter()
    return report


class _FileReader:
    """Brings one file into the store, from where an earlier import of it stopped."""

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
        if progress.is_done:  # read again, so that what is wrong with it is said again
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
        ahead = replace(
            progress,
            position=progress.position + len(batch),
            refused=progress.refused + len(wrong),
        )
        stored = self._store.add_imported(
            [one.episode for one in found],
            tasks=[one.task for one in found],
            labels=[label for one in found for label in one.labels],
            identities={one.episode.trace.id: one.identity for one in found if one.identity},
            progress=ahead,
        )
        self._row.kept += stored.kept
        self._row.doubled += stored.doubled
        self._row.refused += len(wrong)
        for part in wrong:
            _remember(self._report, self._path, part.line, part.problem)
        return replace(ahead, kept=ahead.kept + stored.kept, doubled=ahead.doubled + stored.doubled)


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
    """A hash of a file, or of all files of a folder with their names; and their size."""
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
    """Is told how scoring goes."""

    def scored(self, episode: Episode) -> None:
        """One more episode has its new score."""
        ...


@dataclass(slots=True, kw_only=True)
class ScoreReport:
    """What a reward said of stored episodes."""

    scored: int = 0
    unscored: int = 0
    total: float = 0.0
    components: dict[str, float] = field(default_factory=dict)
    """Sum by component, over the episodes that could be scored."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why the others could not."""

    @property
    def mean(self) -> float | None:
        """Of those that could be scored."""
        return self.total / self.scored if self.scored else None

    @property
    def means(self) -> dict[str, float]:
        """The same of each component."""
        return {name: total / self.scored for name, total in self.components.items()}


async def score_traces(
    store: SqliteTraceStore, reward: Reward, watcher: ScoreWatcher, *, where: str = ""
) -> ScoreReport:
    """Give stored episodes the scores that a reward has for them, in batches that are whole."""
    report = ScoreReport()
    rows = store.query_rows(where)
    while batch := list(islice(rows, BATCH_PARTS)):
        scored: list[tuple[int, Episode]] = []
        for row, episode in batch:
            again = await rescored(store, reward, episode)
            scored.append((row, again))
            _count(report, again)
            watcher.scored(again)
        store.rescore(scored)
    return report


async def rescored(store: SqliteTraceStore, reward: Reward, episode: Episode) -> Episode:
    """A stored episode with the score that a reward has for it; the store is left as it is."""
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


class _RecordedEnvironment:
    """Stands for where stored episodes came from, as far as a reward asks about it."""

    name = "recorded traces"

    def __init__(self, default_reward: str) -> None:
        self.default_reward = default_reward


def reward_for_traces(config: RewardConfig) -> Reward:
    """The reward that stored episodes are scored with, whatever they came from."""
    if any(isinstance(part, JudgeComponent) for part in config.components):
        raise ConfigError(
            "the component 'judge' compares episodes of a group and cannot score stored ones one "
            "by one; leave it out"
        )
    pays_turns = any(isinstance(part, TurnsComponent) for part in config.components)
    made_for = "turns" if config.name == "turns" or pays_turns else "os"
    return build_reward(config, cast(Environment, _RecordedEnvironment(made_for)))
