"""A trace store of a stranger holds tables of traces and nothing that runs."""

import sqlite3
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.store.trace_store import SqliteTraceStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    SqliteTraceStore(tmp_path / "theirs.sqlite").close()
    return tmp_path / "theirs.sqlite"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "CREATE TRIGGER extra AFTER INSERT ON labels BEGIN DELETE FROM episodes; END",
            "a trigger 'extra' that Practicum did not make",
        ),
        (
            "DROP TRIGGER labels_added; CREATE TRIGGER labels_added AFTER INSERT ON labels "
            "BEGIN DELETE FROM episodes; END",
            "a trigger 'labels_added' that Practicum did not make",
        ),
        ("CREATE VIEW extra AS SELECT * FROM episodes", "a view 'extra'"),
        ("CREATE VIRTUAL TABLE extra USING fts5(a)", "a table 'extra'"),
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_with_code_of_its_own_is_refused(
    path: Path, sql: str, said: str, read_only: bool
) -> None:
    with sqlite3.connect(path) as theirs:
        theirs.executescript(sql)
    theirs.close()
    with pytest.raises(UserError) as wrong:
        SqliteTraceStore(path, read_only=read_only)
    assert said in str(wrong.value)


def test_a_store_of_our_own_is_opened_again(path: Path) -> None:
    SqliteTraceStore(path).close()
    SqliteTraceStore(path, read_only=True).close()
