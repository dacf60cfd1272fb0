"""What is run, and how its end is read; a real sandbox runs in tests/sandboxes."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rewards.traces import fenced, make_task, make_trace

from practicum.core.command import CommandResult, CommandStatus, SandboxSpec
from practicum.core.errors import EnvironmentFailure
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace
from practicum.rewards.code import (
    BorrowedSandboxes,
    CodeBlock,
    CodeExecution,
    SyntaxCheck,
    code_blocks,
    parses,
)
from practicum.sandboxes.commands import RanCommand
from practicum.sandboxes.fake_sandbox import FakeSandboxes

OUTCOME = Outcome(success=None)


def ended(
    code: int | None = 0, stdout: str = "", status: CommandStatus = CommandStatus.OK
) -> CommandResult:
    return CommandResult(status=status, exit_code=code, stdout=stdout)


def evaluates(ran: RanCommand) -> CommandResult:
    """Stands in for Python: what a test's call or program would print."""
    given = json.loads(ran.stdin)
    names: dict[str, Any] = {}
    if "call" in given:
        exec(given["code"], names)
        return ended(stdout="noise\n" + json.dumps({"value": eval(given["call"], names)}) + "\n")
    return ended(stdout=str(sum(map(int, given["stdin"].split()))) + "\n")


async def run_code(
    trace: Trace,
    answer: Callable[[RanCommand], CommandResult],
    task: Task | None = None,
    **options: Any,
) -> tuple[float | None, str, FakeSandboxes]:
    boxes = FakeSandboxes(answer)
    reward = CodeExecution(sandboxes=BorrowedSandboxes(boxes), **options)
    score = await reward.score(task or make_task(), trace, OUTCOME)
    return score.value, score.reason, boxes


async def test_the_last_turn_with_code_is_run_within_the_limits() -> None:
    trace = make_trace(fenced("old()"), fenced("ls", "sh") + fenced("new()"), "That is all.")
    value, reason, boxes = await run_code(
        trace, lambda ran: ended(int(b"new" in ran.stdin)), memory_mb=64, timeout_s=3.0
    )
    assert value == 0.5
    assert reason == "1 of 2 blocks"
    [(spec, box)] = boxes.opened
    assert spec == SandboxSpec(profile="code", memory_mb=64, disk_mb=64, processes=32)
    assert [(ran.command[0], ran.stdin, ran.timeout_s) for ran in box.ran] == [
        ("bash", b"ls\n", 3.0),
        ("python3", b"new()\n", 3.0),
    ]
    assert box.is_closed


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (ended(0), 1.0),
        (ended(0, status=CommandStatus.TRUNCATED), 1.0),
        (ended(1), 0.0),
        (ended(None, status=CommandStatus.TIMEOUT), 0.0),
        (ended(None, status=CommandStatus.OOM), 0.0),
        (ended(None, status=CommandStatus.KILLED), 0.0),
        (ended(None, status=CommandStatus.DIED), 0.0),
        (ended(None, status=CommandStatus.DENIED), 0.0),
    ],
)
async def test_only_an_end_of_its_own_with_0_is_good(result: CommandResult, value: float) -> None:
    assert (await run_code(make_trace(fenced("x")), lambda ran: result))[0] == value


async def test_all_or_nothing_and_at_most_so_many() -> None:
    trace = make_trace(*[fenced(f"n = {n}") for n in range(5)])

    def only_fours(ran: RanCommand) -> CommandResult:
        return ended(0 if ran.stdin == b"n = 4\n" else 1)

    assert (await run_code(trace, only_fours, turns="all"))[0] == 1 / 5
    assert (await run_code(trace, only_fours, turns="all", count="all"))[0] == 0.0
    assert (await run_code(trace, only_fours, turns="all", count="all", most=1))[0] == 1.0


async def test_without_code_nothing_is_opened() -> None:
    value, reason, boxes = await run_code(
        make_trace("no code", fenced("{}", "json")), lambda ran: ended(), without=-0.25
    )
    assert (value, reason) == (-0.25, "no code to run")
    assert boxes.opened == []


TESTS = [
    {"call": "add(2, 3)", "expect": 5},
    {"call": "add('a', 'b')", "expect": "ab"},
    {"stdin": "1 2", "stdout": "3\n"},
    {"call": "add(0, 1)", "expect": True},
]


async def test_tests_are_counted_one_by_one_and_true_is_not_one() -> None:
    trace = make_trace(fenced("def add(a, b):\n    return a + b"))
    value, reason, _ = await run_code(trace, evaluates, make_task(tests=TESTS))
    assert value == 3 / 4
    assert reason == "3 of 4 tests"


async def test_code_is_never_shown_what_is_expected() -> None:
    trace = make_trace(fenced("x = 1"))
    task = make_task(tests=[{"call": "x", "expect": "the-secret"}, {"stdout": "the-secret"}])
    _, _, boxes = await run_code(trace, lambda ran: ended(), task)
    shown = [ran for _, box in boxes.opened for ran in box.ran]
    assert len(shown) == 2
    assert all(b"secret" not in ran.stdin and "secret" not in str(ran.command) for ran in shown)


