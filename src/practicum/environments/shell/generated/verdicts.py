"""How the state checker is sent into a sandbox, and how its answer is read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from practicum.core.task import JSON
from practicum.environments.shell import state_checker

__all__ = ["CHECKER_COMMAND", "Verdict", "checker_input", "read_verdicts"]

CHECKER_COMMAND = ("python3", "-I", "-S", "-")
"""What runs the checker: no user's settings, no site packages, the program on standard input."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one assertion holds, and what was found where it does not."""

    ok: bool
    why: str = ""


def checker_input(assertions: Sequence[JSON], nonce: str) -> bytes:
    """The program with its assertions, for the standard input of `CHECKER_COMMAND`.

    The nonce is what nobody else can know: only a line that begins with it is the checker's.
    """
    program = Path(state_checker.__file__).read_text(encoding="utf-8")
    call = f"main({nonce!r}, json.loads({json.dumps(list(assertions))!r}))"
    return f"{program}\n\n{call}\n".encode()


def read_verdicts(stdout: str, nonce: str, count: int) -> tuple[Verdict, ...]:
    """The verdicts a checker printed; `ValueError` unless its output is exactly that one line."""
    word, _, rest = stdout.strip().partition(" ")
    if word != nonce or "\n" in rest:
        raise ValueError(f"the checker's line is missing in {stdout[:200]!r}")
    found = json.loads(rest)
    if not isinstance(found, list) or len(found) != count:
        raise ValueError(f"the checker gave no list of {count} verdicts")
    if not all(isinstance(item, dict) and type(item.get("ok")) is bool for item in found):
        raise ValueError("the checker gave verdicts that are neither true nor false")
    return tuple(Verdict(item["ok"], str(item.get("why", ""))) for item in found)
