import io

from rich.console import Console

from practicum.cli.views.charts import Canvas


def test_a_console_without_unicode_gets_a_plain_canvas() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert Canvas.of(Console(file=stream, width=70)) == Canvas(width=70, ascii_only=True)


def test_a_height_is_kept_only_for_views_that_must_fit() -> None:
    console = Console(file=io.StringIO(), width=70, height=30)
    assert Canvas.of(console).height is None
    assert Canvas.of(console, fit_height=True).height == 30


def test_markup_in_someone_elses_text_is_text() -> None:
    assert Canvas().text("[red]x[/red]").plain == "[red]x[/red]"


def test_a_line_that_fits_is_not_cut() -> None:
    assert Canvas(width=5).line("abcde").plain == "abcde"
    assert Canvas(width=4).line("abcde").plain == "abc…"


def test_wide_characters_count_by_the_columns_they_take() -> None:
    assert Canvas().line("方程式を解く", width=7).cell_len <= 7


def test_a_heading_is_as_wide_as_the_canvas_whatever_its_title() -> None:
    for title in ("short", "long " * 40):
        assert Canvas(width=60).heading(title).cell_len == 60
        assert Canvas(width=60, ascii_only=True).heading(title).plain.isascii()
