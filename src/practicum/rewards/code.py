"""Rewards for code that parses (`SyntaxCheck`) and runs or passes tests (`CodeExecution`).

Code of the policy runs in a sandbox only, never in this process.
"""

import asyncio
import json
import re
import shutil
import warnings
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from practicum.core.command import CommandResult, CommandStatus, SandboxSpec
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Sandbox, Sandboxes
from practicum.core.python_source import parse_python
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Trace

FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+#.-]*)[^\n]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.M | re.S)
"""A fenced code block; an unclosed one reaches to the end of the text."""

LANGUAGES = {
    "python": "python",
    "python3": "python",
    "py": "python",
    "json": "json",
    "bash": "bash",
    "sh": "bash",
    "shell": "bash",
}
"""Known languages by the word after the fence."""

Turns = Literal["all", "final"]


class CodeBlock(NamedTuple):
    """A fenced code block."""

    language: str
    """`python`, `json` or `bash`; empty for any other."""
    code: str


def turns_written(trace: Trace, which: Turns = "all") -> list[str]:
    """The text of each turn, or of the last turn only."""
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
    """A text without its fenced code blocks."""
    return FENCE.sub("", text)


class BorrowedSandboxes:
    """Opens sandboxes, and closes the processes that serve them whenever none is in use.

    A reward has no `close`, so it cannot know which episode is the last one.
    """

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self._in_use = 0
        self._closed: asyncio.Event | None = None
        """Not None while they are being closed; set when that is done."""

    @asynccontextmanager
    async def box(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        """A new sandbox, closed at the end of the block."""
        while self._closed is not None:
            await self._closed.wait()
        self._in_use += 1
        try:
            box = await self._sandboxes.open(spec)
            try:
                yield box
            finally:
                await box.close()
        finally:
            self._in_use -= 1
            if not self._in_use:
                await self._close()

    async def _close(self) -> None:
        self._closed = asyncio.Event()
        try:
            with suppress(OSError):
                await self._sandboxes.close()
        finally:
            self._closed.set()
            self._closed = None


MAX_BLOCK_LEN = 100_000
"""Characters; parsing runs in this process, and a huge block could exhaust its memory."""
CHECK_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxCheck:
    """The share of blocks that parse: Python by `ast`, JSON, and shell by `bash -n`.

    `bash -n` reads a script and carries nothing of it out. It does so in a sandbox where sandboxes
    are given, and else here; where there is no bash, shell cannot be checked.
    """

    turns: Turns = "all"
    without: float | None = 0.0
    """Value of an episode without a block that can be checked; None leaves it unscored."""
    sandboxes: BorrowedSandboxes | None = None

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """From 0 to 1, or `without`."""
        blocks = code_blocks(turns_written(trace, self.turns))
        here = [parses(block) for block in blocks if block.language in ("python", "json")]
        scripts = [block.code for block in blocks if block.language == "bash"]
        if scripts and self.sandboxes is not None:
            here += await _check_scripts(scripts, self.sandboxes)
        elif scripts and (bash := shutil.which("bash")):
            here += [await _is_read(bash, script) for script in scripts]
        if not here:
            return Score(components={"syntax": self.without}, reason="no code to check")
        reason = f"{sum(here)} of {len(here)} blocks parse"
        return Score(components={"syntax": sum(here) / len(here)}, reason=reason)


def parses(block: CodeBlock) -> bool:
    r"""Whether a block of Python or JSON is valid.

    >>> [parses(CodeBlock("python", code)) for code in ("x = 1\n", "x = \n")]
    [True, False]
    """
    if len(block.code) > MAX_BLOCK_LEN:
        return False
    try:
        if block.language == "json":
            json.loads(block.code)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes only warn in today's Python
                parse_python(block.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


async def _is_read(bash: str, script: str) -> bool:
    """Whether bash can read a script; it has no environment to take a function or a file from."""
    if len(script) > MAX_BLOCK_LEN:
        return False
    reader = await asyncio.create_subprocess_exec(
        *(bash, "--norc", "--noprofile", "-n"),
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=DEVNULL,
        env={},
        cwd="/",
    )
    try:
        async with asyncio.timeout(CHECK_S):
            await reader.communicate(script.encode())
    except TimeoutError:
        return False
    finally:
        if reader.returncode is None:
            reader.kill()
            await reader.wait()
    return reader.returncode == 0


async def _check_scripts(scripts: list[str], sandboxes: BorrowedSandboxes) -> list[bool]:
    async with sandboxes.box(SandboxSpec(profile="code")) as box:
        found = []
        for script in scripts:
            checked = await box.run(["bash", "-n"], timeout_s=CHECK_S, stdin=script.encode())
            found.append(checked.status is CommandStatus.OK and checked.exit_code == 0)
        return found


TESTS = "tests"
"""Key of the tests in `Task.data`."""

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
"""Evaluates one call and prints its value. The expected value stays outside the sandbox, so the
solution cannot read it, and exiting early with code 0 does not pass."""

PROGRAM = """
import io, json, sys
given = json.load(sys.stdin)
sys.stdin = io.TextIOWrapper(io.BytesIO(given["stdin"].encode()))
exec(compile(given["code"], "solution.py", "exec"), {"__name__": "__main__"})
"""
"""Runs the solution as a program. The code comes by stdin: argument lengths are limited."""

FINISHED = (CommandStatus.OK, CommandStatus.TRUNCATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExecution:
    """Runs the code blocks of an episode.

    Without tests, a block of Python or shell passes when it exits with code 0. With tests in
    `task.data["tests"]` the Python blocks together are the solution: {"stdin": text, "stdout":
    text} runs it as a program, {"call": expression, "expect": value} evaluates an expression in
    its namespace.
    """

    sandboxes: BorrowedSandboxes
    turns: Turns = "final"
    count: Literal["share", "all"] = "share"
    without: float | None = 0.0
    timeout_s: float = 10.0
    memory_mb: int = 256
    processes: int = 32
    most: int = 8

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """From 0 to 1, or `without`; unscored when no sandbox could be opened."""
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
        found: list[CodeBlock] = []
        for text in reversed(turns_written(trace)):
            found = [b for b in code_blocks([text]) if b.language in languages] + found
            if found and self.turns == "final":
                break
        return found[-self.most :]

    async def _run(self, box: Sandbox, block: CodeBlock) -> CommandResult:
        interpreter = ["bash", "-s"] if block.language == "bash" else ["python3", "-I", "-"]
        return await box.run(interpreter, timeout_s=self.timeout_s, stdin=block.code.encode())

    async def _passes(self, box: Sandbox, code: str, test: Any) -> bool:
        is_call = "call" in test
        driver = ["python3", "-I", "-c", CALL if is_call else PROGRAM]
        inputs = {"call": test["call"]} if is_call else {"stdin": str(test.get("stdin", ""))}
        stdin = json.dumps({"code": code, **inputs}).encode()
        result = await box.run(driver, timeout_s=self.timeout_s, stdin=stdin)
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
    """The value in the last line of output; an object equal to nothing if there is none."""
    try:
        return json.loads(stdout.strip().rpartition("\n")[2])["value"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return object()


def _same(value: Any, expected: Any) -> bool:
    """Whether the values are equal as JSON, where true is not 1."""
    return isinstance(value, bool) == isinstance(expected, bool) and bool(value == expected)
