"""What the clients did in this run, as a table for docs/clients.md.

PRACTICUM_CLIENTS_TABLE=docs/clients.md writes it into that page. Clients that were not run keep the
row that they have there.
"""

import os
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "clients.md"
BEGIN, END = "<!-- clients: made by tests/clients -->", "<!-- clients: end -->"
FEATURES = ("tools", "streaming", "typed", "errors")
TOKENS, APART = "tokens in the trace", "log-probabilities apart"
COLUMNS = (*FEATURES, TOKENS, APART)
LACKS = "-"
"""What a client does not have."""

_rows: dict[str, dict[str, str]] = {}


def expect(client: str, *, lacks: Sequence[str] = ()) -> None:
    """Gives the client a row; rows come in the order in which they were expected."""
    _rows[client] = dict.fromkeys(lacks, LACKS)


def note(client: str, column: str, seen: str) -> None:
    """Writes down what was seen of a client."""
    assert column in COLUMNS
    _rows[client][column] = seen


def table(shown: Sequence[str] = ()) -> str:
    """A row for each client; of those that were not run, the row `shown` before."""
    rows = ["| client | " + " | ".join(COLUMNS) + " |", "|---|" + "---|" * len(COLUMNS)]
    kept = [row for row in shown if row.startswith("| ") and name_in(row) not in {"client", *_rows}]
    rows += kept  # of a module that was not collected
    for client, seen in _rows.items():
        if set(seen.values()) - {LACKS}:
            cells = " | ".join(seen.get(column, "") for column in COLUMNS)
            rows.append(f"| {client} | {cells} |")
        else:
            rows += [row for row in shown if name_in(row) == client]
    return "\n".join(rows)


def name_in(row: str) -> str:
    """The client that a row is of."""
    return row.partition(" | ")[0].removeprefix("| ")


def shown_names() -> set[str]:
    """The clients that the page has rows of."""
    return {name_in(row) for row in PAGE.read_text().partition(BEGIN)[2].split(END)[0].splitlines()}


def clients() -> list[str]:
    """Every client that has a row."""
    return list(_rows)


def write_table() -> None:
    """Writes the table where that is asked for."""
    page = os.environ.get("PRACTICUM_CLIENTS_TABLE")
    if page:
        path = REPOSITORY / page
        before, _, rest = path.read_text().partition(BEGIN)
        shown, _, after = rest.partition(END)
        path.write_text(f"{before}{BEGIN}\n{table(shown.splitlines())}\n{END}{after}")
