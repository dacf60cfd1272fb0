import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.store.database import MIGRATIONS
from practicum.store.trace_store import SqliteTraceStore

MakeEpisode = Callable[..., Episode]

ADD_FOR_EVER = """
import sys
from pathlib import Path
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.trace import Trace
from practicum.store.trace_store import SqliteTraceStore
store = SqliteTraceStore(Path(sys.argv[1]))
step = 0
while True:
    step += 1
    episodes = [
        Episode(
            trace=Trace(id=f"{step}-{n}", task_id="t", env="math", model="x" * 500),
            outcome=None,
            score=Score(components={"a": 1.0}),
        )
        for n in range(8)
    ]
    store.add_many(episodes, attempt=1, step=step, purpose="train")
    print(step, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.sqlite"


def test_episodes_are_there_when_the_file_is_opened_again(
    path: Path, make_episode: MakeEpisode
) -> None:
    with SqliteTraceStore(path) as store:
        store.add(make_episode("a"), attempt=1, step=1, purpose="train")
    with SqliteTraceStore(path) as store:
        assert list(store.episodes()) == [make_episode("a")]


def test_the_attempt_rule_holds_after_the_file_is_opened_again(
    path: Path, make_episode: MakeEpisode
) -> None:
    with SqliteTraceStore(path) as store:
        store.begin_attempt(1, 0)
        store.add(make_episode("a"), attempt=1, step=1, purpose="train")
        store.begin_attempt(2, 0)
    with SqliteTraceStore(path) as store:
        assert store.count() == 0


def test_the_file_is_in_wal_mode_with_its_schema_version(path: Path) -> None:
    SqliteTraceStore(path).close()
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert database.execute("SELECT version FROM schema_version").fetchone() == (
            len(MIGRATIONS),
        )
    database.close()


def test_a_reader_sees_what_a_writer_has_committed_and_may_not_write(
    path: Path, make_episode: MakeEpisode
) -> None:
    with SqliteTraceStore(path) as writer, SqliteTraceStore(path, read_only=True) as reader:
        writer.add(make_episode("a"), attempt=1, step=1, purpose="train")
        assert reader.count() == 1
        with pytest.raises(UserError, match="may not be written"):
            reader.add(make_episode("b"), attempt=1, step=1, purpose="train")
        assert writer.count() == 1


def test_a_finished_file_can_be_read_without_a_writer(
    path: Path, make_episode: MakeEpisode
) -> None:
    with SqliteTraceStore(path) as writer:
        writer.add(make_episode("a"), attempt=1, step=1, purpose="train")
    with SqliteTraceStore(path, read_only=True) as reader:
        assert reader.count() == 1


def test_reading_a_file_that_is_not_there_is_one_sentence(path: Path) -> None:
    with pytest.raises(UserError, match="does not exist: no episodes have been stored"):
        SqliteTraceStore(path, read_only=True)
    assert not path.exists()


def test_a_file_that_is_no_database_is_one_sentence(path: Path) -> None:
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(UserError, match="is not a trace database; move it away"):
        SqliteTraceStore(path)


def test_reading_a_database_of_something_else_is_one_sentence(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other (x)")
    database.close()
    with pytest.raises(UserError, match="has no tables of traces"):
        SqliteTraceStore(path, read_only=True)


def test_a_batch_that_fails_half_way_leaves_nothing(path: Path, make_episode: MakeEpisode) -> None:
    def half() -> Iterator[Episode]:
        yield make_episode("a")
        raise ZeroDivisionError

    with SqliteTraceStore(path) as store:
        with pytest.raises(ZeroDivisionError):
            store.add_many(half(), attempt=1, step=1, purpose="train")
        assert store.count() == 0


def test_a_full_disk_is_one_sentence_and_stored_episodes_stay(
    small_disk: Path, make_episode: MakeEpisode
) -> None:
    path = small_disk / "traces.sqlite"
    with SqliteTraceStore(path) as store:
        store.add(make_episode("a"), attempt=1, step=1, purpose="train")
        many = [make_episode(f"{n}-" + "".join(map(chr, range(n, n + 1000)))) for n in range(2000)]
        with pytest.raises(UserError, match=r"traces\.sqlite could not be .* disk"):
            store.add_many(many, attempt=1, step=2, purpose="train")
        assert list(store.episodes()) == [make_episode("a")]


def test_committed_episodes_survive_a_kill_in_the_middle_of_writing(path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", ADD_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    while int(writer.stdout.readline()) < 20:
        pass
    writer.send_signal(signal.SIGKILL)
    committed = max([20, *map(int, writer.stdout.read().split())])
    writer.stdout.close()
    writer.wait()
    with SqliteTraceStore(path) as store:
        kept = [episode.trace.id for episode in store.episodes()]
        assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(kept) % 8 == 0
    assert len(kept) >= 8 * committed
    assert kept == [f"{step}-{n}" for step in range(1, len(kept) // 8 + 1) for n in range(8)]
