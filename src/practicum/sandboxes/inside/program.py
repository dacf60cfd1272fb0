"""The first process as one program, since the sandbox's Python cannot import this package."""

import subprocess
from collections.abc import Sequence
from functools import cache
from importlib import resources

PARTS = ("frames", "kept", "kernel", "processes", "running", "serving", "system", "first")
"""In order: each imports only from those before it."""
COMPILE = """
import importlib.util, marshal, sys
code = compile(sys.stdin.read(), "first process", "exec")
sys.stdout.buffer.write(importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
"""
"""Writes a `.pyc` file: magic number, twelve bytes about the source, and the code."""
OWN_IMPORT = "from practicum.sandboxes.inside."


@cache
def program_text() -> str:
    """The modules concatenated, without their imports of each other."""
    folder = resources.files("practicum.sandboxes.inside")
    return "\n".join(_without_own_imports(folder.joinpath(f"{p}.py").read_text()) for p in PARTS)


def compiled_program(python: Sequence[str]) -> bytes:
    """The program compiled by the sandbox's Python, once, to save that time at each start.

    `python` is the command that runs that Python.
    """
    done = subprocess.run(
        [*python, "-I", "-S", "-c", COMPILE],
        input=program_text().encode(),
        capture_output=True,
        check=False,
        env={},
    )
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip()[-300:]
        raise OSError(f"the Python of the sandbox does not run: {reason}")
    return done.stdout


def _without_own_imports(text: str) -> str:
    r"""A module's text without imports of its siblings, also those over several lines.

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
