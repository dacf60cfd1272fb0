import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.score import Label, Score
from practicum.store.row_checksums import prepare_checksums
from practicum.store.trace_store import SqliteTraceStore

MakeEpisode = Callable[..., Episode]
MANY = 200_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteTraceStore]:
    with SqliteTraceStore(tmp_path / "traces.sqlite") as opened:
        yield opened


def fill(store: SqliteTraceStore, make_episode: MakeEpisode, count: int) -> list[Episode]:
    episodes = []
    for number in range(count):
        made = make_episode(f"e{number}", task_id=f"t{number % 3}", value=number - 2.0)
        source = "art" if number % 2 else "openhands-v0"
        trace = replace(made.trace, source=source, model=f"m{number % 2}", started_at=1e9 + number)
        episodes.append(replace(made, trace=trace))
    store.add_imported(episodes)
    return episodes


def test_pages_cover_all_episodes_once(store: SqliteTraceStore, make_episode: MakeEpisode) -> None:
    episodes = fill(store, make_episode, 7)
    seen, after = [], 0
    while page := store.find(limit=3, after=after):
        seen += [found.summary.id for found in page]
        after = page[-1].row
    assert seen == [episode.trace.id for episode in episodes]


def test_a_query_gives_whole_episodes_one_after_the_other(
    store: SqliteTraceStore, make_episode: MakeEpisode
) -> None:
    episodes = fill(store, make_episode, 7)
    assert list(store.query("source = art")) == episodes[1::2]
    assert list(store.query("score > 0", limit=2)) == episodes[3:5]
    third = store.find(limit=3)[-1].row
    assert list(store.query(after=third)) == episodes[3:]
    assert list(store.query("created >= 2001-09-09T01:46:45")) == episodes[5:]


def test_a_query_goes_on_beyond_one_page(
    store: SqliteTraceStore, make_episode: MakeEpisode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("practicum.store.trace_store.PAGE", 2)
    episodes = fill(store, make_episode, 7)
    assert list(store.query()) == episodes
    assert list(store.query("source = art", limit=2)) == episodes[1:5:2]
    assert list(store.query(limit=4)) == episodes[:4]


def test_a_mistake_in_a_query_is_said_before_anything_is_read(store: SqliteTraceStore) -> None:
    with pytest.raises(UserError, match="there is no such field"):
        store.query_rows("nothing = 1")


def test_counts(store: SqliteTraceStore, make_episode: MakeEpisode) -> None:
    fill(store, make_episode, 7)
    assert store.count_where("score >= 0") == 5
    assert store.counts_by("source") == {"openhands-v0": 4, "art": 3}
    assert store.counts_by("success") == {True: 4, False: 3}
    assert store.counts_by("task", "source = art") == {"t0": 1, "t1": 1, "t2": 1}
    with pytest.raises(UserError, match="not by 'score'"):
        store.counts_by("score")


def test_labels_are_found_and_the_newest_of_a_person_counts(
    store: SqliteTraceStore, make_episode: MakeEpisode
) -> None:
    fill(store, make_episode, 3)
    for time, (name, value, suggested) in enumerate(
        [("e0", 1.0, False), ("e0", 0.0, False), ("e0", 1.0, True), ("e1", 0.9, True)]
    ):
        label = Label(
            episode_id=name, value=value, author="a", created_at=time, is_suggestion=suggested
        )
        store.add_label(label)
    assert [e.trace.id for e in store.query("label = 0")] == ["e0"]
    assert [e.trace.id for e in store.query("label = none")] == ["e1", "e2"]
    assert [e.trace.id for e in store.query("suggested > 0.5 and label = none")] == ["e1"]
    assert [found.label for found in store.find()] == [0.0, None, None]


def test_new_scores_take_the_place_of_the_old(
    store: SqliteTraceStore, make_episode: MakeEpisode
) -> None:
    episodes = fill(store, make_episode, 3)
    rows = dict(store.query_rows())
    store.rescore(
        (row, replace(e, score=Score(components={"new": 9.0}))) for row, e in rows.items()
    )
    assert [e.score.value for e in store.query("score = 9")] == [9.0] * 3
    assert store.add_imported(episodes).kept == 0, "a new score makes no new episode"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteTraceStore]:
    """A store with very many rows, their bodies left out: only finding them is looked at."""
    path = tmp_path_factory.mktemp("many") / "traces.sqlite"
    SqliteTraceStore(path).close()
    database = sqlite3.connect(path)
    prepare_checksums(database)
    database.execute(
        """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
        INSERT INTO episodes SELECT i, 'e' || i, 1, 0, 'import', 't' || (i % 1000), NULL,
            'env' || (i % 5), (i % 100) / 100.0, i % 2, 'finished', 3, 0, i, 's' || (i % 4), 'm',
            CAST(i AS BLOB)
        FROM n
        """,
        (MANY,),
    )
    database.commit()
    database.close()
    with SqliteTraceStore(path, read_only=True) as opened:
        yield opened


def plan(store: SqliteTraceStore, sql: str, *values: object) -> str:
    rows = store._query(f"EXPLAIN QUERY PLAN {sql}", values)
    return "; ".join(row[-1] for row in rows)


def test_the_last_page_of_many_is_reached_without_walking_there(many: SqliteTraceStore) -> None:
    steps = []
    many._db.set_progress_handler(lambda: steps.append(1) or 0, 1000)
    last = many.find("success = false", limit=50, after=MANY - 200)
    many._db.set_progress_handler(None, 0)
    assert [found.row for found in last] == list(range(MANY - 198, MANY - 98, 2))
    assert len(steps) < 50, "a page costs a few thousand steps of the database, not one a row"
    page = "SELECT e.row FROM current_episodes AS e WHERE e.row > ? AND e.success = 0 LIMIT 50"
    assert "USING INTEGER PRIMARY KEY (rowid>?)" in plan(many, page, 0) or (
        "USING INDEX episodes_by_success (success=? AND rowid>?)" in plan(many, page, 0)
    )


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        ("e.id = 'e7'", "episodes_by_id (id=?)"),
        ("e.env = 'env1' AND e.task_id = 't1'", "episodes_by_task (env=? AND task_id=?)"),
        ("e.score > 2", "episodes_by_score (score>?)"),
        ("e.created_at > 5e9", "episodes_by_time (created_at>?)"),
        ("e.source = 'nobody'", "episodes_by_source (source=?)"),
    ],
)
def test_what_is_rare_is_found_by_an_index(
    many: SqliteTraceStore, condition: str, index: str
) -> None:
    sql = f"SELECT COUNT(*) FROM current_episodes AS e WHERE {condition}"
    assert index in plan(many, sql)


def test_counting_many_is_a_matter_of_short_rows(many: SqliteTraceStore) -> None:
    assert many.count_where("success and score >= 0.5") == MANY // 4
    assert many.counts_by("source") == {f"s{n}": MANY // 4 for n in range(4)}
