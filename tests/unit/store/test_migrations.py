import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.store.database import MIGRATIONS, check_version, migrate
from practicum.store.episode_codec import encode_episode
from practicum.store.trace_store import SqliteTraceStore


@pytest.fixture
def database() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def test_an_empty_file_gets_the_newest_version(database: sqlite3.Connection) -> None:
    migrate(database, Path("traces.sqlite"))
    assert check_version(database, Path("traces.sqlite")) == len(MIGRATIONS)
    assert database.execute("SELECT COUNT(*) FROM current_episodes").fetchone() == (0,)
    database.close()


def test_migrating_twice_changes_nothing(database: sqlite3.Connection) -> None:
    migrate(database, Path("traces.sqlite"))
    before = database.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
    migrate(database, Path("traces.sqlite"))
    assert database.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall() == before
    assert database.execute("SELECT COUNT(*) FROM schema_version").fetchone() == (1,)
    database.close()


def test_a_version_from_the_future_is_refused(database: sqlite3.Connection) -> None:
    migrate(database, Path("traces.sqlite"))
    database.execute("UPDATE schema_version SET version = 99")
    with pytest.raises(UserError, match=r"schema version 99, .* pip install --upgrade practicum"):
        migrate(database, Path("traces.sqlite"))
    database.close()


def first_version(path: Path, episode: Episode) -> None:
    """A file as the first version wrote it."""
    database = sqlite3.connect(path)
    for statement in MIGRATIONS[0]:
        database.execute(statement)
    database.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
    database.execute("INSERT INTO schema_version VALUES (1)")
    database.execute("INSERT INTO attempts VALUES (1, 0), (2, 0)")
    for row, attempt in ((1, 1), (2, 2)):
        database.execute(
            "INSERT INTO episodes VALUES (?, ?, ?, 3, 'train', 't1', 2, 'math', 1.0, 1, "
            "'max_turns', 1, 2, 1700000000.0, ?)",
            (row, f"e{row}", attempt, encode_episode(episode)),
        )
    database.commit()
    database.close()


def test_a_file_of_the_first_version_keeps_its_episodes(
    tmp_path: Path, make_episode: Callable[..., Episode]
) -> None:
    path = tmp_path / "traces.sqlite"
    episode = make_episode("e2")
    named = replace(episode, trace=replace(episode.trace, model="tiny"))
    first_version(path, named)
    with SqliteTraceStore(path) as store:
        assert list(store.episodes()) == [named]
        (found,) = store.find()
        assert (found.row, found.summary.id, found.summary.model) == (2, "e2", "tiny")
        assert (found.summary.source, found.summary.level, found.label) == ("", 2, None)
        assert store.count_where("model = tiny and purpose = train") == 1


def test_a_file_of_the_first_version_that_is_only_read_stays_as_it_is(
    tmp_path: Path, make_episode: Callable[..., Episode]
) -> None:
    path = tmp_path / "traces.sqlite"
    first_version(path, make_episode("e2"))
    before = path.read_bytes()
    with SqliteTraceStore(path, read_only=True) as store:
        assert list(store.episodes()) == [make_episode("e2")]
        assert [s.id for s in store.summaries()] == ["e2"]
        assert store.get("e2") == make_episode("e2")
        assert store.count_where("score >= 1 and label = none") == 1
        assert list(store.labels()) == []
    assert path.read_bytes() == before