@pytest.mark.parametrize("stdout", ["", "5", "[5]", '{"value": 6}', "{", '{"value": 5}\n6'])
async def test_leaving_early_or_printing_something_passes_no_test(stdout: str) -> None:
    task = make_task(tests=[{"call": "f()", "expect": 5}])
    value, _, _ = await run_code(make_trace(fenced("x")), lambda ran: ended(0, stdout), task)
    assert value == 0.0


@pytest.mark.parametrize("tests", ["assert x", [1], [{"call": "f()"}], [{"stdin": "1"}]])
async def test_tests_in_no_known_form_are_no_score(tests: Any) -> None:
    value, reason, _ = await run_code(
        make_trace(fenced("x")), lambda ran: ended(), make_task(tests=tests)
    )
    assert value is None
    assert "cannot be read" in reason


class NoSandboxes(FakeSandboxes):
    async def open(self, spec: SandboxSpec) -> Any:
        raise EnvironmentFailure("all are in use")


async def test_without_a_sandbox_there_is_no_score() -> None:
    reward = CodeExecution(sandboxes=BorrowedSandboxes(NoSandboxes(lambda ran: ended())))
    score = await reward.score(make_task(), make_trace(fenced("x")), OUTCOME)
    assert score.value is None
    assert "all are in use" in score.reason


class SlowToClose(FakeSandboxes):
    """Takes its time to close, and opens nothing meanwhile."""

    is_closing = False
    closed = 0

    async def open(self, spec: SandboxSpec) -> Any:
        assert not self.is_closing
        return await super().open(spec)

    async def close(self) -> None:
        self.is_closing = True
        await asyncio.sleep(0.01)
        self.is_closing = False
        self.closed += 1
        await super().close()


async def test_sandboxes_are_closed_when_none_is_in_use_and_not_under_anyone() -> None:
    boxes = SlowToClose(lambda ran: ended())
    reward = CodeExecution(sandboxes=BorrowedSandboxes(boxes))

    async def later(seconds: float) -> float | None:
        await asyncio.sleep(seconds)
        return (await reward.score(make_task(), make_trace(fenced("x")), OUTCOME)).value

    found = await asyncio.gather(*(later(n * 0.003) for n in range(8)))
    assert found == [1.0] * 8
    assert boxes.closed > 1
    assert all(box.is_closed for _, box in boxes.opened)


@pytest.mark.parametrize(
    ("language", "code", "good"),
    [
        ("python", "x = 1\n", True),
        ("python", "x = \n", False),
        ("python", "print('\\d')\n", True),
        ("python", "a\0b", False),
        ("python", "(" * 5000, False),
        ("python", "x" * 100_001, False),
        ("json", '{"a": [1, 2]}', True),
        ("json", "{'a': 1}", False),
        ("json", "[" * 100_000, False),
    ],
)
def test_parsing_runs_nothing_and_survives_anything(language: str, code: str, good: bool) -> None:
    assert parses(CodeBlock(language, code)) is good


@pytest.mark.parametrize(
    ("script", "good"),
    [
        ("if true; then echo hi; fi\n", 1.0),
        ('for f in *.txt; do\n  wc -l "$f"\ndone\n', 1.0),
        ("cat <<'END'\nanything (\nEND\n", 1.0),
        ("if true; then\n", 0.0),
        ("echo 'open\n", 0.0),
        ("f() { \n", 0.0),
        ("x" * 100_001, 0.0),
    ],
)
async def test_shell_is_read_without_a_sandbox(script: str, good: float) -> None:
    trace = make_trace(fenced(script, "bash"))
    assert (await SyntaxCheck().score(make_task(), trace, OUTCOME)).value == good


@pytest.mark.parametrize("before", ["", "set +n\n", "set -e\n", "#!/bin/bash\n", "x=$("])
async def test_nothing_of_a_shell_script_that_is_read_is_carried_out(
    before: str, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    trace = make_trace(fenced(f"{before}touch {made}\n: $(touch {made}) > {made}\n", "bash"))
    await SyntaxCheck().score(make_task(), trace, OUTCOME)
    assert not made.exists()


async def test_an_answer_without_code_may_be_left_unscored() -> None:
    trace = make_trace("words")
    assert (await SyntaxCheck(without=None).score(make_task(), trace, OUTCOME)).value is None


async def test_shell_scripts_are_read_in_a_sandbox_where_there_is_one() -> None:
    trace = make_trace(fenced("x = 1") + fenced("if true; then", "bash"))
    boxes = FakeSandboxes(lambda ran: ended(2))
    checked = await SyntaxCheck(sandboxes=BorrowedSandboxes(boxes)).score(
        make_task(), trace, OUTCOME
    )
    assert checked.value == 0.5
    assert boxes.opened[0][1].ran[0].command == ("bash", "-n")
    none = await SyntaxCheck(without=0.5).score(make_task(), make_trace("words"), OUTCOME)
    assert none.value == 0.5


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("```python\na\n```", [("python", "a\n")]),
        ("```Python3 title=x\na\n```\n```sh\nb\n```", [("python", "a\n"), ("bash", "b\n")]),
        ("```\na\n```", [("", "a\n")]),
        ("```py\nnever closed", [("python", "never closed")]),
        ("`inline` and ``` inside a line", []),
        ("  ```json\n  {}\n  ```", [("json", "  {}\n")]),
    ],
)
def test_blocks_are_found_by_their_fences(text: str, blocks: list[tuple[str, str]]) -> None:
    assert [tuple(block) for block in code_blocks([text])] == blocks
