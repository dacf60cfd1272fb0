"""Runs a user's assertions on values that a program gave elsewhere; runs in a sandbox of its own.

The program is not in this process: its name stands for a table of calls and their values. An
assertion that makes a call which is not in the table is left undecided, and the call is told.
"""

import json
import sys

from practicum_envs.code.inside_program import decoded, encoded


class NotKnown(BaseException):
    """A call that the table does not have."""


class Table:
    """Stands for the program's function."""

    def __init__(self, known: list[list[object]]) -> None:
        self._known = {json.dumps(call): result for call, result in known}
        self.asked: object = None

    def __call__(self, *args: object, **named: object) -> object:
        """The value that the program gave for these arguments."""
        call = [encoded(list(args)), {key: encoded(one) for key, one in sorted(named.items())}]
        result = self._known.get(json.dumps(call))
        if result is None:
            self.asked = call
            raise NotKnown
        assert isinstance(result, dict)
        if "value" not in result:
            raise RuntimeError("the program gave no value")
        return decoded(result["value"])


def main() -> None:
    """Read assertions and the table from standard input, and write a verdict for each."""
    given = json.loads(sys.stdin.buffer.read())
    for assertion in given["assertions"]:
        table = Table(given["known"])
        names = {"__name__": "tests", given["function"]: table, "candidate": table}
        verdict: dict[str, object] = {"ok": False}
        try:
            exec(given["setup"], names)
            names |= {given["function"]: table, "candidate": table}
            exec(assertion, names)
            verdict = {"ok": True}
        except NotKnown:
            verdict = {"asks": table.asked}
        except Exception as error:  # noqa: BLE001 - a failed assertion, or the values' own fault
            verdict = {"ok": False, "why": type(error).__name__}
        print(json.dumps(verdict), flush=True)
