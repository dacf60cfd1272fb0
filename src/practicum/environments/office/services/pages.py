"""Plain HTML for agents that read it: headings, lists, tables, links and forms, no scripts."""

from collections.abc import Iterable
from html import escape
from urllib.parse import quote


def escaped(value: object) -> str:
    """Text as it is shown, whatever characters it has."""
    return escape(str(value if value is not None else ""))


def link(address: str, text: object) -> str:
    """A link to an address of the same service."""
    return f'<a href="{escape(quote(address, safe="/:?=&%#.-_"))}">{escaped(text)}</a>'


def page(title: str, body: str) -> str:
    """A whole page."""
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escaped(title)}'
        f"</title></head><body><h1>{escaped(title)}</h1>{body}</body></html>"
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; its cells are HTML already."""
    top = "".join(f"<th>{escaped(one)}</th>" for one in head)
    lines = ("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{''.join(lines)}</table>"
