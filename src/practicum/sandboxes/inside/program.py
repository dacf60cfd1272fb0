"""The first process as one text, to be given to whatever Python the sandbox has."""

from functools import cache
from importlib import resources

__all__ = ["program_text"]

PARTS = ("frames", "kept", "kernel", "processes", "system", "first")
"""In an order in which each needs only those before it."""
OWN_IMPORT = "from practicum.sandboxes.inside."


@cache
def program_text() -> str:
    """The parts one after the other, without the lines by which they import each other."""
    folder = resources.files("practicum.sandboxes.inside")
    return "\n".join(_without_own_imports(folder.joinpath(f"{p}.py").read_text()) for p in PARTS)


def _without_own_imports(text: str) -> str:
    r"""A part's text; an import over several lines ends with its closing bracket.

    >>> _without_own_imports("import os\n" + OWN_IMPORT + "kept import (\n    Kept,\n)\nos.nice")
    'import os\nos.nice'
    """
    kept: list[str] = []
    is_inside = False
    for line in text.splitlines():
        if line.startswith(OWN_IMPORT):
            is_inside = line.endswith("(")
        elif is_inside:
            is_inside = line != ")"
        else:
            kept.append(line)
    return "\n".join(kept)
