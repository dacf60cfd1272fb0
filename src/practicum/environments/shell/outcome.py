"""Whether a task was done: the checker runs over what the policy left, and its result is read.

A checker that fails in any way says nothing about the policy: that is an `EnvironmentFailure`,
which masks the episode, and never a verdict.
"""

import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Sandbox
from practicum.core.task import JSON
from practicum.environments.shell.generated import (
    CHECKER_COMMAND,
    checker_input,
    read_verdicts,
)
from practicum.environments.shell.plan import Plan, Script, read_script

__all__ = ["Checked", "Verdict", "check_plan"]

KEPT = 400
"""Characters of a checker's own complaint that are kept."""


class Verdict(StrEnum):
    """How an episode ended, of which the environment did not fail."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNKNOWN = "unknown"
    """It cannot be said."""

    @property
    def success(self) -> bool | None:
        """As `core.task.Outcome` has it."""
        return {"correct": True, "incorrect": False, "unknown": None}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the checker found."""

    verdict: Verdict
    exit_codes: tuple[int, ...] = ()
    """Of each script that was run for it."""
    checks: tuple[dict[str, JSON], ...] = ()
    """`ok` and `why` of each assertion."""


async def check_plan(plan: Plan, box: Sandbox, answer: str | None, *, timeout_s: float) -> Checked:
    """Check a task in the sandbox where it was worked on."""
    kind = plan.check["kind"]
    if kind == "state":
        return await _check_state(plan.check["assertions"], box, timeout_s)
    if kind == "script":
        script = read_script(plan.check["script"])
        return _by_exit_codes([await _judged(script, (), plan.cwd, box, timeout_s)])
    if kind == "match":
        return Checked(verdict=_verdict(matches(plan.check, answer)))
    if kind == "chain":
        return await _check_chain(plan, box, answer, timeout_s)
    raise EnvironmentFailure(f"there is no way to check by {kind!r}")


def matches(check: Any, answer: str | None) -> bool:
    """Whether an answer is the one wanted.

    >>> matches({"answer": "yes", "strip": True}, " yes ")
    True
    """
    if answer is None:
        return False
    given = answer.strip() if check.get("strip") else answer
    if "answer" in check:
        return bool(given == check["answer"])
    return re.search(check["regex"], given) is not None


async def _check_state(assertions: list[JSON], box: Sandbox, timeout_s: float) -> Checked:
    nonce = secrets.token_hex(16)
    program = checker_input(assertions, nonce)
    result = await box.judge(CHECKER_COMMAND, timeout_s=timeout_s, stdin=program)
    if result.status is not CommandStatus.OK or result.exit_code != 0:
        raise EnvironmentFailure(_failed(result))
    try:
        verdicts = read_verdicts(result.stdout, nonce, len(assertions))
    except ValueError as error:
        raise EnvironmentFailure(f"the checker gave no verdict: {error}") from None
    return Checked(
        verdict=_verdict(bool(verdicts) and all(one.ok for one in verdicts)),
        exit_codes=(0,),
        checks=tuple({"ok": one.ok, "why": one.why} for one in verdicts),
    )


async def _check_chain(plan: Plan, box: Sandbox, answer: str | None, timeout_s: float) -> Checked:
    arguments = [str(answer)]
    results: list[CommandResult] = []
    for script in plan.chain():
        result = await _judged(script, arguments, plan.cwd, box, timeout_s)
        results.append(result)
        if result.exit_code != 0:
            break
        arguments.append(result.stdout)
    return _by_exit_codes(results)


async def _judged(
    script: Script, arguments: Any, cwd: str, box: Sandbox, timeout_s: float
) -> CommandResult:
    command = script.command(*(text.replace("\0", "") for text in arguments))
    if cwd != "/":
        command = ("sh", "-c", 'cd "$0" && exec "$@"', cwd, *command)
    result = await box.judge(command, timeout_s=timeout_s)
    if result.status not in (CommandStatus.OK, CommandStatus.TRUNCATED):
        raise EnvironmentFailure(_failed(result))
    return result


def _by_exit_codes(results: list[CommandResult]) -> Checked:
    codes = tuple(-1 if one.exit_code is None else one.exit_code for one in results)
    return Checked(verdict=_verdict(all(code == 0 for code in codes)), exit_codes=codes)


def _verdict(is_done: bool) -> Verdict:
    return Verdict.CORRECT if is_done else Verdict.INCORRECT


def _failed(result: CommandResult) -> str:
    said = (result.stderr or result.stdout).strip()[-KEPT:]
    how = f"{result.status.value}, exit code {result.exit_code}"
    return f"the checker failed ({how})" + (f": {said}" if said else "")
