"""Sessions of office tasks: a shell beside the company's services, graded by checkpoints."""

import asyncio
import typing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from practicum.core.command import CommandResult
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Observation, Sandbox
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Message, Role, ToolCall, ToolSpec
from practicum.core.user_code import call_in_thread
from practicum.environments.office.checkpoint_scoring import Points, s_score, with_bonus
from practicum.environments.office.companies import OpenCompany
from practicum.environments.office.company_state import COLLEAGUE_FAULT
from practicum.environments.office.evidence import Evidence
from practicum.environments.office.office_client import OfficeError
from practicum.environments.office.office_plan import WORKSPACE, Checkpoint, OfficePlan
from practicum.environments.office.office_tools import ToolSet, script_of, specs_of
from practicum.environments.shell.plan_of_task import Plan
from practicum.environments.shell.protocol import Protocol, bash_turn, finish_turn
from practicum.environments.shell.shell_session import (
    OUTPUT_PREFIX,
    Limits,
    ShellSession,
    ShellTextSession,
    ShellToolSession,
)

MACHINE = Plan(
    source="office",
    setup=(),
    reference=None,
    near_misses=(),
    check={"kind": "match"},
    cwd=WORKSPACE,
)
"""An office task for the shell's sessions: commands start in the workspace, answers are taken."""
HOSTS = b"127.0.0.1 localhost sandbox the-agent-company.com\n::1 localhost\n"
GRADING_S = 90.0
"""Seconds for all checkpoints of a task together."""
FILE_BYTES = 8 << 20
"""Most bytes of a file that a checkpoint reads."""

RULES = """You work for a company and do one task there, as root on a Linux machine of your own. \
Its services are at http://the-agent-company.com: RocketChat (port 3000, chat), GitLab (8929, code \
and issues), Plane (8091, project boards) and ownCloud (8092, files). Your account is \
theagentcompany with the password theagentcompany; in GitLab it is root with the same password and \
the token root-token. The command `office` makes requests with these logins, for example:
office rocketchat GET channels.list
office rocketchat POST chat.postMessage channel='#general' text='Good morning'
office gitlab GET projects
office gitlab POST projects/root%2Fshop/issues title='Typo'
office plane GET projects/
office files list Documents
`office help` says more. Your files are in /workspace."""

TEXT_FORM = """To run commands, write:
Act: bash
```bash
office rocketchat GET channels.list
```
You are then shown what they print. When the task is done, write:
Act: finish
If the task asks a question, answer it instead:
Act: answer(42)
Each turn holds one Act. There are {rounds} turns."""

TOOL_FORM = """Call one tool a turn: bash runs commands and shows what they print, answer gives \
the answer where the task asks a question, finish says that the task is done. There are {rounds} \
turns."""


TOOLS_FORM = """Call one tool a turn: you are shown what it gives. answer gives the answer where \
the task asks a question, finish says that the task is done. There are {rounds} turns."""


