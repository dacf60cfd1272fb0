import sqlite3
from itertools import product
from typing import Any

import pytest

from practicum.core.errors import UserError
from practicum.store.where import FIELDS, parse_where

ROWS: list[dict[str, Any]] = [
    {"success": success, "score": score, "env": env, "n_turns": turns}
    for success, score, env, turns in product(
        (None, 0, 1), (None, -0.5, 0.5, 1.0), ("math", "Shell work"), (1, 3)
    )
]


def matching(where: str) -> list[dict[str, Any]]:
    """The rows that SQLite says match."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE episodes (success, score, env, n_turns)")
    for row in ROWS:
        database.execute("INSERT INTO episodes VALUES (?, ?, ?, ?)", tuple(row.values()))
    condition = parse_where(where)
    found = database.execute(
        f"SELECT e.success, e.score, e.env, e.n_turns FROM episodes AS e WHERE {condition.sql} "
        "ORDER BY e.rowid",
        condition.values,
    ).fetchall()
    database.close()
    return [dict(zip(ROWS[0], row, strict=True)) for row in found]


@pytest.mark.parametrize(
    ("where", "is_meant"),
    [
        ("", lambda r: True),
        ("success", lambda r: r["success"] == 1),
        ("not success", lambda r: r["success"] != 1),
        ("success = false", lambda r: r["success"] == 0),
        ("success != true", lambda r: r["success"] != 1),
        ("success = none", lambda r: r["success"] is None),
        ("score >= 0.5", lambda r: r["score"] is not None and r["score"] >= 0.5),
        ("not score >= 0.5", lambda r: r["score"] is None or r["score"] < 0.5),
        ("score != none and score < 0", lambda r: r["score"] is not None and r["score"] < 0),
        ("env = math", lambda r: r["env"] == "math"),
        ('env = "Shell work"', lambda r: r["env"] == "Shell work"),
        ("env ~ shell", lambda r: "shell" in r["env"].lower()),
        (
            "success or env = math and turns > 2",
            lambda r: r["success"] == 1 or (r["env"] == "math" and r["n_turns"] > 2),
        ),
        (
            "(success OR env == math) AND NOT (turns > 2)",
            lambda r: (r["success"] == 1 or r["env"] == "math") and not r["n_turns"] > 2,
        ),
    ],
)
def test_what_matches_is_what_is_meant(where: str, is_meant: Any) -> None:
    assert matching(where) == [row for row in ROWS if is_meant(row)]


def test_a_condition_and_its_opposite_share_out_all_rows() -> None:
    for where in ("score > 0", "score != 0.5", "success", "score = none", "env ~ a"):
        assert len(matching(where)) + len(matching(f"not ({where})")) == len(ROWS)


def test_values_never_become_part_of_the_statement() -> None:
    condition = parse_where("""env = "x' OR 1=1 --" """)
    assert condition.sql == "e.env = ?"
    assert condition.values == ("x' OR 1=1 --",)
    assert matching("""env = "x' OR 1=1 --" """) == []


def test_a_day_is_counted_in_utc() -> None:
    assert parse_where("created >= 2026-01-31").values == (1769817600.0,)
    assert parse_where('created < "2026-01-31T01:00+01:00"').values == (1769817600.0,)


def test_every_field_can_be_compared() -> None:
    for name, field in FIELDS.items():
        assert field.sql in parse_where(f"{name} = none").sql


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("colour = red", "at 'colour' (character 1): there is no such field; the fields are succ"),
        ("score", "at its end: compare score, as in score = VALUE"),
        ("score >", "at its end: give the value that score is compared with"),
        ("score > high", "at 'high' (character 9): score is compared with a number, or none"),
        ("score ~ 1", "score (what it scored) is compared with = or != or < or <= or > or >="),
        ("env < a", "env (its environment) is compared with = or != or ~"),
        ("success = maybe", "success is true, false or none"),
        (
            "stop = bogus",
            "at 'bogus' (character 8): stop is one of finished, max_turns, context_full",
        ),
        ("score > none", "none is compared with = or !="),
        ("created > soon", "created is compared with a day such as 2026-01-31, or none"),
        ("success success", "at 'success' (character 9): write and, or between two conditions"),
        ("(success", "at its end: a bracket is not closed; add )"),
        ("success and", "at its end: name a field: success, score"),
        ("and success", "at 'and' (character 1): name a field"),
        ("success; drop table episodes", "there is no such field"),
        ('env = "math', "put texts with spaces or signs into double quotes"),
        ("(" * 60 + "success" + ")" * 60, "more than 50 brackets"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(where: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_where(where)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
