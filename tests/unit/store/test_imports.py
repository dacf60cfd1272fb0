from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from practicum.core.sample import Episode
from practicum.core.score import Label, Score
from practicum.core.task import Task
from practicum.store.trace_store import ImportProgress, SqliteTraceStore, Stored

MakeEpisode = Callable[..., Episode]
PROGRESS = ImportProgress(content="c", format="art", file="a.jsonl", position=2, refused=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteTraceStore]:
    with SqliteTraceStore(tmp_path / "traces.sqlite") as opened:
        yield opened


def test_the_same_episode_is_kept_once(store: SqliteTraceStore, make_episode: MakeEpisode) -> None:
    a, b = make_episode("a"), make_episode("b")
    rescored = replace(a, score=Score(components={"other": 0.0}))
    assert store.add_imported([a, a, b]) == Stored(kept=2, doubled=1)
    assert store.add_imported([b, rescored]) == Stored(kept=0, doubled=2)
    assert list(store.episodes()) == [a, b]


def test_an_identity_tells_what_is_the_same(
    store: SqliteTraceStore, make_episode: MakeEpisode
) -> None:
    first, second = make_episode("a", value=1.0), make_episode("b", value=2.0)
    same = {"a": "session 7", "b": "session 7"}
    assert store.add_imported([first, second], identities=same) == Stored(kept=1, doubled=1)
    assert list(store.query()) == [first]


def test_a_known_task_stays_as_it_was(store: SqliteTraceStore, make_episode: MakeEpisode) -> None:
    known = Task(id="t1", env="math", split="heldout", level=3, instruction="3x = 9")
    store.add(make_episode("a"), attempt=1, step=1, purpose="train", task=known)
    said = Task(id="t1", env="math", split="train", instruction="other words")
    store.add_imported([make_episode("b")], tasks=[said])
    assert store.task("math", "t1") == known


def test_imports_count_beside_the_episodes_of_a_resumed_run(
    store: SqliteTraceStore, make_episode: MakeEpisode
) -> None:
    store.begin_attempt(1, 0)
    store.add(make_episode("old"), attempt=1, step=1, purpose="train")
    store.add_imported([make_episode("imported")])
    store.begin_attempt(2, 0)
    store.add(make_episode("new"), attempt=2, step=1, purpose="train")
    assert [e.trace.id for e in store.episodes()] == ["imported", "new"]


def test_progress_is_kept_with_the_episodes_or_not_at_all(
    store: SqliteTraceStore, make_episode: MakeEpisode
) -> None:
    assert store.import_progress("c", "art") == ImportProgress(content="c", format="art")
    store.add_imported([make_episode("a")], progress=PROGRESS)
    assert store.import_progress("c", "art") == replace(PROGRESS, kept=1)
    label = Label(episode_id="b", value=1.0, author="x", created_at=0.0)

    def half() -> Iterator[Label]:
        yield label
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.add_imported(
            [make_episode("b")], labels=half(), progress=replace(PROGRESS, position=9)
        )
    assert store.import_progress("c", "art").position == 2
    assert [e.trace.id for e in store.episodes()] == ["a"]
    assert list(store.labels()) == []


def test_progress_of_other_options_is_another_matter(
    store: SqliteTraceStore, make_episode: MakeEpisode
) -> None:
    store.add_imported([make_episode("a")], progress=PROGRESS)
    assert store.import_progress("c", "art", "keep secrets").position == 0
    store.forget_import("c")
    assert store.import_progress("c", "art").position == 0
