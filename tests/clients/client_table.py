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
    for client, seen in _rows.items():
        if set(seen.values()) - {LACKS}:
            cells = " | ".join(seen.get(column, "") for column in COLUMNS)
            rows.append(f"| {client} | {cells} |")
        else:
            rows += [row for row in shown if row.startswith(f"| {client} |")]
    return "\n".join(rows)


def shown_rows() -> list[str]:
    """The rows that the page has."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()


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
