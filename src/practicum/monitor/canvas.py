"""What a view is drawn on, and the few things every view draws."""

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from practicum.monitor.charts import ASCII_GLYPHS, UNICODE_GLYPHS, Glyphs
from practicum.monitor.wording import one_line, to_ascii

__all__ = ["Canvas"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """A terminal's size and signs.

    >>> Canvas(width=20, ascii_only=True).line("3 × 4 = 12", width=6).plain
    '3 x...'
    """

    width: int = 80
    height: int | None = None
    """Lines there are; None when the text may be as long as it likes."""
    ascii_only: bool = False

    @classmethod
    def of(cls, console: Console, *, fit_height: bool = False) -> "Canvas":
        """The canvas a console is; `fit_height` for a view that must not scroll."""
        return cls(
            width=console.width,
            height=console.height if fit_height else None,
            ascii_only=console.options.ascii_only,
        )

    @property
    def glyphs(self) -> Glyphs:
        """What charts are drawn with here."""
        return ASCII_GLYPHS if self.ascii_only else UNICODE_GLYPHS

    @property
    def separator(self) -> str:
        """What stands between facts on one line."""
        return " - " if self.ascii_only else " · "

    def text(self, content: str, style: str = "") -> Text:
        """Any text on one line, in signs this terminal has; never read as markup."""
        content = one_line(content)
        return Text(to_ascii(content) if self.ascii_only else content, style=style)

    def line(self, content: str, style: str = "", *, width: int | None = None) -> Text:
        """The same, cut to a width with dots at the cut."""
        return self.cut(self.text(content, style), self.width if width is None else width)

    def cut(self, text: Text, width: int) -> Text:
        """A line cut to a width, with dots at the cut."""
        text.no_wrap = True
        if text.cell_len > width:
            dots = "..." if self.ascii_only else "…"
            text.truncate(max(0, width - len(dots)))
            text.append(dots)
        return text

    def heading(self, title: str) -> Text:
        """A title on a line across the canvas."""
        rule = "-" if self.ascii_only else "─"
        text = Text(f"{rule}{rule} ", style="dim")
        text.append_text(self.line(title, "bold not dim", width=self.width - 6))
        text.append(" ")
        text.append(rule * max(0, self.width - text.cell_len))
        text.no_wrap = True
        return text
