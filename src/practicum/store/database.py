"""`TraceDatabase`: the SQLite file of traces, its schema migrations, transactions and errors.

A released migration is never changed: a new schema version is a new entry of `MIGRATIONS`.
"""

import json
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

from practicum.core.errors import UserError
from practicum.core.private_files import make_private_file
from practicum.store import row_checksums
from practicum.store.durable import DurableStep, durable_step

NAMED = 8
"""Damaged rows that are named; a file with more of them is a failing disk."""
WAIT_S = 30.0
"""SQLite's busy timeout for another process's transaction."""


class TraceDatabase:
    """An open file in WAL mode: readers and one writer do not block each other.

    Commits survive SIGKILL and power cuts (`synchronous = FULL`). Not thread-safe.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.damaged: list[row_checksums.DamagedRow] = []
        if read_only and not path.is_file():
            raise UserError(f"{path} does not exist: no episodes have been stored there")
        with _user_errors(path):
            mode = "rw" if read_only else "rwc"
            if not read_only:
                with suppress(OSError):  # which SQLite tells of better
                    make_private_file(path)  # its -wal and -shm get the same mode
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=WAIT_S,
                isolation_level=None,
            )
            try:
                self._refuse_others_code()
                row_checksums.prepare_checksums(self._db)
                self._prepare(read_only)
                self._leave_out_damage()
                if read_only:
                    self._db.execute("PRAGMA query_only = ON")
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _prepare(self, read_only: bool) -> None:
        if read_only:
            for statement in VIEWS_OF_OLD_VERSIONS.get(self._version(), ()):
                self._db.execute(statement)
            return
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            migrate(self._db, self.path)

    def _refuse_others_code(self) -> None:
        """A trigger or a view would run SQL of whoever made the file, at our next reading."""
        self._db.execute("PRAGMA trusted_schema = OFF")  # until all that is there is known as ours
        ours = {one for version in range(1, len(MIGRATIONS) + 1) for one in _made_by(version)}
        rows = self._db.execute("SELECT type, name, sql FROM main.sqlite_master")
        for kind, name, sql in rows:
            runs = kind in ("trigger", "view") or str(sql).upper().startswith("CREATE VIRTUAL")
            if runs and (kind, name, sql) not in ours:
                raise UserError(
                    f"{self.path} has a {kind} {name!r} that Practicum did not make and that would "
                    "run SQL of its author; bring its traces over as JSON lines, which "
                    "practicum traces export writes where it was made"
                )
        self._db.execute("PRAGMA trusted_schema = ON")  # our own triggers call our own function

    def _leave_out_damage(self) -> None:
        """Hide the rows that are not what was written, and say which they are."""
        version = self._version()
        try:
            with closing(schema_of(version)) as expected:
                row_checksums.check_schema(self._db, expected)
            self.damaged = row_checksums.find_damage(self._db) if version == len(MIGRATIONS) else []
        except row_checksums.DamagedFile as error:
            raise UserError(f"{self.path} {_PROBLEMS[sqlite3.SQLITE_CORRUPT]} ({error})") from None
        if self.damaged:
            row_checksums.hide(self._db, self.damaged, CURRENT_EPISODES)
            self._say_damaged(", ".join(map(str, self.damaged[:NAMED])))

    def _say_damaged(self, rows: str) -> None:
        """On standard error, for whoever reads figures that lack these rows."""
        print(f"{self.path}: damaged and left out: {rows}", file=sys.stderr)

    def _version(self) -> int:
        try:
            return check_version(self._db, self.path)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:  # anything but a missing table
                raise
            raise UserError(
                f"{self.path} has no tables of traces: nothing has been stored there yet, or it is "
                "another program's database"
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _user_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                with durable_step(DurableStep.TRACES_COMMIT):
                    self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _query(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with _user_errors(self.path):
            return self._db.execute(sql, values).fetchall()


@contextmanager
def _user_errors(path: Path) -> Iterator[None]:
    """Turn SQLite errors that the user can fix into `UserError`s."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte of an extended result code is the primary one.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError):
            raise  # a mistake of ours
        # Whatever else SQLite finds, it finds in a file that is not what was written.
        problem = _PROBLEMS.get(kind, _PROBLEMS[sqlite3.SQLITE_CORRUPT])
        raise UserError(f"{path} {problem} ({error})") from error
    except UnicodeDecodeError as error:  # SQLite's message quotes damaged bytes of the schema
        raise UserError(f"{path} {_PROBLEMS[sqlite3.SQLITE_CORRUPT]}") from error


_PROBLEMS = {
    sqlite3.SQLITE_FULL: "could not be written: the disk is full; what was saved before is "
    "intact; free some space there, then type the same again; a run that was saved goes on with: "
    "practicum train --resume RUN",
    sqlite3.SQLITE_IOERR: "could not be read or written; what was saved before is intact; look "
    "for a full or failing disk, then type the same again; a run that was saved goes on with: "
    "practicum train --resume RUN",
    sqlite3.SQLITE_READONLY: "may not be written; give yourself write permission there, or choose "
    "another folder with runs_dir=DIR",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that its folder exists and that you may "
    "write there",
    sqlite3.SQLITE_BUSY: "is locked by another process; wait for it or stop it, then try again",
    sqlite3.SQLITE_CORRUPT: "is damaged; move it away to go on without the old episodes",
    sqlite3.SQLITE_NOTADB: "is not a trace database; move it away to go on without it",
}


