from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.store.trace_store import SqliteTraceStore


@pytest.fixture
def store(tmp_path: Path, make_episode: Callable[..., Episode]) -> Iterator[SqliteTraceStore]:
    with SqliteTraceStore(tmp_path / "traces.sqlite") as opened:
        opened.add_imported([make_episode("a"), make_episode("b")])
        yield opened


def label(name: str = "a", value: float = 1.0, time: float = 5.0, **more: object) -> Label:
    return Label(episode_id=name, value=value, author="ada", created_at=time, **more)  # type: ignore[arg-type]


def test_labels_come_back_as_they_were_given(store: SqliteTraceStore) -> None:
    given = [
        label(note="clean work"),
        label("b", 0.25, is_suggestion=True, confidence=0.75),
        label("a", 0.0, time=6.0),
    ]
    store.add_labels(given)
    assert list(store.labels()) == given
    assert list(store.labels("a")) == [given[0], given[2]]
    assert list(store.labels(suggestions=True)) == [given[1]]
    assert list(store.labels("a", suggestions=False)) == [given[0], given[2]]


def test_a_label_given_twice_is_one(store: SqliteTraceStore) -> None:
    store.add_label(label())
    store.add_label(label())
    assert list(store.labels()) == [label()]


def test_a_label_can_be_taken_back(store: SqliteTraceStore) -> None:
    store.add_labels([label(), label(value=0.0, time=6.0)])
    store.remove_label(label(value=0.0, time=6.0))
    assert list(store.labels()) == [label()]


def test_labels_of_an_unknown_episode_are_refused_and_none_of_the_batch_is_kept(
    store: SqliteTraceStore,
) -> None:
    with pytest.raises(UserError, match="has no episode 'nobody' to label"):
        store.add_labels([label(), label("nobody")])
    assert list(store.labels()) == []
