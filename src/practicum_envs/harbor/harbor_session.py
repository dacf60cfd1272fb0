"""Sessions of task folders: the shell's, whose end is graded by the task's own tests."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from practicum.core.command import CommandResult
from practicum.core.interfaces import Sandbox
from practicum.core.task import JSON, Outcome, Task
from practicum_envs.harbor.reward_file import Graded
from practicum_envs.shell.plan_of_task import Plan
from practicum_envs.shell.shell_session import (
    Limits,
    ShellSession,
    ShellTextSession,
    ShellToolSession,
)

Grader = Callable[[bool], Awaitable[Graded]]
"""Grades an episode; told whether anything was done in it."""


class TaskMachine:
    """A machine whose commands are given the variables of a task's image; a `Sandbox`."""

    def __init__(self, box: Sandbox, variables: Mapping[str, str]) -> None:
        self._box = box
        self._variables = dict(variables)

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandbox`."""
        return self._box.kind

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        """See `core.interfaces.Sandbox`."""
        own = {**self._variables, **(environment or {})}
        return await self._box.run(
            command, timeout_s=timeout_s, stdin=stdin, environment=own, cwd=cwd
        )

    async def judge(
        self, command: Sequence[str], *, timeout_s: float, stdin: bytes = b""
    ) -> CommandResult:
        """See `core.interfaces.Sandbox`."""
        return await self._box.judge(command, timeout_s=timeout_s, stdin=stdin)

    async def inspect(self, program: bytes, *, timeout_s: float) -> CommandResult:
        """See `core.interfaces.Sandbox`."""
        return await self._box.inspect(program, timeout_s=timeout_s)

    async def read(self, path: str, limit: int = 1_048_576) -> bytes:
        """See `core.interfaces.Sandbox`."""
        return await self._box.read(path, limit)

    async def write(self, path: str, content: bytes) -> None:
        """See `core.interfaces.Sandbox`."""
        await self._box.write(path, content)

    async def close(self) -> None:
        """See `core.interfaces.Sandbox`."""
        await self._box.close()


class _HarborSession(ShellSession):
    """What the sessions of both protocols share."""

    def __init__(
        self,
        task: Task,
        workdir: str,
        box: Sandbox,
        limits: Limits,
        grader: Grader,
        example: Sequence[Any] = (),
    ) -> None:
        plan = Plan(
            source="harbor",
            setup=(),
            reference=None,
            near_misses=(),
            check={"kind": "script"},
            cwd=workdir,
        )
        super().__init__(task, plan, box, limits, None, example)
        self._grader = grader
        self._outcome: Outcome | None = None

    async def outcome(self) -> Outcome:
        """The reward that the task's tests wrote; they run once."""
        if self._outcome is None:
            self._outcome = await self._graded()
        return self._outcome

    async def _graded(self) -> Outcome:
        episode = self._episode
        graded = await self._grader(bool(episode.exit_codes))
        rounds = episode.rounds
        evidence: dict[str, JSON] = {
            **graded.as_json(),
            "checkpoints": [{"says": "its tests", "points": 1, "result": graded.reward}],
            "status": episode.status,
            "reason": episode.reason,
            "rounds": rounds,
            "command_exit_codes": list(episode.exit_codes),
            "sandbox": episode.box.kind,
        }
        return Outcome(
            success=graded.reward >= 1.0,
            turn_rewards=(*(0.0 for _ in range(rounds - 1)), graded.reward) if rounds else (),
            evidence=evidence,
        )


class HarborTextSession(_HarborSession, ShellTextSession):
    """An episode whose turns are text with `Act:` in it; implements `DiscreteSession`."""


class HarborToolSession(_HarborSession, ShellToolSession):
    """An episode by tool calls; implements `Session`."""
