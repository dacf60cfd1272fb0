"""Text from tasks, models and commands, made safe for a terminal."""

import re

__all__ = ["indented", "plain"]

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)", re.DOTALL)
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and line feed, and those that turn the direction of writing."""


def plain(text: str) -> str:
    r"""The text without what would steer a terminal.

    >>> plain("a\x1b[31mred\x07")
    'ared'
    """
    return CONTROLS.sub("", ESCAPES.sub("", text.replace("\r\n", "\n")))


def indented(text: str, spaces: int = 4) -> str:
    """The text as it is safe, every line after the first moved right."""
    return plain(text).replace("\n", "\n" + " " * spaces)
