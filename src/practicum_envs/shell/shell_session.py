"""Sessions of shell tasks, with text turns or tool calls, and the check of the final state.

A checker that fails is an `EnvironmentFailure`, which masks the episode: it says nothing about the
policy. A machine that the policy broke, or a checker that what it left has stopped, is the policy's
failure: the verdict is `incorrect`.
"""

import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Observation, Sandbox
from practicum.core.sampling import ActionForm
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum_envs.shell.generated.assertions import (
    checker_input,
    read_verdicts,
)
from practicum_envs.shell.plan_of_task import Plan, Script, read_script
from practicum_envs.shell.protocol import TOOLS, read_action, text_rules, tool_rules


class Verdict(StrEnum):
    """What a check that ran to its end found."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNKNOWN = "unknown"
    """The check cannot tell."""

    @property
    def success(self) -> bool | None:
        """As in `core.task.Outcome`."""
        return {"correct": True, "incorrect": False, "unknown": None}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of a check."""

    verdict: Verdict
    exit_codes: tuple[int, ...] = ()
    """Of each script that the check ran."""
    checks: tuple[dict[str, JSON], ...] = ()
    """`ok` and `why` of each assertion."""


FreshMachine = Callable[[], AbstractAsyncContextManager[Sandbox]]
"""Opens another machine in which nothing but the task's set-up was done."""

OUTPUT_PREFIX = "The output of the OS:\n\n"
"""Before a command's output in an observation, as in AgentBench."""

Status = Literal[
    "running", "completed", "agent_validation_failed", "agent_broke_machine", "task_limit_reached"
]

NOT_RUN = (CommandStatus.DIED, CommandStatus.DENIED, CommandStatus.BROKEN)
"""Statuses of commands that did not even start."""

MOST_REASON = 300
MOST_COMPLAINT = 400
"""Characters kept of the sandbox's reason for a broken machine, and of a checker's error."""

MOST_SCRIPT = 131_071
"""Bytes of a script, and of an answer: the kernel takes no longer argument of a program."""

TOO_LONG = CommandResult(
    status=CommandStatus.OK,
    exit_code=126,
    stdout=f"bash: Argument list too long: a script has at most {MOST_SCRIPT} bytes",
)

BOTH_STREAMS = ("sh", "-c", 'exec bash -c "$0" 2>&1')
"""Runs a script with standard error redirected into standard output, so that the order is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one episode."""

    rounds: int = 5
    command_timeout_s: float = 20.0
    output_chars: int = 2000


async def set_up(plan: Plan, box: Sandbox, *, timeout_s: float) -> None:
    """Run the task's set-up scripts; `EnvironmentFailure` when one of them fails."""
    for script in plan.setup:
        result = await box.run(script.command(), timeout_s=timeout_s, cwd=plan.cwd)
        ended = result.status in (CommandStatus.OK, CommandStatus.TRUNCATED)
        if not ended or result.exit_code != 0:
            said = (result.stderr or result.stdout).strip().rpartition("\n")[2][:300]
            raise EnvironmentFailure(
                f"the task could not be set up ({result.status.value}, exit code "
                f"{result.exit_code})" + (f": {said}" if said else "")
            )


