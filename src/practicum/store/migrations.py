"""The tables of `traces.sqlite`, one tuple of statements for each version, oldest first.

A statement here is never changed once released: a new version is a new tuple.
"""

import sqlite3
from pathlib import Path

from practicum.core.errors import UserError

__all__ = ["MIGRATIONS", "check_version", "migrate"]

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE episodes (
            row INTEGER PRIMARY KEY,
            id TEXT NOT NULL,
            attempt INTEGER NOT NULL,
            step INTEGER NOT NULL,
            purpose TEXT NOT NULL,
            task_id TEXT NOT NULL,
            level INTEGER,
            env TEXT NOT NULL,
            score REAL,
            success INTEGER,
            stop TEXT NOT NULL,
            n_turns INTEGER NOT NULL,
            sampled_tokens INTEGER NOT NULL,
            created_at REAL NOT NULL,
            body BLOB NOT NULL
        )
        """,
        "CREATE INDEX episodes_by_step ON episodes (purpose, step, attempt)",
        "CREATE INDEX episodes_by_id ON episodes (id)",
        """
        CREATE TABLE tasks (
            env TEXT NOT NULL,
            id TEXT NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (env, id)
        )
        """,
        "CREATE TABLE attempts (attempt INTEGER PRIMARY KEY, from_step INTEGER NOT NULL)",
        # The rule of `attempts.current_rows`, in SQL.
        """
        CREATE VIEW current_episodes AS
        SELECT * FROM episodes AS e
        WHERE NOT EXISTS (
            SELECT 1 FROM attempts AS a WHERE a.attempt > e.attempt AND e.step > a.from_step
        )
        AND e.attempt = (
            SELECT MAX(n.attempt) FROM episodes AS n
            WHERE n.purpose = e.purpose AND n.step = e.step
        )
        """,
    ),
)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the tables up to the newest version; runs inside the caller's transaction."""
    connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
    version = check_version(connection, path)
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute("DELETE FROM schema_version")
    connection.execute("INSERT INTO schema_version VALUES (?)", (len(MIGRATIONS),))


def check_version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the tables, 0 for none yet; a version from the future is refused."""
    row = connection.execute("SELECT version FROM schema_version").fetchone()
    version = int(row[0]) if row else 0
    if version > len(MIGRATIONS):
        raise UserError(
            f"{path} has schema version {version}, and this Practicum reads up to "
            f"{len(MIGRATIONS)}; type: pip install --upgrade practicum"
        )
    return version
