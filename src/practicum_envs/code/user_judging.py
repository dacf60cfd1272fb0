"""Judges programs by a user's tests, which no program ever shares a process or a sandbox with.

A program gets calls and gives values; the assertions run elsewhere on those values. Which calls
they make comes out while they run, so both sides take turns until every assertion is decided.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from practicum_envs.code import inside_program, inside_tests
from practicum_envs.code.inside_program import encoded
from practicum_envs.code.program_runner import CallResult, ProgramRunner
from practicum_envs.code.user_rows import UserProblem

MOST_ROUNDS = 40
"""Calls that an assertion may make one after the other."""
VALUES = Path(inside_program.__file__).read_text(encoding="utf-8")
TESTS = (
    Path(inside_tests.__file__)
    .read_text(encoding="utf-8")
    .replace("from practicum_envs.code.inside_program import decoded, encoded\n", "")
)
TEST_COMMAND = ("python3", "-I", "-S", "-c", f"{VALUES}\n{TESTS}\n\nmain()\n")
PROGRAM = """
import io, json, sys
given = json.load(sys.stdin)
sys.stdin = io.TextIOWrapper(io.BytesIO(given["stdin"].encode()))
exec(compile(given["source"], "solution.py", "exec"), {"__name__": "__main__"})
"""
PROGRAM_COMMAND = ("python3", "-I", "-S", "-c", PROGRAM)


class UserJudge:
    """Runs the tests of a user's rows."""

    def __init__(self, runner: ProgramRunner) -> None:
        self._runner = runner

    async def met(self, problem: UserProblem, source: str) -> list[bool]:
        """Whether a program meets each test that scores."""
        found = await self.assertions(problem, source, problem.assertions)
        calls = [case for case in problem.cases if "call" in case]
        values = await self._values(source, [str(case["call"]) for case in calls])
        found += [
            not one.error and as_json(one.value) == json.dumps(case["expect"], sort_keys=True)
            for one, case in zip(values, calls, strict=True)
        ]
        for case in problem.cases:
            if "call" not in case:
                given = {"source": source, "stdin": str(case.get("stdin", ""))}
                said = await self._runner.run_command(PROGRAM_COMMAND, json.dumps(given).encode())
                found.append(said.split() == str(case["stdout"]).split())
        return found

    async def _values(self, source: str, expressions: Sequence[str]) -> list[CallResult]:
        calls = [{"via": "expression", "expression": one} for one in expressions]
        return await self._runner.run(source, calls, 0) if calls else []

    async def assertions(
        self, problem: UserProblem, source: str, assertions: Sequence[str]
    ) -> list[bool]:
        """Whether a program meets each of some assertions."""
        known: list[list[Any]] = []
        verdicts: list[bool | None] = [None] * len(assertions)
        for _ in range(MOST_ROUNDS):
            open_ones = [at for at, verdict in enumerate(verdicts) if verdict is None]
            if not open_ones:
                break
            asked = await self._round(problem, [assertions[at] for at in open_ones], known)
            for at, one in zip(open_ones, asked, strict=True):
                verdicts[at] = None if "asks" in one else one.get("ok") is True
            calls = list(
                {json.dumps(one["asks"]): one["asks"] for one in asked if "asks" in one}.values()
            )
            known += await self._answers(problem, source, calls)
        return [verdict is True for verdict in verdicts]

    async def _round(
        self, problem: UserProblem, assertions: Sequence[str], known: list[list[Any]]
    ) -> list[dict[str, Any]]:
        """What each assertion comes to with the calls that are known."""
        given = {
            "assertions": list(assertions),
            "function": problem.function,
            "setup": problem.setup,
            "known": known,
        }
        said = await self._runner.run_command(TEST_COMMAND, json.dumps(given).encode())
        lines = [line for line in said.splitlines() if line.startswith("{")]
        found = [json.loads(line) for line in lines[: len(assertions)]]
        return found + [{"ok": False}] * (len(assertions) - len(found))

    async def _answers(
        self, problem: UserProblem, source: str, calls: Sequence[Any]
    ) -> list[list[Any]]:
        """The calls with what the program gave for each."""
        if not calls:
            return []
        asked = [
            {"function": problem.function, "via": "call", "args": args[1:], "named": named}
            for args, named in calls
        ]
        results = await self._runner.run(source, asked, 0)
        told = [{} if one.error else {"value": encoded(one.value)} for one in results]
        return [[call, one] for call, one in zip(calls, told, strict=True)]


def as_json(value: Any) -> str:
    """A value as JSON, where true is not 1 and a tuple is a list; empty where it is none."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return ""
