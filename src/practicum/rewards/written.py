"""What the policy wrote: its turns, and the code in them."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from practicum.core.trace import Trace

__all__ = ["CodeBlock", "Turns", "code_blocks", "turns_written", "without_code"]

FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+#.-]*)[^\n]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.M | re.S)
"""A block in fences; one that is never closed reaches to the end of the text."""

LANGUAGES = {
    "python": "python",
    "python3": "python",
    "py": "python",
    "json": "json",
    "bash": "bash",
    "sh": "bash",
    "shell": "bash",
}
"""Languages that can be run or checked, by what is written behind a fence."""

Turns = Literal["all", "final"]


class CodeBlock(NamedTuple):
    """Code between fences."""

    language: str
    """`python`, `json` or `bash`; empty where the fence names no language that is known here."""
    code: str


def turns_written(trace: Trace, which: Turns = "all") -> list[str]:
    """The texts the policy wrote, one for each turn, or that of the last turn alone."""
    texts = [
        "\n".join(m.content for m in trace.nodes[turn].messages if m.role == "assistant")
        for turn in trace.turns
    ]
    return texts if which == "all" else texts[-1:]


def code_blocks(texts: Sequence[str]) -> list[CodeBlock]:
    r"""The code blocks of some texts, in order.

    >>> code_blocks(["Try:\n```py\nprint(1)\n```\n"])
    [CodeBlock(language='python', code='print(1)\n')]
    """
    return [
        CodeBlock(LANGUAGES.get(found[1].lower(), ""), found[2])
        for text in texts
        for found in FENCE.finditer(text)
    ]


def without_code(text: str) -> str:
    """A text with the blocks in fences left out."""
    return FENCE.sub("", text)