@dataclass(slots=True, kw_only=True)
class _Episode:
    """State of an episode: the machine, the commands so far, the result of the check."""

    task: Task
    plan: Plan
    box: Sandbox
    limits: Limits
    fresh: FreshMachine | None
    """Opens another machine in which a checker that failed is tried out; None where a session has
    no checker of the task's own."""
    status: Status = "running"
    reason: str = ""
    answer: str | None = None
    rounds: int = 0
    exit_codes: list[int | None] = field(default_factory=list)
    checked: Checked | None = None
    is_open: bool = True

    def begin_round(self) -> None:
        """Count one more turn of the policy; an error after the end."""
        if not self.is_open or self.status != "running" or self.checked is not None:
            raise RuntimeError("the episode is over; open a new session for another one")
        self.rounds += 1

    async def run(self, script: str) -> str:
        """Run a script in a new shell; the observation of its output."""
        argument = _as_argument(script)
        result = TOO_LONG
        if len(argument.encode()) <= MOST_SCRIPT:
            result = await self.box.run(
                (*BOTH_STREAMS, argument),
                timeout_s=self.limits.command_timeout_s,
                cwd=self.plan.cwd,
            )
        if result.status in NOT_RUN:
            return self._broken(result)
        self.exit_codes.append(result.exit_code)
        if self.rounds >= self.limits.rounds:
            self.end("task_limit_reached", f"the limit is {self.limits.rounds} rounds")
        return output_message(result, self.limits)

    def _broken(self, result: CommandResult) -> str:
        """The machine no longer runs commands: the policy's failure, or an `EnvironmentFailure`.

        `DIED` is never the policy's: nothing inside can kill the machine's first process. `DENIED`
        is the policy's only where it has run a command before that could have broken the machine.
        """
        is_policys = result.status is CommandStatus.BROKEN or bool(self.exit_codes)
        if not is_policys or result.status is CommandStatus.DIED:
            raise EnvironmentFailure(f"the machine is gone ({result.status.value})")
        said = result.stderr.strip()[:MOST_REASON]
        reason = "the machine runs no commands any more" + (f": {said}" if said else "")
        self.end("agent_broke_machine", reason)
        self.checked = Checked(verdict=Verdict.INCORRECT)
        return f"{OUTPUT_PREFIX}[{reason}]"

    def end(self, status: Status, reason: str = "", answer: str | None = None) -> None:
        """End the episode."""
        self.status, self.reason, self.answer = status, reason, answer

    async def outcome(self) -> Outcome:
        """The outcome; the check runs once."""
        if self.checked is None:
            assert self.fresh is not None
            timeout_s = self.limits.command_timeout_s
            self.checked = await check_plan(
                self.plan, self.box, self.answer, timeout_s=timeout_s, fresh=self.fresh
            )
        checked = self.checked
        evidence: dict[str, JSON] = {
            "outcome": checked.verdict.value,
            "status": self.status,
            "reason": self.reason,
            "rounds": self.rounds,
            "answer": self.answer,
            "command_exit_codes": list(self.exit_codes),
            "checker_exit_codes": list(checked.exit_codes),
            "checks": [dict(one) for one in checked.checks],
            "sandbox": self.box.kind,
        }
        return Outcome(success=checked.verdict.success, evidence=evidence)


class ShellSession:
    """What the sessions of both protocols share."""

    def __init__(
        self,
        task: Task,
        plan: Plan,
        box: Sandbox,
        limits: Limits,
        fresh: FreshMachine | None,
        example: Sequence[Message] = (),
    ) -> None:
        self._episode = _Episode(task=task, plan=plan, box=box, limits=limits, fresh=fresh)
        self._example = tuple(example)

    def _opening(self, rules: str) -> list[Message]:
        return [
            Message(role="system", content=rules),
            *self._example,
            Message(role="user", content=self._episode.task.instruction),
        ]

    async def outcome(self) -> Outcome:
        """Whether the task is done; checks it if that has not happened yet."""
        return await self._episode.outcome()

    def close(self) -> None:
        """No more turns."""
        self._episode.is_open = False


