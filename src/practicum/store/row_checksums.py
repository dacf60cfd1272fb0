"""A checksum of every row of a trace database, so that a flipped bit is found and not believed.

Triggers keep the checksums: whatever writes a row writes its checksum in the same transaction. When
a file is opened, each row of the short tables is compared with its checksum, the tables' indexes
with the tables and the schema with what this version would make. Damaged rows are named and left
out: temporary views of the same names hide them from every query. Encoded episodes are not read for
this; they carry a checksum of their own and are checked when they are decoded.

Rows from before there were checksums have none, and are believed.
"""

import sqlite3
import zlib
from typing import NamedTuple

CHECKED: dict[str, tuple[str, ...]] = {
    "attempts": ("attempt", "from_step"),
    "episodes": (
        *("row", "id", "attempt", "step", "purpose", "task_id", "level", "env", "score"),
        *("success", "stop", "n_turns", "sampled_tokens", "created_at", "source", "model"),
        "content_hash",
    ),
    "imports": (
        *("content", "format", "options", "file", "position", "is_done", "kept", "doubled"),
        *("refused", "updated_at"),
    ),
    "labels": (
        *("row", "episode_id", "value", "author", "created_at", "note", "is_suggestion"),
        *("confidence", "correction"),
    ),
    "tasks": ("env", "id", "body"),
}
"""The tables whose rows have checksums, and the columns that these are of."""

FUNCTION = "practicum_checksum"

MOST_CHECKED = 50_000
"""Rows up to which a table's indexes are compared with it: with more, opening would take seconds.
The rows themselves are always compared with their checksums."""


def checksum(*values: object) -> int:
    """The checksum of a row's values, as SQLite gives them."""
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))


def _of(row: str, columns: tuple[str, ...]) -> str:
    return f"{FUNCTION}({', '.join(f'{row}.{column}' for column in columns)})"


SCHEMA = [
    """
    CREATE TABLE checksums (
        name TEXT NOT NULL,
        row INTEGER NOT NULL,
        value INTEGER NOT NULL,
        PRIMARY KEY (name, row)
    ) WITHOUT ROWID
    """
]
"""What the fourth version of the schema adds."""

for _table, _columns in CHECKED.items():
    _keep = (
        f"BEGIN INSERT OR REPLACE INTO checksums VALUES ('{_table}', NEW.rowid, "
        f"{FUNCTION}(NEW.{', NEW.'.join(_columns)})); END"
    )
    _forget = f"BEGIN DELETE FROM checksums WHERE name = '{_table}' AND row = OLD.rowid; END"
    SCHEMA += [
        f"CREATE TRIGGER {_table}_added AFTER INSERT ON {_table} {_keep}",
        f"CREATE TRIGGER {_table}_changed AFTER UPDATE ON {_table} {_keep}",
        f"CREATE TRIGGER {_table}_removed AFTER DELETE ON {_table} {_forget}",
    ]


class DamagedRow(NamedTuple):
    """A row that is not what was written, or that is gone."""

    table: str
    row: int

    def __str__(self) -> str:
        return f"row {self.row} of {self.table}"


class DamagedFile(Exception):
    """The file is damaged beyond single rows; the text says where."""


def prepare_checksums(database: sqlite3.Connection) -> None:
    """What each connection needs before it reads or writes."""
    database.create_function(FUNCTION, -1, checksum, deterministic=True)
    # Bytes that are no text any more must reach the checksum, not an exception.
    database.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    # So that a row which is replaced loses its old checksum.
    database.execute("PRAGMA recursive_triggers = ON")


def check_schema(database: sqlite3.Connection, expected: sqlite3.Connection) -> None:
    """Raises `DamagedFile` where a table, index, view or trigger is not as it was made."""
    found = _schema(database)
    for name, sql in _schema(expected).items():
        if found.get(name) != sql:
            raise DamagedFile(f"the definition of {name} is not what it was")


def _schema(database: sqlite3.Connection) -> dict[str, str]:
    rows = database.execute("SELECT type, name, tbl_name, sql FROM main.sqlite_master")
    return {str(name): f"{kind} {table} {sql}" for kind, name, table, sql in rows}


def find_damage(database: sqlite3.Connection) -> list[DamagedRow]:
    """Every row that is not what its checksum says; indexes are made anew where they are wrong."""
    for table in (*CHECKED, "checksums"):
        if database.execute(f"SELECT COUNT(*) FROM main.{table}").fetchone()[0] > MOST_CHECKED:
            continue
        problems = [row[0] for row in database.execute(f"PRAGMA main.integrity_check({table})")]
        if problems != ["ok"]:
            _mend_index(database, table, problems)
    damaged: list[DamagedRow] = []
    for table, columns in CHECKED.items():
        rows = database.execute(
            f"SELECT t.rowid FROM main.{table} AS t JOIN main.checksums AS c "
            f"ON c.name = '{table}' AND c.row = t.rowid WHERE c.value != {_of('t', columns)} "
            f"UNION SELECT c.row FROM main.checksums AS c WHERE c.name = '{table}' "
            f"AND NOT EXISTS (SELECT 1 FROM main.{table} AS t WHERE t.rowid = c.row)"
        )
        damaged += [DamagedRow(table, int(row)) for (row,) in rows]
    return damaged


def _mend_index(database: sqlite3.Connection, table: str, problems: list[str]) -> None:
    """Indexes hold nothing of their own, so they are rebuilt from the rows."""
    database.execute(f"REINDEX main.{table}")
    left = [row[0] for row in database.execute(f"PRAGMA main.integrity_check({table})")]
    if left != ["ok"]:
        raise DamagedFile(f"{problems[0]}")


def hide(database: sqlite3.Connection, damaged: list[DamagedRow], current_view: str) -> None:
    """Leave damaged rows out of every query of this connection that does not say `main.`."""
    for table in sorted({one.table for one in damaged}):
        rows = ", ".join(str(one.row) for one in damaged if one.table == table)
        database.execute(
            f"CREATE TEMP VIEW {table} AS SELECT rowid, * FROM main.{table} "
            f"WHERE rowid NOT IN ({rows})"
        )
    if any(one.table in ("episodes", "attempts") for one in damaged):
        database.execute(current_view.replace("CREATE VIEW", "CREATE TEMP VIEW"))
