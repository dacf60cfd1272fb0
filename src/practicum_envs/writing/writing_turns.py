"""Turns of the `writing` environment: how they are written and read.

write_paragraph Please note the book sale. It starts at 9 am.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Name = Literal[
    "brainstorm_ideas",
    "create_outline",
    "write_paragraph",
    "edit_content",
    "add_details",
    "hand_in",
]
NAMES: tuple[Name, ...] = get_args(Name)
ARROW = "=>"
LONGEST = 2000
"""Characters of one turn that are read."""
TYPED = {
    "ideas": "brainstorm_ideas",
    "outline": "create_outline",
    "write": "write_paragraph",
    "edit": "edit_content",
    "add": "add_details",
    "done": "hand_in",
}
"""Shorter names for a person."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One action and the text after its name."""

    name: Name
    text: str


def read_turn(written: str) -> Turn | None:
    r"""The first action of a turn; None where it does not begin with one.

    The text ends before a line that begins with another action.

    >>> read_turn("write_paragraph It is open.\nhand_in")
    Turn(name='write_paragraph', text='It is open.')
    >>> read_turn("I will write now.") is None
    True
    """
    lines = written.strip()[:LONGEST].splitlines()
    if not lines:
        return None
    named, _, first = lines[0].strip().partition(" ")
    name = next((one for one in NAMES if one == named.rstrip(":")), None)
    if name is None:
        return None
    kept = [first]
    for line in lines[1:]:
        if line.strip().partition(" ")[0].rstrip(":") in NAMES:
            break
        kept.append(line)
    return Turn(name, " ".join(" ".join(kept).split()))


def read_edit(text: str) -> tuple[str, str] | None:
    """What to replace and by what, of `OLD => NEW`; None where there is no arrow or no OLD.

    >>> read_edit("3 pm => 4 pm"), read_edit("It is awful. =>")
    (('3 pm', '4 pm'), ('It is awful.', ''))
    """
    old, arrow, new = text.partition(ARROW)
    return (old.strip(), new.strip()) if arrow and old.strip() else None


def turn_from_line(line: str) -> str:
    """A line that a person typed as a turn; a line without an action is a paragraph.

    >>> turn_from_line("add Doors open at 9."), turn_from_line("Please come.")
    ('add_details Doors open at 9.', 'write_paragraph Please come.')
    """
    first, _, rest = line.strip().partition(" ")
    name = TYPED.get(first, first)
    if name in NAMES:
        return f"{name} {rest}".strip()
    return f"write_paragraph {line.strip()}"
