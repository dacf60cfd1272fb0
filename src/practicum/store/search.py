"""Finding episodes among many: filters, pages, counts.

Pages are cut by the row that the last one ended with, never by an offset, so that the thousandth
page costs what the first one did. Only short rows are looked through; the episodes themselves lie
in a table of their own and are read one by one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.store.database import TraceDatabase
from practicum.store.episode_codec import decode_episode, encode_episode
from practicum.store.summaries import EpisodeSummary
from practicum.store.where import FIELDS, parse_where

__all__ = ["COLUMNS", "FoundEpisode", "TraceSearch", "to_summary"]

COLUMNS = tuple(field.name for field in fields(EpisodeSummary))
PAGE = 500
"""Rows looked up at once; between pages the writer may clean up."""

COUNTED = tuple(name for name, field in FIELDS.items() if field.kind in ("text", "truth"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEpisode:
    """An episode in a list."""

    row: int
    """Its place in the store; the next page begins after it."""
    summary: EpisodeSummary
    label: float | None
    """The newest that a person gave."""


class TraceSearch(TraceDatabase):
    """The questions that can be asked of a store."""

    def find(self, where: str = "", limit: int = 50, after: int = 0) -> list[FoundEpisode]:
        """One page, oldest first: the episodes that match, stored after row `after`."""
        label = FIELDS["label"].sql
        rows = self._page(
            f"e.row, {', '.join('e.' + c for c in COLUMNS)}, {label}", where, after, limit
        )
        return [
            FoundEpisode(row=row[0], summary=to_summary(row[1:-1]), label=row[-1]) for row in rows
        ]

    def query(self, where: str = "", limit: int | None = None, after: int = 0) -> Iterator[Episode]:
        """The episodes that match, whole, oldest first, in memory one at a time.

        Example:
            `store.query("success and source = art")`
        """
        for _, episode in self.query_rows(where, limit, after):
            yield episode

    def query_rows(
        self, where: str = "", limit: int | None = None, after: int = 0
    ) -> Iterator[tuple[int, Episode]]:
        """The same with the row of each, for `rescore` and for going on later."""
        parse_where(where)  # a mistake is said at once, not when the first page is read
        return self._walk(where, limit, after)

    def count_where(self, where: str = "") -> int:
        """How many match."""
        condition = parse_where(where)
        sql = f"SELECT COUNT(*) FROM current_episodes AS e WHERE {condition.sql}"
        return int(self._query(sql, condition.values)[0][0])

    def counts_by(self, field: str, where: str = "") -> dict[str | bool | None, int]:
        """How many match, for each value of a field, the most frequent first."""
        if field not in COUNTED:
            raise UserError(f"episodes are counted by {', '.join(COUNTED)}, not by {field!r}")
        column, condition = FIELDS[field], parse_where(where)
        rows = self._query(
            f"SELECT {column.sql}, COUNT(*) FROM current_episodes AS e WHERE {condition.sql} "
            f"GROUP BY 1 ORDER BY 2 DESC, 1",
            condition.values,
        )
        if column.kind == "truth":
            return {None if value is None else bool(value): n for value, n in rows}
        return dict(rows)

    def rescore(self, scored: Iterable[tuple[int, Episode]]) -> None:
        """Put episodes with new scores in the places of the old ones, all or none."""
        rows = [(encode_episode(e), e.score.value, row) for row, e in scored]
        with self._transaction():
            for body, value, row in rows:
                self._db.execute("UPDATE bodies SET body = ? WHERE row = ?", (body, row))
                self._db.execute("UPDATE episodes SET score = ? WHERE row = ?", (value, row))

    def _walk(self, where: str, limit: int | None, after: int) -> Iterator[tuple[int, Episode]]:
        left = limit
        while left is None or left > 0:
            page = self._page("e.row", where, after, PAGE if left is None else min(PAGE, left))
            for (row,) in page:
                found = self._query("SELECT body FROM bodies WHERE row = ?", (row,))
                yield row, decode_episode(found[0][0])
                after = row
            left = None if left is None else left - len(page)
            if len(page) < PAGE:
                return

    def _page(self, columns: str, where: str, after: int, limit: int) -> list[tuple[Any, ...]]:
        condition = parse_where(where)
        return self._query(
            f"SELECT {columns} FROM current_episodes AS e WHERE e.row > ? AND {condition.sql} "
            "ORDER BY e.row LIMIT ?",
            (after, *condition.values, max(0, limit)),
        )


def to_summary(row: tuple[Any, ...]) -> EpisodeSummary:
    """A row of `COLUMNS` as the record it is."""
    values = dict(zip(COLUMNS, row, strict=True))
    success = values["success"]
    values["success"] = None if success is None else bool(success)
    return EpisodeSummary(**values)
