"""Good and bad traces before each reward function; the expected scores are worked out by hand."""

from typing import Any

import pytest
from tests.unit.rewards.traces import fenced, make_task, make_trace, tool

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.interfaces import Reward
from practicum.core.task import Outcome
from practicum.core.trace import Trace
from practicum.rewards.behaviour import Efficiency, FormatCompliance, TaskCompletion, ToolSuccess
from practicum.rewards.code import BorrowedSandboxes, CodeExecution, SyntaxCheck
from practicum.sandboxes.commands import RanCommand
from practicum.sandboxes.fake_sandbox import FakeSandboxes


def code_runs_unless_it_says_fail(ran: RanCommand) -> CommandResult:
    code = 1 if b"fail" in ran.stdin else 0
    return CommandResult(status=CommandStatus.OK, exit_code=code)


EXECUTION = CodeExecution(
    sandboxes=BorrowedSandboxes(FakeSandboxes(code_runs_unless_it_says_fail)), turns="all"
)

GOOD = make_trace(
    ("I look first.", tool("3 files")),
    (fenced("total = 1 + 2\nprint(total)"), tool("3")),
    "There are 3.",
    tokens=(4, 12, 4),
)
"""One block that runs and parses, two calls that worked, 20 tokens in 3 turns, no tags."""

BAD = make_trace(
    ("<plan>look</plan>", tool("no such file", failed=True)),
    (fenced("fail = (") + fenced("print(1)"), tool("ok")),
    ("<answer>done</answer>", tool("cut off", failed=True)),
    "I give up.",
    tokens=(10, 40, 20, 10),
)
"""One of two blocks runs and parses, one of three calls worked, 80 tokens in 4 turns, two of the
four turns with tags."""

DONE = Outcome(success=True)
NOT_DONE = Outcome(success=False)


@pytest.mark.parametrize(
    ("reward", "trace", "outcome", "expected"),
    [
        (EXECUTION, GOOD, DONE, 1.0),
        (EXECUTION, BAD, NOT_DONE, 1 / 2),
        (SyntaxCheck(), GOOD, DONE, 1.0),
        (SyntaxCheck(), BAD, NOT_DONE, 1 / 2),
        (ToolSuccess(), GOOD, DONE, 1.0),
        (ToolSuccess(), BAD, NOT_DONE, 1 / 3),
        (TaskCompletion(), GOOD, DONE, 1.0),
        (TaskCompletion(), BAD, NOT_DONE, 0.0),
        # tokens 1 - 20/100, turns 1 - 3/4: their mean
        (Efficiency(tokens=100, turns=4), GOOD, DONE, (0.8 + 0.25) / 2),
        (Efficiency(tokens=100, turns=4), BAD, NOT_DONE, 0.0),
        # tokens 1 - 80/100, turns 1 - 4/4
        (Efficiency(tokens=100, turns=4, only_successful=False), BAD, NOT_DONE, (0.2 + 0) / 2),
        (FormatCompliance(), GOOD, DONE, 1.0),
        (FormatCompliance(), BAD, NOT_DONE, 2 / 4),
    ],
)
async def test_the_score_is_the_one_worked_out_by_hand(
    reward: Reward, trace: Trace, outcome: Outcome, expected: float
) -> None:
    score = await reward.score(make_task(), trace, outcome)
    assert score.value == pytest.approx(expected)
    assert len(score.components) == 1
    assert score.reason


@pytest.mark.parametrize(
    ("evidence", "answers", "expected"),
    [
        # exit codes count, and calls that never became a command
        ({"command_exit_codes": [0, 1, None, 0]}, [], 2 / 4),
        ({"command_exit_codes": [0, 0]}, [tool(), tool("no such tool", failed=True)], 2 / 3),
        ({"command_exit_codes": []}, [tool(), tool()], 1.0),
        ({}, [], -7.0),
    ],
)
async def test_tool_success_reads_exit_codes(
    evidence: dict[str, Any], answers: list[Any], expected: float
) -> None:
    trace = make_trace(*[("call", answer) for answer in answers], "end")
    outcome = Outcome(success=True, evidence=evidence)
    score = await ToolSuccess(without=-7.0).score(make_task(), trace, outcome)
    assert score.value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("success", "evidence", "expected"),
    [
        (False, {"tasks_completed": 3, "tasks_failed": 1}, 0.75),
        (True, {"tasks_completed": 0, "tasks_failed": 0}, 1.0),
        (True, {"tasks_completed": "3", "tasks_failed": 1}, 1.0),
        (None, {}, None),
    ],
)
async def test_completion_is_a_share_where_tasks_are_counted(
    success: bool | None, evidence: dict[str, Any], expected: float | None
) -> None:
    outcome = Outcome(success=success, evidence=evidence)
    assert (await TaskCompletion().score(make_task(), make_trace("a"), outcome)).value == expected


async def test_efficiency_counts_calls_by_whichever_record_has_most() -> None:
    trace = make_trace(("a", tool()), ("b", tool()), "c")
    few = await Efficiency(calls=8).score(make_task(), trace, DONE)
    outcome = Outcome(success=True, evidence={"command_exit_codes": [0, 0, 0]})
    more = await Efficiency(calls=8).score(make_task(), trace, outcome)
    assert (few.value, more.value) == (1 - 2 / 8, 1 - 3 / 8)
    over = await Efficiency(turns=2).score(make_task(), trace, DONE)
    assert over.value == 0.0


async def test_a_budget_of_tokens_needs_tokens() -> None:
    trace = make_trace("said elsewhere", tokens=(0,))
    score = await Efficiency(tokens=10).score(make_task(), trace, DONE)
    assert score.value is None
    assert (await Efficiency(turns=2).score(make_task(), trace, DONE)).value == 0.5