@cache
def _schema_file(version: int) -> bytes:
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.create_function("model_in_body", 1, _model_in_body, deterministic=True)
    made.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
    for statement in (one for statements in MIGRATIONS[:version] for one in statements):
        made.execute(statement)
    return made.serialize()


def schema_of(version: int) -> sqlite3.Connection:
    """An empty database of a version, in memory."""
    made = sqlite3.connect(":memory:")
    made.deserialize(_schema_file(version))
    return made


@cache
def _made_by(version: int) -> frozenset[tuple[str, str, str]]:
    """Kinds, names and definitions of all that a version of the schema has."""
    with closing(schema_of(version)) as made:
        return frozenset(made.execute("SELECT type, name, sql FROM sqlite_master"))


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Migrate the schema to the newest version, inside the caller's transaction."""
    connection.create_function("model_in_body", 1, _model_in_body, deterministic=True)
    connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
    version = check_version(connection, path)
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute("DELETE FROM schema_version")
    connection.execute("INSERT INTO schema_version VALUES (?)", (len(MIGRATIONS),))


def check_version(connection: sqlite3.Connection, path: Path) -> int:
    """The schema version, 0 for a new file; raises if it is newer than this Practicum."""
    row = connection.execute("SELECT version FROM schema_version").fetchone()
    version = row[0] if row else 0
    if not isinstance(version, int) or version < 0:
        raise UserError(f"{path} {_PROBLEMS[sqlite3.SQLITE_CORRUPT]} (its version is {version!r})")
    if version > len(MIGRATIONS):
        raise UserError(
            f"{path} has schema version {version}, and this Practicum reads up to "
            f"{len(MIGRATIONS)}; type: pip install --upgrade practicum"
        )
    return version


def _model_in_body(body: bytes) -> str:
    """SQL function for the migration from version 1: the model of an encoded episode."""
    return str(json.loads(zlib.decompress(body))["trace"].get("model", ""))


CURRENT_EPISODES = """
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
        """
"""The rule of `events.current_rows`, in SQL; imported episodes always count."""

EPISODE_COLUMNS = """row INTEGER PRIMARY KEY,
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
            created_at REAL NOT NULL,"""
"""What the table of episodes had from the beginning."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"""
        CREATE TABLE episodes (
            {EPISODE_COLUMNS}
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
        # The rule of `events.current_rows`, in SQL.
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
    # Imported traces: their source, labels, import progress. The bodies move to a table of their
    # own, so that queries over the columns read only short rows.
    (
        "CREATE TABLE bodies (row INTEGER PRIMARY KEY, body BLOB NOT NULL)",
        "INSERT INTO bodies SELECT row, body FROM episodes",
        "DROP VIEW current_episodes",
        "DROP INDEX episodes_by_step",
        "DROP INDEX episodes_by_id",
        "ALTER TABLE episodes RENAME TO episodes_1",
        f"""
        CREATE TABLE episodes (
            {EPISODE_COLUMNS}
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
        # Imported episodes have a hash and are unique; rollouts of a run have none.
        """
        CREATE UNIQUE INDEX episodes_by_content ON episodes (content_hash)
        WHERE content_hash IS NOT NULL
        """,
        "CREATE INDEX episodes_by_task ON episodes (env, task_id)",
        "CREATE INDEX episodes_by_source ON episodes (source, model)",
        "CREATE INDEX episodes_by_score ON episodes (score)",
        "CREATE INDEX episodes_by_success ON episodes (success)",
        "CREATE INDEX episodes_by_time ON episodes (created_at)",
        CURRENT_EPISODES,
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
    # What a turn should have been, where whoever labels an episode has written it.
    ("ALTER TABLE labels ADD COLUMN correction TEXT NOT NULL DEFAULT ''",),
    tuple(row_checksums.SCHEMA),
)

_FIRST_COLUMNS = (
    "row, id, attempt, step, purpose, task_id, level, env, score, success, stop, n_turns, "
    "sampled_tokens, created_at, '' AS source, '' AS model, NULL AS content_hash"
)

VIEWS_OF_OLD_VERSIONS: dict[int, tuple[str, ...]] = {
    1: (
        "CREATE TEMP VIEW bodies AS SELECT row, body FROM main.episodes",
        f"CREATE TEMP VIEW episodes AS SELECT {_FIRST_COLUMNS} FROM main.episodes",
        f"CREATE TEMP VIEW current_episodes AS SELECT {_FIRST_COLUMNS} FROM main.current_episodes",
        "CREATE TEMP TABLE labels (row INTEGER PRIMARY KEY, episode_id, value, author, "
        "created_at, note, is_suggestion, confidence, correction)",
    ),
    2: ("CREATE TEMP VIEW labels AS SELECT *, '' AS correction FROM main.labels",),
}
"""Temporary views that make a file of an older version look like the newest, for a connection that
only reads and so may not migrate it."""
