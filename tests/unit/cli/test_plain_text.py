import pytest

from practicum.cli.arguments import indented, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]52;c;aGk=\x07after", "after"),
        ("\x1b]0;title\x1b\\after", "after"),
        ("a\x07\x00\x9bb\r\n", "ab\n"),
        ("ab\rc", "abc"),
        ("evil\u202etxt", "eviltxt"),
        ("half \x1b", "half "),
    ],
    ids=["plain", "colour", "clipboard", "title", "controls", "return", "bidi", "cut"],
)
def test_nothing_that_steers_a_terminal_is_left(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_lines_after_the_first_are_moved() -> None:
    assert indented("a\nb", 2) == "a\n  b"
