"""The actions of a programming task: reading a turn, and the forms of constrained turns."""

import codeop
import re
import string
import warnings
from dataclasses import dataclass
from functools import lru_cache

from practicum.core.sampling import ActionForm, NextCharacters

ACTIONS = (
    "analyze_requirements",
    "write_function",
    "add_logic",
    "test_code",
    "debug",
    "optimize",
    "submit",
)
TURN = re.compile(
    r"\s*(?:Act:\s*)?`{0,3}(?P<name>[a-z_]+)`{0,3}[ \t]*:?[ \t]*(?P<rest>.*)\Z", re.DOTALL
)
FENCED = re.compile(
    r"```[ \t]*(?:python|py)?[ \t]*\n(?P<code>.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.M
)
MOST_TURN = 8_000
"""Characters of a turn that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a turn asks for."""

    action: str
    """One of `ACTIONS`; empty where the turn names none."""
    code: str = ""


def read_turn(text: str) -> Turn:
    r"""The action that a turn names first, and the code after it, without a fence around it.

    >>> read_turn("write_function\ndef f():\n    return 1")
    Turn(action='write_function', code='def f():\n    return 1')
    """
    found = TURN.match(text[:MOST_TURN])
    if found is None or found["name"] not in ACTIONS:
        return Turn(action="")
    rest = found["rest"]
    fenced = FENCED.search(rest)
    code = fenced["code"] if fenced else rest
    return Turn(action=found["name"], code=code.strip("\r\n").rstrip())


def write_turn(action: str, code: str = "", between: str = "\n") -> str:
    """A turn as a solution writes it: the action, and the code below it or after a space."""
    return f"{action}{between}{code}" if code else action


CODE_CHARACTERS = "".join(sorted({*string.ascii_letters, *string.digits, *string.punctuation, " "}))
LONGEST_LINE, LONGEST_VALUE = 96, 320
"""Characters of a line, and of one that returns a value or is a test."""
OF_A_VALUE = re.compile(r"\s+return |\w{3,}\([\[\](){}'\"\d-]")
MOST_ARGUMENT = 1_200


def code_syntax(written: str) -> NextCharacters:
    r"""An argument of lines of Python: once they cannot become Python any more, it ends.

    >>> code_syntax(")\nx").may_end, code_syntax(")\nx").allowed
    (True, '')
    """
    lines, _, last = written.rpartition("\n")
    if len(written) >= MOST_ARGUMENT or (lines and not _may_become_python(lines)):
        return NextCharacters(allowed="", may_end=True)
    if len(last) >= (LONGEST_VALUE if OF_A_VALUE.match(last) else LONGEST_LINE):
        return NextCharacters(allowed="\n", may_end=True)
    return NextCharacters(allowed="\n" + CODE_CHARACTERS, may_end=bool(written.strip()))


def tests_syntax(written: str) -> NextCharacters:
    """An argument of tests, which may be none."""
    following = code_syntax(written)
    return NextCharacters(allowed=following.allowed, may_end=True)


@lru_cache(maxsize=4096)
def _may_become_python(lines: str) -> bool:
    """Whether lines are Python, or its beginning; indented lines are the inside of a function."""
    text = lines.lstrip("\n")
    if text.startswith((" ", "\t")):
        text = f"if 1:\n{text}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            codeop.compile_command(text + "\n", "solution.py", "exec")
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
    return True


SYNTAX = {
    "write_function": code_syntax,
    "add_logic": code_syntax,
    "test_code": tests_syntax,
    "optimize": tests_syntax,
}
FORMS = tuple(ActionForm(name=name, argument=SYNTAX.get(name)) for name in ACTIONS)