class ShellTextSession(ShellSession):
    """An episode whose turns are text with `Act:` in it; implements `DiscreteSession`."""

    def prompt(self) -> list[Message]:
        """The rules, and what is to be done."""
        plan, rounds = self._episode.plan, self._episode.limits.rounds
        return self._opening(text_rules(rounds, plan.cwd, plan.takes_answers, plan.reading))

    def actions(self) -> tuple[ActionForm, ...]:
        """None: the policy writes freely."""
        return ()

    async def act(self, text: str) -> Observation:
        """Carry out what the text asks for; text that asks for nothing ends the episode."""
        episode = self._episode
        episode.begin_round()
        plan = episode.plan
        action = read_action(text, plan.reading, takes_answers=plan.takes_answers)
        if action.kind == "bash":
            return _observed(await episode.run(action.content), "user", episode.status)
        if action.kind == "invalid":
            episode.end("agent_validation_failed", action.content)
        else:
            answer = _as_argument(action.content) if action.kind == "answer" else None
            episode.end("completed", answer=answer)
        return _observed(CLOSED, "user", episode.status)


class ShellToolSession(ShellSession):
    """An episode by tool calls; implements `Session`."""

    def prompt(self) -> list[Message]:
        """The rules, and what is to be done."""
        episode = self._episode
        return self._opening(tool_rules(episode.limits.rounds, episode.plan.cwd))

    def tools(self) -> list[ToolSpec]:
        """bash, finish and answer."""
        return list(TOOLS)

    async def call(self, call: ToolCall) -> Observation:
        """Carry out one call."""
        episode = self._episode
        episode.begin_round()
        if call.name == "bash":
            shown = await episode.run(str(call.arguments.get("script", "")))
            return _observed(shown, "tool", episode.status)
        if call.name not in ("finish", "answer"):
            raise ValueError(f"there is no tool {call.name!r}")
        answer = _as_argument(str(call.arguments["answer"])) if call.name == "answer" else None
        episode.end("completed", answer=answer)
        return _observed(CLOSED, "tool", episode.status)


CLOSED = "The task is closed."


def _as_argument(script: str) -> str:
    """A script or an answer without what no argv can hold (NUL, lone surrogates).

    Such text is the policy's mistake; passed on, it would raise here, as an environment failure.
    """
    return script.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _observed(shown: str, role: Literal["user", "tool"], status: Status) -> Observation:
    message = Message(role=role, content=shown)
    return Observation(message=message, terminated=status != "running")


def output_message(result: CommandResult, limits: Limits) -> str:
    """The observation of a command: its output, cut where too long, and how it ended."""
    notices = []
    text = result.stdout
    if len(text) > limits.output_chars:
        text = text[: limits.output_chars]
        notices.append(f"cut: only the first {limits.output_chars} characters are shown")
    if result.status is CommandStatus.TRUNCATED and not notices:
        notices.append(f"cut: {result.output_bytes} bytes were printed")
    if result.status is CommandStatus.TIMEOUT:
        notices.append(f"stopped: it was still running after {limits.command_timeout_s:g} seconds")
    elif result.status is CommandStatus.OOM:
        notices.append("stopped: it used more memory than the machine has")
    elif result.status is CommandStatus.KILLED:
        notices.append("stopped: it was killed")
    shown = "\n".join(
        [*([text.rstrip("\n")] if text.strip() else []), *(f"[{n}]" for n in notices)]
    )
    return f"{OUTPUT_PREFIX}{shown}" if shown else "The output of the OS is empty."


def output_in(message: str) -> str:
    r"""The output in an observation that `output_message` made.

    >>> output_in("The output of the OS:\n\n42")
    '42'
    """
    return message.removeprefix(OUTPUT_PREFIX).strip() if message.startswith(OUTPUT_PREFIX) else ""


class _MachineBroken(Exception):
    """The policy's commands broke the machine, so that no checker can run in it."""


class CheckerFailure(EnvironmentFailure):
    """The checker crashed, hung or gave no verdict."""