def example_messages(protocol: Protocol) -> list[Message]:
    """A small task and its solution: a one-shot example before the real task."""
    answers: Role = "user" if protocol == "text" else "tool"
    script = "office rocketchat POST channels.setTopic roomName=random topic='Cat pictures'"
    shown = '{\n "topic": "Cat pictures",\n "success": true\n}'
    return [
        Message(role="user", content="Set the topic of the channel #random to: Cat pictures"),
        Message(role="assistant", content=bash_turn(script, protocol)),
        Message(role=answers, content=f"{OUTPUT_PREFIX}{shown}"),
        Message(role="assistant", content=finish_turn(protocol)),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEvidence(Evidence):
    """What a checkpoint looks at. Its methods are called from a thread."""

    box: Sandbox
    loop: asyncio.AbstractEventLoop
    timeout_s: float

    def file(self, path: str) -> bytes | None:
        """See `Evidence`."""
        whole = path if path.startswith("/") else f"{WORKSPACE}/{path}"
        try:
            content: bytes = self._wait(self.box.read(whole, FILE_BYTES))
        except (FileNotFoundError, ValueError):
            return None
        return content

    def run(self, command: tuple[str, ...], stdin: bytes = b"") -> CommandResult:
        """See `Evidence`."""
        self._wait(self.box.write("/etc/hosts", HOSTS))  # the agent may have changed where it leads
        work = self.box.judge(command, timeout_s=self.timeout_s, stdin=stdin)
        result: CommandResult = self._wait(work)
        return result

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(GRADING_S)


def require_company(company: OpenCompany) -> None:
    """`EnvironmentFailure` where a company cannot be graded: it ended, or a colleague failed."""
    if not company.is_alive:
        raise EnvironmentFailure("the company's services ended before the task was graded")
    if COLLEAGUE_FAULT in company.faults:
        raise EnvironmentFailure(company.faults.strip()[-300:])


class Grader(typing.Protocol):
    """Grades one episode."""

    said: list[str]
    """All that the agent wrote and saw, in turn."""

    async def grade(self, answer: str | None, facts: dict[str, JSON]) -> Outcome:
        """The outcome; `facts` are known of the episode besides its points."""


class OfficeGrader:
    """Grades one episode, once."""

    def __init__(
        self, plan: OfficePlan, company: OpenCompany, box: Sandbox, timeout_s: float
    ) -> None:
        self._plan = plan
        self._company = company
        self._box = box
        self._timeout_s = timeout_s
        self._evidence: dict[str, JSON] | None = None
        self.said: list[str] = []
        """All that the agent wrote and saw."""

    async def grade(self, answer: str | None, facts: dict[str, JSON]) -> Outcome:
        """The outcome; checkpoints that cannot be decided are a failure of the environment."""
        if self._evidence is None:
            self._evidence = await self._graded(answer)
        checkpoints: Any = self._evidence["checkpoints"]
        is_done = all(one["result"] == one["points"] for one in checkpoints)
        return Outcome(success=is_done, evidence={**self._evidence, **facts})

    async def _graded(self, answer: str | None) -> dict[str, JSON]:
        require_company(self._company)
        seen = SeenEvidence(
            office=self._company.office,
            trajectory="\n".join(self.said),
            answer=answer,
            box=self._box,
            loop=asyncio.get_running_loop(),
            timeout_s=self._timeout_s,
        )
        try:
            given = await asyncio.wait_for(
                call_in_thread(lambda: _points(self._plan.checkpoints, seen)), GRADING_S
            )
        except TimeoutError:
            raise EnvironmentFailure(f"the grader did not end in {GRADING_S:g} s") from None
        points = with_bonus(given, self._plan.strategy)
        checkpoints: list[JSON] = [
            {"says": one.says, "points": got.total, "result": got.result}
            for one, got in zip(self._plan.checkpoints, points, strict=True)
        ]
        checks: list[JSON] = [
            {"ok": got.is_full, "why": f"not so: {one.says}"}
            for one, got in zip(self._plan.checkpoints, given, strict=True)
        ]
        return {"checkpoints": checkpoints, "checks": checks, "s_score": s_score(points)}


def _points(checkpoints: Sequence[Checkpoint], seen: SeenEvidence) -> list[Points]:
    found = []
    for one in checkpoints:
        try:
            earned = one.passes(seen)
        except OfficeError as error:
            if error.status >= 500:
                raise EnvironmentFailure(f"the checkpoint {one.says!r} failed: {error}") from error
            earned = False  # what it asks for is not there, or not for the agent: it is not so
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise EnvironmentFailure(f"the checkpoint {one.says!r} failed: {said}") from error
        result = one.points * earned if isinstance(earned, bool) else earned
        found.append(Points(total=one.points, result=result))
    return found


class _OfficeSession(ShellSession):
    """What the sessions of both protocols share."""

    def __init__(
        self,
        task: Task,
        box: Sandbox,
        limits: Limits,
        grader: Grader,
        example: Sequence[Message] = (),
    ) -> None:
        super().__init__(task, MACHINE, box, limits, None, example)
        self._grader = grader

    def _rules(self, form: str) -> list[Message]:
        form = form.format(rounds=self._episode.limits.rounds)
        return self._opening(f"{RULES}\n{form}")

    async def outcome(self) -> Outcome:
        """The points of the checkpoints."""
        return await self._grader.grade(self._episode.answer, _facts(self._episode))


class OfficeTextSession(_OfficeSession, ShellTextSession):
    """An episode whose turns are text with `Act:` in it; implements `DiscreteSession`."""

    def prompt(self) -> list[Message]:
        """The rules, and what is to be done."""
        return self._rules(TEXT_FORM)

    async def act(self, text: str) -> Observation:
        """See `ShellTextSession`."""
        seen = await super().act(text)
        self._grader.said += [text, seen.message.content]
        return seen


class OfficeToolSession(_OfficeSession, ShellToolSession):
    """An episode by tool calls; implements `Session`."""

    def __init__(self, *words: Any, tools: Sequence[ToolSet] = ("bash",)) -> None:
        super().__init__(*words)
        self._tools = tuple(tools)

    def prompt(self) -> list[Message]:
        """The rules, and what is to be done."""
        return self._rules(TOOL_FORM if self._tools == ("bash",) else TOOLS_FORM)

    def tools(self) -> list[ToolSpec]:
        """What the options ask for, and finish and answer."""
        own = [one for one in super().tools() if one.name != "bash" or "bash" in self._tools]
        return [*specs_of(self._tools), *own]

    async def call(self, call: ToolCall) -> Observation:
        """See `ShellToolSession`; the office's own tools are scripts that bash runs."""
        asked = call
        if call.name not in ("bash", "finish", "answer"):
            script = script_of(call.name, call.arguments)
            asked = replace(call, name="bash", arguments={"script": script})
        seen = await super().call(asked)
        self._grader.said += [f"{call.name} {dict(call.arguments)}", seen.message.content]
        return seen


def _facts(episode: Any) -> dict[str, JSON]:
    """What is known of an episode besides its points."""
    return {
        "status": episode.status,
        "reason": episode.reason,
        "rounds": episode.rounds,
        "answer": episode.answer,
        "command_exit_codes": list(episode.exit_codes),
        "sandbox": episode.box.kind,
    }
