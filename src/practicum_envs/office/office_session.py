"""Sessions of office tasks: a shell beside the company's services, graded by checkpoints."""

import typing
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from practicum.core.interfaces import Observation, Sandbox
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Message, Role, ToolCall, ToolSpec
from practicum_envs.office.office_plan import WORKSPACE
from practicum_envs.office.office_tools import ToolSet, script_of, specs_of
from practicum_envs.shell.plan_of_task import Plan
from practicum_envs.shell.protocol import Protocol, bash_turn, finish_turn, one_act
from practicum_envs.shell.shell_session import (
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
{one_act}"""

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


class Grader(typing.Protocol):
    """Grades one episode."""

    said: list[str]
    """All that the agent wrote and saw, in turn."""

    async def grade(self, answer: str | None, facts: dict[str, JSON]) -> Outcome:
        """The outcome; `facts` are known of the episode besides its points."""


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
        rounds = self._episode.limits.rounds
        form = form.format(rounds=rounds, one_act=one_act(rounds, MACHINE.reading))
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
