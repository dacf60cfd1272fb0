"""Whether the code that was written runs. It runs in a sandbox and nowhere else."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from practicum.core.command import CommandResult, CommandStatus, SandboxSpec
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Sandbox
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Trace
from practicum.rewards.borrowed import BorrowedSandboxes
from practicum.rewards.written import CodeBlock, Turns, code_blocks, turns_written

__all__ = ["CodeExecution"]

TESTS = "tests"
"""Where a task keeps its tests, among its data."""

CALL = """
import io, json, sys
given = json.load(sys.stdin)
said, sys.stdout = sys.stdout, io.StringIO()
names = {"__name__": "solution"}
exec(compile(given["code"], "solution.py", "exec"), names)
value = eval(given["call"], names)
said.write("\\n" + json.dumps({"value": value}) + "\\n")
said.flush()
"""
"""Carries out one call and prints its value. What is expected stays outside: code that wants to
pass without solving anything has nothing to read it from, and ending early proves nothing."""

PROGRAM = """
import io, json, sys
given = json.load(sys.stdin)
sys.stdin = io.TextIOWrapper(io.BytesIO(given["stdin"].encode()))
exec(compile(given["code"], "solution.py", "exec"), {"__name__": "__main__"})
"""
"""Runs the solution as a program. It comes by standard input, since commands have a longest
length."""

FINISHED = (CommandStatus.OK, CommandStatus.TRUNCATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExecution:
    """Runs the code blocks of an episode.

    Without tests, a block of Python or shell is good when it ends by itself with exit code 0. With
    tests in `task.data["tests"]`, the Python blocks together are the solution, and each test is
    good or not: {"stdin": text, "stdout": text} runs it as a program, {"call": expression,
    "expect": value} defines what is in it and evaluates an expression.
    """

    sandboxes: BorrowedSandboxes
    turns: Turns = "final"
    count: Literal["share", "all"] = "share"
    without: float = 0.0
    timeout_s: float = 10.0
    memory_mb: int = 256
    processes: int = 32
    most: int = 8

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Between 0 and 1, unless there is no code; unscored when no sandbox could be had."""
        tests = task.data.get(TESTS)
        blocks = self._blocks(trace, ("python",) if tests else ("python", "bash"))
        if not blocks:
            return Score(components={"code_execution": self.without}, reason="no code to run")
        if tests and not _are_tests(tests):
            return Score.unscored(f"the tests of {task.id!r} cannot be read; see docs/rewards.md")
        spec = SandboxSpec(
            profile="code", memory_mb=self.memory_mb, disk_mb=64, processes=self.processes
        )
        try:
            async with self.sandboxes.box(spec) as box:
                if isinstance(tests, list) and tests:
                    code = "\n".join(block.code for block in blocks)
                    found = [await self._passes(box, code, test) for test in tests]
                else:
                    found = [_is_good(await self._run(box, block)) for block in blocks]
        except EnvironmentFailure as error:
            return Score.unscored(f"no sandbox: {error}")
        good, all_of = sum(found), len(found)
        value = float(good == all_of) if self.count == "all" else good / all_of
        reason = f"{good} of {all_of} {'tests' if tests else 'blocks'}"
        return Score(components={"code_execution": value}, reason=reason)

    def _blocks(self, trace: Trace, languages: Sequence[str]) -> list[CodeBlock]:
        """The blocks to run; with `final`, those of the last turn that has any."""
        for text in reversed(turns_written(trace)) if self.turns == "final" else ():
            found = [block for block in code_blocks([text]) if block.language in languages]
            if found:
                return found[-self.most :]
        if self.turns == "final":
            return []
        found = [b for b in code_blocks(turns_written(trace)) if b.language in languages]
        return found[-self.most :]

    async def _run(self, box: Sandbox, block: CodeBlock) -> CommandResult:
        interpreter = ["bash", "-s"] if block.language == "bash" else ["python3", "-I", "-"]
        return await box.run(interpreter, timeout_s=self.timeout_s, stdin=block.code.encode())

    async def _passes(self, box: Sandbox, code: str, test: Any) -> bool:
        is_call = "call" in test
        driver = ["python3", "-I", "-c", CALL if is_call else PROGRAM]
        asked = {"call": test["call"]} if is_call else {"stdin": str(test.get("stdin", ""))}
        given = json.dumps({"code": code, **asked}).encode()
        result = await box.run(driver, timeout_s=self.timeout_s, stdin=given)
        if not _is_good(result):
            return False
        if is_call:
            return _same(_value(result.stdout), test["expect"])
        return result.stdout.split() == str(test["stdout"]).split()


def _is_good(result: CommandResult) -> bool:
    return result.status in FINISHED and result.exit_code == 0


def _are_tests(tests: JSON) -> bool:
    return isinstance(tests, list) and all(
        isinstance(test, dict)
        and (
            (isinstance(test.get("call"), str) and "expect" in test)
            or isinstance(test.get("stdout"), str)
        )
        for test in tests
    )


def _value(stdout: str) -> Any:
    """What the last line says the call gave; something equal to nothing where it does not."""
    try:
        return json.loads(stdout.strip().rpartition("\n")[2])["value"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return object()


def _same(value: Any, expected: Any) -> bool:
    """Equal, and True is not 1."""
    return isinstance(value, bool) == isinstance(expected, bool) and bool(value == expected)
