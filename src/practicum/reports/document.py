"""A document as blocks, and how they are written as HTML, as PDF and as Markdown.

What a model wrote is hostile: every text is escaped here, once, and the page forbids scripts.
"""

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from practicum.core.errors import MissingExtra, UserError

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""What a browser may load: nothing but the pictures and the style that are in the file."""
MARKDOWN_SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A title of a part."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """A few sentences; strong ones say what matters most, or what is wrong."""

    text: str
    is_strong: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of texts under headings."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart as SVG, and its figures for a form that has no pictures."""

    svg: bytes
    alt: str
    caption: str
    figures: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Lines as they are: a config, commands, what was said."""

    text: str
    language: str = ""


Block = Heading | Paragraph | Table | Picture | Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole report."""

    title: str
    subtitle: str
    blocks: tuple[Block, ...]
    front: tuple[str, ...] = ()
    """Lines that the hub reads at the top of a card; Markdown only."""


FORMS = (".html", ".pdf", ".md")
"""Endings of a file, each a form that a report can have."""


def check_form(path: Path) -> None:
    """Refuse an ending that says no form, and one that needs what is not installed."""
    if path.suffix not in FORMS:
        raise UserError(
            f"{str(path)!r} does not say the form of the report; end it in .html, .pdf or .md"
        )
    if path.suffix == ".pdf":
        MissingExtra.unless("weasyprint", "report", "a report as PDF")
    MissingExtra.unless("matplotlib", "report", "a report with charts")


def write_document(document: Document, path: Path) -> None:
    """Write it in the form that the file's ending says."""
    check_form(path)
    if path.suffix == ".md":
        path.write_text(to_markdown(document), encoding="utf-8")
    elif path.suffix == ".html":
        path.write_text(to_html(document), encoding="utf-8")
    else:
        path.write_bytes(to_pdf(document))


def to_pdf(document: Document) -> bytes:
    """The HTML as pages; nothing is fetched for it."""
    try:
        from weasyprint import HTML  # type: ignore[import-untyped]
        from weasyprint.urls import URLFetcher  # type: ignore[import-untyped]
    except OSError as error:  # its libraries are the system's, not Python's
        raise UserError(
            f"a report as PDF needs Pango, which is not there ({error}); type: sudo apt-get "
            "install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0, or write a .html file "
            "and print it"
        ) from None

    inside = URLFetcher(allowed_protocols=["data"])
    return bytes(HTML(string=to_html(document), url_fetcher=inside).write_pdf())


def to_html(document: Document) -> str:
    """One page without scripts that loads nothing."""
    style = files("practicum.reports").joinpath("report.css").read_text(encoding="utf-8")
    title = html.escape(document.title)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{style}</style></head><body><main>",
        f"<h1>{title}</h1><p class=subtitle>{html.escape(document.subtitle)}</p>",
        *(_html(block) for block in document.blocks),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _html(block: Block) -> str:
    match block:
        case Heading(text=text):
            return f"<h2>{html.escape(text)}</h2>"
        case Paragraph(text=text, is_strong=strong):
            return f"<p{' class=strong' if strong else ''}>{html.escape(text)}</p>"
        case Listing(text=text, language=language):
            return f"<pre class={language or 'said'}>{html.escape(text)}</pre>"
        case Picture(svg=svg, alt=alt, caption=caption):
            data = base64.b64encode(svg).decode()
            return (
                f'<figure><img alt="{html.escape(alt)}" src="data:image/svg+xml;base64,{data}">'
                f"<figcaption>{html.escape(caption)}</figcaption></figure>"
            )
        case Table(head=head, rows=rows, caption=caption):
            return _html_table(head, rows, caption)


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    top = "".join(f"<th scope=col>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    told = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{told}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def to_markdown(document: Document) -> str:
    """The same as text: charts are tables of their figures."""
    lines = [*document.front, f"# {_plain(document.title)}", "", _plain(document.subtitle), ""]
    for block in document.blocks:
        lines += [*_markdown(block), ""]
    return "\n".join(lines)


def _markdown(block: Block) -> list[str]:
    match block:
        case Heading(text=text):
            return [f"## {_plain(text)}"]
        case Paragraph(text=text, is_strong=strong):
            return [f"**{_plain(text)}**" if strong else _plain(text)]
        case Listing(text=text, language=language):
            longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
            fence = "`" * max(3, longest + 1)
            return [f"{fence}{language}", text.rstrip("\n"), fence]
        case Picture(caption=caption, figures=figures):
            return [*_markdown(figures), "", _plain(caption)]
        case Table(head=head, rows=rows, caption=caption):
            told = [f"{_plain(caption)}", ""] if caption else []
            cells = [head, tuple("---" for _ in head), *rows]
            return [
                *told,
                *(
                    f"| {' | '.join(c if n == 1 else _plain(c) for c in row)} |"
                    for n, row in enumerate(cells)
                ),
            ]


def _plain(text: str) -> str:
    """Text of others on one line, that Markdown takes for nothing else."""
    return MARKDOWN_SIGNS.sub(r"\\\1", " ".join(text.split()))
