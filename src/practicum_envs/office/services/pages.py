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


def sign_in_form(
    title: str, action: str, fields: tuple[tuple[str, str], ...], button: str, said: str = ""
) -> str:
    """The page to log in: `fields` are labels and names, the last one a password's."""
    kinds = ["text"] * (len(fields) - 1) + ["password"]
    rows = "".join(
        f'<label>{escaped(label)} <input name="{name}" type="{kind}"></label> '
        for (label, name), kind in zip(fields, kinds, strict=True)
    )
    form = f'<form method="post" action="{action}">{rows}<button>{button}</button></form>'
    return page(title, f"<p>{escaped(said)}</p>{form}")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; its cells are HTML already."""
    top = "".join(f"<th>{escaped(one)}</th>" for one in head)
    lines = ("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{''.join(lines)}</table>"
