"""The fenced blocks of a page of documentation, and the commands in them."""

import re
from dataclasses import dataclass

LANGUAGES = {"bash", "console", "python", "yaml"}
FENCE = re.compile(r"^```(\w*)\s*$")
DIRECTIVE = re.compile(r"^<!-- test: (.*?) -->$")


class PageFault(AssertionError):
    """Something on a page that is not right, with its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBlock:
    """One fenced block as a reader sees it, and the test comments above it."""

    where: str
    language: str
    text: str
    directives: list[str]


def directives_above(lines: list[str], fence: int) -> list[str]:
    """The test comments right above a fence; one blank line may lie between."""
    found: list[str] = []
    at = fence - 1
    if at >= 0 and not lines[at].strip():
        at -= 1
    while at >= 0 and (match := DIRECTIVE.match(lines[at].strip())):
        found.insert(0, match.group(1))
        at -= 1
    return found


def page_blocks(page: str, text: str) -> list[PageBlock]:
    """The blocks of a page that can be run or read, in order."""
    lines = text.splitlines()
    blocks: list[PageBlock] = []
    start: int | None = None
    language = ""
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence is None:
            continue
        if start is None:
            start, language = number, fence.group(1)
            continue
        if language in LANGUAGES:
            blocks.append(
                PageBlock(
                    where=f"{page}, line {start + 1}",
                    language=language,
                    text="\n".join(lines[start + 1 : number]),
                    directives=directives_above(lines, start),
                )
            )
        start = None
    if start is not None:
        raise PageFault(f"{page}, line {start + 1}: the block is never closed")
    return blocks


def commands_and_output(language: str, text: str) -> tuple[list[str], list[str]]:
    """Lines to run and lines shown as output; a command goes on after a backslash."""
    if language != "console":
        return text.splitlines(), []
    commands: list[str] = []
    shown: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append(line.removeprefix("$ "))
        elif commands and commands[-1].endswith("\\") and not shown:
            commands.append(line)
        else:
            shown.append(line.rstrip())
    return commands, shown
