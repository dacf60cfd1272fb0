"""Where the examples of a training set come from: stores, runs, files, reference solutions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from practicum.assemble.environments import open_environment, run_and_close
from practicum.assemble.players import scripted_player
from practicum.core.config import EnvConfig, RunConfig
from practicum.core.errors import UserError
from practicum.core.example import Example
from practicum.core.interfaces import Environment
from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.datasets import (
    FORMATS,
    BuildOptions,
    Built,
    Fault,
    LeftOut,
    build,
    checked_file,
    episode_examples,
    read_examples,
    reference_episodes,
    verdict,
)
from practicum.rollouts import run_episode
from practicum.store import RunDir, SqliteTraceStore, find_run

__all__ = [
    "REFERENCE",
    "STORES",
    "DatasetSource",
    "DatasetWatcher",
    "build_dataset",
    "is_store",
    "play_references",
    "recorded_examples",
    "store_path",
]

REFERENCE = "reference"
"""The source that is an environment's own solutions."""
REFERENCE_TASKS = 500
"""Solutions played unless told otherwise."""
REFERENCE_TURNS = 1000
"""A solution is as long as it is."""
STORES = (".sqlite", ".db")
"""How the names of stores end."""
HELD_OUT = "its task is held out for evaluations"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSource:
    """What a training set is made from."""

    name: str
    """A store, a run, a dataset, a file, or `reference`."""
    where: str = ""
    """Which episodes of a store or a run."""
    good_at: float = 0.5
    """The score from which an episode is good, where nothing else says so."""
    env: EnvConfig | None = None
    """The environment, for `reference`."""
    runs_dir: Path = Path("runs")
    revise: Callable[[Episode], Episode] = lambda episode: episode
    """Gives an episode of a store as it is to be used, such as with another score."""
    unmarked: bool | None = None
    """What rows of a file are taken for that are called neither good nor bad; somebody who writes
    answers down to be imitated does not mark them."""


DatasetWatcher = Callable[[], None]
"""Told of each episode or example that was read."""


async def build_dataset(
    source: DatasetSource,
    options: BuildOptions,
    watch: DatasetWatcher = lambda: None,
    environment: Environment | None = None,
) -> Built:
    """A training set from a source.

    Args:
        source: What it is made from.
        options: What is wanted.
        watch: Told of each episode or row that was read.
        environment: Where reference solutions are played, if one is open already.
    """
    left_out = LeftOut()
    if source.name != REFERENCE:
        return build(recorded_examples(source, left_out, watch), options, left_out)
    if source.where:
        raise UserError("--where asks a store or a run, not solutions; leave it out")
    n = options.n or REFERENCE_TASKS
    if environment is not None:
        episodes = await play_references(environment, n, options.seed, watch)
    elif source.env is not None:
        environment = open_environment(source.env)
        work = play_references(environment, n, options.seed, watch)
        episodes = await run_and_close(environment, work)
    else:
        raise UserError("--from reference needs an environment; add --env math")
    examples = (e for played in episodes for e in _examples(played, None, source, left_out))
    return build(examples, options, left_out)


async def play_references(
    environment: Environment, n: int, seed: int, watch: DatasetWatcher = lambda: None
) -> list[Episode]:
    """Episodes in which an environment's solutions of training tasks were carried out."""
    config = RunConfig(env=EnvConfig(name=environment.name))
    rollouts = config.rollouts.model_copy(update={"max_turns": REFERENCE_TURNS})
    config = config.model_copy(update={"rollouts": rollouts})
    parts = scripted_player(REFERENCE, environment).parts(environment, config)

    async def play(task: Task) -> Episode:
        return await run_episode(parts, task, f"{REFERENCE}/{task.id}", seed)

    return await reference_episodes(environment, n, seed, play, lambda episode: watch())


def recorded_examples(
    source: DatasetSource, left_out: LeftOut, watch: DatasetWatcher = lambda: None
) -> Iterator[Example]:
    """The examples of a store, a run, a dataset or a file, in their order."""
    path = Path(source.name)
    if path.is_dir() and (path / "dataset.json").is_file():
        train = checked_file(path, "train")
        if train is None:
            raise UserError(f"{path} has no training rows; build the dataset again")
        path = train
    if path.suffix.removeprefix(".") in FORMATS:
        return _from_file(path, source, left_out, watch)
    return _from_store(store_path(source), source, left_out, watch)


def is_store(source: DatasetSource) -> bool:
    """Whether a source holds episodes rather than rows or solutions."""
    path = Path(source.name)
    is_file = path.suffix.removeprefix(".") in FORMATS or (path / "dataset.json").is_file()
    return source.name != REFERENCE and not is_file


def _from_file(
    path: Path, source: DatasetSource, left_out: LeftOut, watch: DatasetWatcher
) -> Iterator[Example]:
    if source.where:
        raise UserError(
            f"--where asks a store or a run, and {path} is a file; choose its rows with --only and "
            "--min-score"
        )

    def fault(found: Fault) -> None:
        left_out.add(found.reason, found.place)

    for example in read_examples(path, fault):
        watch()
        unmarked = example.label is None and not example.pair
        yield replace(example, label=source.unmarked) if unmarked else example


def store_path(source: DatasetSource) -> Path:
    """The file with the episodes of a store or a run."""
    path = Path(source.name)
    if path.suffix in STORES:
        return path
    if path.is_dir() and not RunDir.is_run(path) and (path / "traces.sqlite").is_file():
        return path / "traces.sqlite"
    try:
        return find_run(path, source.runs_dir).traces_path
    except UserError as error:
        raise UserError(
            f"--from {source.name!r} is no store (*.sqlite), run, dataset or file "
            f"(*.{', *.'.join(FORMATS)}), nor {REFERENCE!r}: {error}"
        ) from None


def _from_store(
    path: Path, source: DatasetSource, left_out: LeftOut, watch: DatasetWatcher
) -> Iterator[Example]:
    with SqliteTraceStore(path, read_only=True) as store:
        asked = f"({source.where}) and " if source.where else ""
        if evaluated := store.count_where(f"{asked}purpose = eval"):
            left_out.add(HELD_OUT, "episodes of evaluations", evaluated)
        labels = {label.episode_id: label.value for label in store.labels(suggestions=False)}
        held_out: dict[tuple[str, str], bool] = {}
        for episode in store.query(f"{asked}purpose != eval"):
            watch()
            key = episode.trace.env, episode.trace.task_id
            if key not in held_out:
                task = store.task(*key)
                held_out[key] = task is not None and task.split == "heldout"
            if held_out[key]:
                left_out.add(HELD_OUT, episode.trace.id)
                continue
            label = labels.get(episode.trace.id)
            yield from _examples(source.revise(episode), label, source, left_out)


def _examples(
    episode: Episode, label: float | None, source: DatasetSource, left_out: LeftOut
) -> Iterator[Example]:
    yield from episode_examples(episode, verdict(episode, label, source.good_at), left_out)
