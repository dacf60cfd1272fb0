import sqlite3
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.store.migrations import MIGRATIONS, check_version, migrate


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
