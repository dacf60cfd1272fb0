"""Reading examples from a `DatasetSource`: a store, a run, a dataset or a file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from practicum.core.config.config_sections import EnvConfig
from practicum.core.errors import UserError
from practicum.core.sample import Episode, Example
from practicum.core.user_code import names_code
from practicum.store.run_dir import RunDir, find_run
from practicum.store.trace_store import SqliteTraceStore
from practicum.store.where import not_evaluated
from practicum.traces.datasets.dataset_reading import FORMATS, Fault, read_examples
from practicum.traces.datasets.dataset_writing import checked_file
from practicum.traces.datasets.examples import episode_examples, verdict
from practicum.traces.datasets.splits import LeftOut

REFERENCE = "reference"
"""The source that stands for an environment's reference solutions."""
STORES = (".sqlite", ".db")
"""Suffixes of stores."""
HELD_OUT = "its task is held out for evaluations"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSource:
    """What a dataset is built from."""

    name: str
    """A store, a run, a dataset, a file, a function of the user's, or `reference`."""
    key: str = "--from"
    """The option or config key that names it, for messages."""
    where: str = ""
    """Condition on the episodes of a store or a run."""
    good_at: float = 0.5
    """See `examples.verdict`."""
    env: EnvConfig | None = None
    """The environment, for `reference`."""
    runs_dir: Path = Path("runs")
    revise: Callable[[Episode], Episode] = lambda episode: episode
    """Applied to each episode of a store, such as to replace its score."""
    unmarked: bool | None = None
    """Label of a file's rows that have none; True for SFT, whose files have no labels."""


DatasetWatcher = Callable[[], None]
"""Called for each episode or example read (progress)."""


def recorded_examples(
    source: DatasetSource, left_out: LeftOut, watch: DatasetWatcher = lambda: None
) -> Iterator[Example]:
    """The examples of a store, a run, a dataset or a file, in order."""
    path = Path(source.name)
    if path.is_dir() and (path / "dataset.json").is_file():
        train = checked_file(path, "train")
        if train is None:
            raise UserError(f"{path} has no training rows; build the dataset again")
        path = train
    if path.suffix.removeprefix(".") in FORMATS or names_code(source.name):
        return _from_file(path, source, left_out, watch)
    return _from_store(store_path(source), source, left_out, watch)


def is_store(source: DatasetSource) -> bool:
    """Whether a source is a store or a run, rather than a file, a dataset or `reference`."""
    path = Path(source.name)
    is_file = path.suffix.removeprefix(".") in FORMATS or (path / "dataset.json").is_file()
    return source.name != REFERENCE and not is_file and not names_code(source.name)


def _from_file(
    path: Path, source: DatasetSource, left_out: LeftOut, watch: DatasetWatcher
) -> Iterator[Example]:
    if source.where:
        raise UserError(
            f"--where asks a store or a run, and {path} is none; choose its rows with --only and "
            "--min-score"
        )

    def fault(found: Fault) -> None:
        left_out.add(found.reason, found.place)

    for example in read_examples(path, fault):
        watch()
        unmarked = example.label is None and not example.pair
        yield replace(example, label=source.unmarked) if unmarked else example


def store_path(source: DatasetSource) -> Path:
    """The SQLite file of a store or a run."""
    path = Path(source.name)
    if path.suffix in STORES:
        return path
    if path.is_dir() and not RunDir.is_run(path) and (path / "traces.sqlite").is_file():
        return path / "traces.sqlite"
    try:
        return find_run(path, source.runs_dir).traces_path
    except UserError as error:
        raise UserError(
            f"{source.key} {source.name!r} is no store (*.sqlite), run, dataset or file "
            f"(*.{', *.'.join(FORMATS)}), FILE.py:FUNCTION, nor {REFERENCE!r}: {error}"
        ) from None


def _from_store(
    path: Path, source: DatasetSource, left_out: LeftOut, watch: DatasetWatcher
) -> Iterator[Example]:
    with SqliteTraceStore(path, read_only=True) as store:
        where = not_evaluated(source.where)
        if evaluated := store.count_where(source.where) - store.count_where(where):
            left_out.add(HELD_OUT, "episodes of evaluations", evaluated)
        labels: dict[str, float] = {}
        corrections: dict[str, str] = {}
        for given in store.labels(suggestions=False):  # the newest of each counts
            labels[given.episode_id] = given.value
            if given.correction:
                corrections[given.episode_id] = given.correction
        held_out: dict[tuple[str, str], bool] = {}
        for episode in store.query(where):
            watch()
            key = episode.trace.env, episode.trace.task_id
            if key not in held_out:
                task = store.task(*key)
                held_out[key] = task is not None and task.split == "heldout"
            if held_out[key]:
                left_out.add(HELD_OUT, episode.trace.id)
                continue
            name = episode.trace.id
            said = labels.get(name), corrections.get(name, "")
            yield from source_examples(source.revise(episode), said[0], source, left_out, said[1])


def source_examples(
    episode: Episode,
    label: float | None,
    source: DatasetSource,
    left_out: LeftOut,
    correction: str = "",
) -> Iterator[Example]:
    """The examples of one episode; `label` and `correction` are those of people."""
    good = verdict(episode, label, source.good_at)
    yield from episode_examples(episode, good, left_out, correction)
