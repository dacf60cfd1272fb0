"""The tables of `traces.sqlite`, one tuple of statements for each version, oldest first.

A statement here is never changed once released: a new version is a new tuple.
"""

import json
import sqlite3
import zlib
from pathlib import Path

from practicum.core.errors import UserError

__all__ = ["MIGRATIONS", "SHOWN_TO_OLD_FILES", "check_version", "migrate"]

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
    # Traces from elsewhere: where they came from, labels, how far an import has got. The bodies
    # move to a table of their own, so that looking for episodes reads only short rows.
    (
        "CREATE TABLE bodies (row INTEGER PRIMARY KEY, body BLOB NOT NULL)",
        "INSERT INTO bodies SELECT row, body FROM episodes",
        "DROP VIEW current_episodes",
        "DROP INDEX episodes_by_step",
        "DROP INDEX episodes_by_id",
        "ALTER TABLE episodes RENAME TO episodes_1",
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
            source TEXT NOT NULL DEFAULT '',
            model TEXT NOT NULL DEFAULT '',
            content_hash BLOB
        )
        """,
        """
        INSERT INTO episodes
        SELECT row, id, attempt, step, purpose, task_id, level, env, score, success, stop, n_turns,
            sampled_tokens, created_at, '', model_in_body(body), NULL
        FROM episodes_1
        """,
        "DROP TABLE episodes_1",
        "CREATE INDEX episodes_by_step ON episodes (purpose, step, attempt)",
        "CREATE INDEX episodes_by_id ON episodes (id)",
        # With a hash: recorded elsewhere, and never twice. Without: rollouts of a run of our own.
        """
        CREATE UNIQUE INDEX episodes_by_content ON episodes (content_hash)
        WHERE content_hash IS NOT NULL
        """,
        "CREATE INDEX episodes_by_task ON episodes (env, task_id)",
        "CREATE INDEX episodes_by_source ON episodes (source, model)",
        "CREATE INDEX episodes_by_score ON episodes (score)",
        "CREATE INDEX episodes_by_success ON episodes (success)",
        "CREATE INDEX episodes_by_time ON episodes (created_at)",
        """
        CREATE VIEW current_episodes AS
        SELECT * FROM episodes AS e
        WHERE e.content_hash IS NOT NULL
        OR (
            NOT EXISTS (
                SELECT 1 FROM attempts AS a WHERE a.attempt > e.attempt AND e.step > a.from_step
            )
            AND e.attempt = (
                SELECT MAX(n.attempt) FROM episodes AS n
                WHERE n.purpose = e.purpose AND n.step = e.step
            )
        )
        """,
        """
        CREATE TABLE labels (
            row INTEGER PRIMARY KEY,
            episode_id TEXT NOT NULL,
            value REAL NOT NULL,
            author TEXT NOT NULL,
            created_at REAL NOT NULL,
            note TEXT NOT NULL,
            is_suggestion INTEGER NOT NULL,
            confidence REAL
        )
        """,
        "CREATE INDEX labels_by_episode ON labels (episode_id, is_suggestion)",
        """
        CREATE TABLE imports (
            content TEXT NOT NULL,
            format TEXT NOT NULL,
            options TEXT NOT NULL,
            file TEXT NOT NULL,
            position INTEGER NOT NULL,
            is_done INTEGER NOT NULL,
            kept INTEGER NOT NULL,
            doubled INTEGER NOT NULL,
            refused INTEGER NOT NULL,
            updated_at REAL NOT NULL,
            PRIMARY KEY (content, format, options)
        )
        """,
    ),
)

_FIRST_COLUMNS = (
    "row, id, attempt, step, purpose, task_id, level, env, score, success, stop, n_turns, "
    "sampled_tokens, created_at, '' AS source, '' AS model, NULL AS content_hash"
)
SHOWN_TO_OLD_FILES: dict[int, tuple[str, ...]] = {
    1: (
        "CREATE TEMP VIEW bodies AS SELECT row, body FROM main.episodes",
        f"CREATE TEMP VIEW episodes AS SELECT {_FIRST_COLUMNS} FROM main.episodes",
        f"CREATE TEMP VIEW current_episodes AS SELECT {_FIRST_COLUMNS} FROM main.current_episodes",
        "CREATE TEMP TABLE labels (row INTEGER PRIMARY KEY, episode_id, value, author, "
        "created_at, note, is_suggestion, confidence)",
    )
}
"""For a file of an older version that is only read, and so not migrated: views, in this connection
alone, that make it look like the newest one."""


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the tables up to the newest version; runs inside the caller's transaction."""
    connection.create_function("model_in_body", 1, _model_in_body, deterministic=True)
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


def _model_in_body(body: bytes) -> str:
    """The model that an episode stored by version 1 names."""
    return str(json.loads(zlib.decompress(body))["trace"].get("model", ""))
