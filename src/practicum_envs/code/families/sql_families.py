"""Families about SQL: a function without arguments returns a statement, which SQLite runs."""

import random
from typing import Any

from practicum_envs.code.families.drafting import Draft, Sample, Shelf

SQL = Shelf("sql")
Rows = list[list[Any]]
TABLES = (
    ("sales", "region", "item", "amount", ("north", "south", "west"), ("tea", "rice", "salt")),
    ("visits", "city", "person", "days", ("Rome", "Oslo", "Lima"), ("Ann", "Bo", "Cy")),
    ("games", "team", "player", "points", ("reds", "blues", "greens"), ("Di", "Ed", "Flo")),
    ("orders", "shop", "product", "number", ("east", "mill", "park"), ("pen", "cup", "bag")),
)
COLUMNS = "Table {0} has the columns {1} (text), {2} (text) and {3} (whole number). "


def table_of(rng: random.Random) -> tuple[Any, ...]:
    """One of the tables."""
    return rng.choice(TABLES)


def schema_of(table: tuple[Any, ...]) -> str:
    """The statement that makes it."""
    return f"create table {table[0]} ({table[1]} text, {table[2]} text, {table[3]} integer)"


def rows_in(table: tuple[Any, ...]) -> Sample:
    """Rows of it."""
    return lambda rng, size: (
        [
            [rng.choice(table[4]), rng.choice(table[5]), rng.randint(1, 30)]
            for _ in range(rng.randint(0, min(size, 8)))
        ],
    )


def where(rng: random.Random, level: int, column: str) -> tuple[str, str, int]:
    """At higher levels, a further condition: in words, in SQL, and its bound."""
    least = rng.randint(5, 15)
    if level == 1:
        return "", "", 0
    return (
        f"Only rows whose {column} is at least {least} count.",
        f" where {column} >= {least}",
        least,
    )


def statement(sql: str) -> str:
    """The body of a function that returns it."""
    return f'return "{sql}"'


@SQL.family()
def total_by_group(rng: random.Random, level: int) -> Draft:
    """A total for each group."""
    table = table_of(rng)
    more, clause, least = where(rng, level, table[3])
    by = rng.choice([1, 2])
    name, column, amount = table[0], table[by], table[3]

    def answer(rows: Rows) -> Rows:
        kept = [row for row in rows if row[2] >= least]
        groups = sorted({row[by - 1] for row in kept})
        return [[one, sum(row[2] for row in kept if row[by - 1] == one)] for one in groups]

    return Draft(
        says=COLUMNS.format(*table) + "Return an SQL statement that gives "
        f"each {column} with the sum of its {amount}, in the order of {column}.",
        args=(),
        body=statement(
            f"select {column}, sum({amount}) from {name}{clause} group by {column} "
            f"order by {column}"
        ),
        answer=answer,
        sample=rows_in(table),
        more=more,
        via="sql",
        schema=schema_of(table),
    )


@SQL.family()
def rows_of_group(rng: random.Random, level: int) -> Draft:
    """Two columns of some rows."""
    table = table_of(rng)
    more, clause, least = where(rng, level, table[3])
    wanted = rng.choice(table[4])
    order = rng.choice(["", " desc"])
    also = f" and {table[3]} >= {least}" if clause else ""

    def answer(rows: Rows) -> Rows:
        kept = [[item, n] for group, item, n in rows if group == wanted and n >= least]
        kept.sort(key=lambda row: row[0])
        return sorted(kept, key=lambda row: -row[1] if order else row[1])

    return Draft(
        says=COLUMNS.format(*table) + f"Return an SQL statement that gives {table[2]} and "
        f"{table[3]} of the rows whose {table[1]} is '{wanted}', by {table[3]}, the "
        f"{'largest' if order else 'smallest'} first, and then by {table[2]}.",
        args=(),
        body=statement(
            f"select {table[2]}, {table[3]} from {table[0]} where {table[1]} = '{wanted}'{also} "
            f"order by {table[3]}{order}, {table[2]}"
        ),
        answer=answer,
        sample=rows_in(table),
        more=more,
        via="sql",
        schema=schema_of(table),
    )


@SQL.family(heldout=True)
def extreme_of_group(rng: random.Random, level: int) -> Draft:
    """The largest or the smallest value of each group."""
    table = table_of(rng)
    more, clause, least = where(rng, level, table[3])
    what = rng.choice(["max", "min"])

    def answer(rows: Rows) -> Rows:
        best: dict[str, int] = {}
        for group, _, n in rows:
            if n >= least:
                best[group] = (max if what == "max" else min)(best.get(group, n), n)
        return [[group, best[group]] for group in sorted(best)]

    return Draft(
        says=COLUMNS.format(*table) + f"Return an SQL statement that gives each {table[1]} and its "
        f"{'largest' if what == 'max' else 'smallest'} {table[3]}, in the order of {table[1]}.",
        args=(),
        body=statement(
            f"select {table[1]}, {what}({table[3]}) from {table[0]}{clause} group by {table[1]} "
            f"order by {table[1]}"
        ),
        answer=answer,
        sample=rows_in(table),
        more=more,
        via="sql",
        schema=schema_of(table),
    )


@SQL.family()
def count_rows(rng: random.Random, level: int) -> Draft:
    """Groups that have enough rows."""
    table = table_of(rng)
    more, clause, least = where(rng, level, table[3])
    k = rng.randint(2, 3)

    def answer(rows: Rows) -> Rows:
        kept = [group for group, _, n in rows if n >= least]
        return [[one, kept.count(one)] for one in sorted(set(kept)) if kept.count(one) >= k]

    return Draft(
        says=COLUMNS.format(*table) + f"Return an SQL statement that gives each {table[1]} with "
        f"at least {k} rows, and how many it has, in the order of {table[1]}.",
        args=(),
        body=statement(
            f"select {table[1]}, count(*) from {table[0]}{clause} group by {table[1]} "
            f"having count(*) >= {k} order by {table[1]}"
        ),
        answer=answer,
        sample=rows_in(table),
        more=more,
        via="sql",
        schema=schema_of(table),
    )