async def check_plan(
    plan: Plan, box: Sandbox, answer: str | None, *, timeout_s: float, fresh: FreshMachine
) -> Checked:
    """Check a task in the sandbox where it was worked on.

    A checker that fails there twice but comes to a verdict in a fresh machine was stopped by what
    the policy left: a FIFO in place of a file, an answer without end. That is the policy's failure.
    If it fails in the fresh machine too, it is the checker's, a `CheckerFailure`.
    """
    if answer is not None and len(answer.encode()) > MOST_SCRIPT:
        why = f"the answer is longer than {MOST_SCRIPT} bytes"
        return Checked(verdict=Verdict.INCORRECT, checks=({"ok": False, "why": why},))
    try:
        try:
            return await _run_check(plan, box, answer, timeout_s)
        except CheckerFailure:
            return await _run_check(plan, box, answer, timeout_s)
    except _MachineBroken:
        return Checked(verdict=Verdict.INCORRECT)
    except CheckerFailure as failure:
        async with fresh() as other:
            try:
                await _run_check(plan, other, None, timeout_s)
            except _MachineBroken:
                raise failure from None
        why = f"what was left stopped the checker: {failure}"
        return Checked(verdict=Verdict.INCORRECT, checks=({"ok": False, "why": why},))


async def _run_check(plan: Plan, box: Sandbox, answer: str | None, timeout_s: float) -> Checked:
    kind = plan.check["kind"]
    if kind == "state":
        return await _check_state(plan.check["assertions"], box, timeout_s)
    if kind == "script":
        script = read_script(plan.check["script"])
        return _by_exit_codes([await _run_checker(script, (), plan.cwd, box, timeout_s)])
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
    # Unknown to the policy: its background processes cannot print a verdict line.
    nonce = secrets.token_hex(16)
    result = await box.inspect(checker_input(assertions, nonce), timeout_s=timeout_s)
    if result.status is not CommandStatus.OK or result.exit_code != 0:
        raise _checker_error(result)
    try:
        verdicts = read_verdicts(result.stdout, nonce, len(assertions))
    except ValueError as error:
        raise CheckerFailure(f"the checker gave no verdict: {error}") from None
    return Checked(
        verdict=_verdict(bool(verdicts) and all(one.ok for one in verdicts)),
        exit_codes=(0,),
        checks=tuple({"ok": one.ok, "why": one.why} for one in verdicts),
    )


async def _check_chain(plan: Plan, box: Sandbox, answer: str | None, timeout_s: float) -> Checked:
    arguments = [str(answer)]  # "None" where there is no answer
    results: list[CommandResult] = []
    for script in plan.chain():
        result = await _run_checker(script, arguments, plan.cwd, box, timeout_s)
        results.append(result)
        if result.exit_code != 0:
            break
        arguments.append(result.stdout)
    return _by_exit_codes(results)


async def _run_checker(
    script: Script, arguments: Any, cwd: str, box: Sandbox, timeout_s: float
) -> CommandResult:
    command = script.command(*(text.replace("\0", "") for text in arguments))
    if cwd != "/":
        command = ("sh", "-c", 'cd "$0" && exec "$@"', cwd, *command)
    result = await box.judge(command, timeout_s=timeout_s)
    if result.status not in (CommandStatus.OK, CommandStatus.TRUNCATED):
        raise _checker_error(result)
    return result


def _by_exit_codes(results: list[CommandResult]) -> Checked:
    codes = tuple(-1 if one.exit_code is None else one.exit_code for one in results)
    return Checked(verdict=_verdict(all(code == 0 for code in codes)), exit_codes=codes)


def _verdict(is_done: bool) -> Verdict:
    return Verdict.CORRECT if is_done else Verdict.INCORRECT


def _checker_error(result: CommandResult) -> Exception:
    if result.status is CommandStatus.BROKEN:
        return _MachineBroken()
    said = (result.stderr or result.stdout).strip()[-MOST_COMPLAINT:]
    how = f"{result.status.value}, exit code {result.exit_code}"
    # Nothing inside can end the whole sandbox: that is never what the policy left.
    kind = EnvironmentFailure if result.status is CommandStatus.DIED else CheckerFailure
    return kind(f"the checker failed ({how})" + (f": {said}" if said else ""))
