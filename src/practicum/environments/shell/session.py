"""One episode of shell work, in the text protocol or by tool calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Observation, Sandbox
from practicum.core.sampling import ActionForm
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.environments.shell.outcome import Checked, check_plan
from practicum.environments.shell.plan import Plan
from practicum.environments.shell.prompts import TOOLS, text_rules, tool_rules
from practicum.environments.shell.protocol import read_action

__all__ = [
    "Limits",
    "ShellTextSession",
    "ShellToolSession",
    "output_in",
    "output_message",
    "set_up",
]

SHOWN = "The output of the OS:\n\n"
"""Stands before what a command printed."""

Status = Literal["running", "completed", "agent_validation_failed", "task_limit_reached"]

BOTH_STREAMS = ("sh", "-c", 'exec bash -c "$0" 2>&1')
"""Runs a script with its errors among its output, in the order they were printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long an episode may go on."""

    rounds: int = 5
    command_timeout_s: float = 20.0
    output_chars: int = 2000


async def set_up(plan: Plan, box: Sandbox, *, timeout_s: float) -> None:
    """Prepare the machine; `EnvironmentFailure` when that does not go through."""
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
    """What both kinds of session share: the machine and how far the work has come."""

    task: Task
    plan: Plan
    box: Sandbox
    limits: Limits
    status: Status = "running"
    reason: str = ""
    answer: str | None = None
    rounds: int = 0
    exit_codes: list[int | None] = field(default_factory=list)
    checked: Checked | None = None
    is_open: bool = True

    def begin_round(self) -> None:
        """One more turn of the policy."""
        if not self.is_open or self.status != "running" or self.checked is not None:
            raise RuntimeError("the episode is over; open a new session for another one")
        self.rounds += 1

    async def run(self, script: str) -> str:
        """Run a script in a process of its own; what the policy is shown of it."""
        result = await self.box.run(
            (*BOTH_STREAMS, _as_argument(script)),
            timeout_s=self.limits.command_timeout_s,
            cwd=self.plan.cwd,
        )
        if result.status in (CommandStatus.DIED, CommandStatus.DENIED):
            raise EnvironmentFailure(f"the machine is gone ({result.status.value})")
        self.exit_codes.append(result.exit_code)
        if self.rounds >= self.limits.rounds:
            self.end("task_limit_reached", f"the limit is {self.limits.rounds} rounds")
        return output_message(result, self.limits)

    def end(self, status: Status, reason: str = "", answer: str | None = None) -> None:
        """No more rounds."""
        self.status, self.reason, self.answer = status, reason, answer

    async def outcome(self) -> Outcome:
        """Check the task once; asked again, the same is said."""
        if self.checked is None:
            timeout_s = self.limits.command_timeout_s
            self.checked = await check_plan(self.plan, self.box, self.answer, timeout_s=timeout_s)
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


class _ShellSession:
    """What both protocols have in common."""

    def __init__(
        self,
        task: Task,
        plan: Plan,
        box: Sandbox,
        limits: Limits,
        example: Sequence[Message] = (),
    ) -> None:
        self._episode = _Episode(task=task, plan=plan, box=box, limits=limits)
        self._example = tuple(example)

    def _opening(self, rules: str) -> list[Message]:
        return [
            Message(role="system", content=rules),
            *self._example,
            Message(role="user", content=self._episode.task.instruction),
        ]

    async def outcome(self) -> Outcome:
        """Whether the task is done, checked now at the latest."""
        return await self._episode.outcome()

    def close(self) -> None:
        """No more turns."""
        self._episode.is_open = False


class ShellTextSession(_ShellSession):
    """An episode whose turns are text with `Act:` in it; implements `DiscreteSession`."""

    def prompt(self) -> list[Message]:
        """The rules, and what is to be done."""
        episode = self._episode
        rules = text_rules(episode.limits.rounds, episode.plan.cwd, episode.plan.takes_answers)
        return self._opening(rules)

    def actions(self) -> tuple[ActionForm, ...]:
        """None: the policy writes freely."""
        return ()

    async def act(self, text: str) -> Observation:
        """Carry out what the text asks for; text that asks for nothing ends the episode."""
        episode = self._episode
        episode.begin_round()
        reading: Literal["first", "last"] = "last" if episode.plan.takes_answers else "first"
        action = read_action(text, reading)
        if action.kind == "bash":
            return _observed(await episode.run(action.content), "user", episode.status)
        if action.kind == "invalid":
            episode.end("agent_validation_failed", action.content)
        else:
            answer = action.content if action.kind == "answer" else None
            episode.end("completed", answer=answer)
        return _observed(CLOSED, "user", episode.status)


class ShellToolSession(_ShellSession):
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
        answer = str(call.arguments["answer"]) if call.name == "answer" else None
        episode.end("completed", answer=answer)
        return _observed(CLOSED, "tool", episode.status)


CLOSED = "The task is closed."


def _as_argument(script: str) -> str:
    """A script without what no program can be given: it is the policy's mistake, not a failure."""
    return script.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _observed(shown: str, role: Literal["user", "tool"], status: Status) -> Observation:
    message = Message(role=role, content=shown)
    return Observation(message=message, terminated=status != "running")


def output_message(result: CommandResult, limits: Limits) -> str:
    """What the policy is shown of a command."""
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
    return f"{SHOWN}{shown}" if shown else "The output of the OS is empty."


def output_in(message: str) -> str:
    r"""What a command printed, from the message that showed it.

    >>> output_in("The output of the OS:\n\n42")
    '42'
    """
    return message.removeprefix(SHOWN).strip() if message.startswith(SHOWN) else ""
