"""An agent that is any executable: it finds the model and its task by environment variables."""

import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.agents.processes import Ended, bare_environment, run_program
from practicum.core.conversing import Endpoint, ReachableConversation
from practicum.core.errors import AgentFailure, EnvironmentFailure, boundary
from practicum.core.score import Score
from practicum.core.task import JSON, Task
from practicum.core.trace import Message, StopReason
from practicum.core.working import AgentReport, Assignment, Limited

__all__ = ["BY_EVIDENCE", "BY_EXIT_CODE", "CommandAgent"]

BY_EVIDENCE = "evidence"
BY_EXIT_CODE = "exit_code"
NEW_FOLDER = "new"

QUOTED_CHARS = 400
"""Characters of what a failed program printed that its failure quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAgent:
    """Runs a command for each episode, in a process of its own.

    It is told `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY`,
    `PRACTICUM_PROMPT` and, as the path of a JSON file, `PRACTICUM_TASK`.
    """

    command: tuple[str, ...]
    inherit: tuple[str, ...] = ()
    """Environment variables that it is given besides the basics."""
    workdir: str = NEW_FOLDER
    score: str | tuple[str, ...] = BY_EVIDENCE
    """`evidence`, `exit_code`, or a command whose last printed line is the score."""
    hide: tuple[str, ...] = ("answer",)
    """Keys of a task's data that only the scoring command is shown."""
    shows_data: bool = False
    """Whether the task's data may be shown at all: an environment's own data has its solution."""
    success_at: float = 1.0

    async def work(
        self, assignment: Assignment, session: Any, conversation: ReachableConversation
    ) -> AgentReport:
        """Run the command, then score what it did."""
        with boundary(EnvironmentFailure, "the environment"):
            opening = session.prompt()
        with self._folders() as (folder, private):
            task = assignment.task
            shown = _task_file(private / "task.json", task, opening, self._shown_data(task))
            environment = {
                **bare_environment(self.inherit),
                **_address(conversation.endpoint()),
                "PRACTICUM_PROMPT": _prompt(opening),
                "PRACTICUM_TASK": str(shown),
            }
            ended = await run_program(self.command, environment=environment, folder=folder)
            evidence: dict[str, JSON] = {"command": _as_evidence(ended)}
            if self.score == BY_EXIT_CODE and ended.exit_code >= 0:
                value = 1.0 if ended.exit_code == 0 else 0.0
                return self._report({"exit_code": value}, evidence)
            if ended.exit_code != 0:
                return self._failure(ended, conversation, evidence)
            if self.score == BY_EVIDENCE:
                with boundary(EnvironmentFailure, "the environment"):
                    await session.act(ended.stdout.strip())
                return AgentReport(stop=StopReason.FINISHED, evidence=evidence)
            value = await self._scored(task, opening, ended, folder, private)
        return self._report({"score": value}, evidence)

    async def _scored(
        self, task: Task, opening: Sequence[Message], ended: Ended, folder: Path, private: Path
    ) -> float:
        """What the scoring command says, in the folder where the work was done."""
        command = tuple(self.score)
        whole = _task_file(private / "whole_task.json", task, opening, dict(task.data))
        environment = {**bare_environment(self.inherit), "PRACTICUM_TASK": str(whole)}
        said = await run_program(
            command, environment=environment, folder=folder, stdin=ended.stdout.encode()
        )
        if said.exit_code != 0:
            raise AgentFailure(f"scoring: {_failed(command, said)}")
        last = said.stdout.strip().rpartition("\n")[2]
        try:
            value = float(last)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise AgentFailure(
                f"scoring: the last line of {command[0]!r} is {last[:80]!r}; it must be a number"
            )
        return value

    def _failure(
        self, ended: Ended, conversation: ReachableConversation, evidence: Mapping[str, JSON]
    ) -> AgentReport:
        """The agent's failure, unless a limit of the episode is behind it."""
        said = _failed(self.command, ended)
        limit = conversation.limit_met() if isinstance(conversation, Limited) else None
        if limit is None:
            raise AgentFailure(said)
        return AgentReport(stop=limit, score=Score.unscored(said), evidence=evidence)

    def _report(self, components: Mapping[str, float], evidence: Mapping[str, JSON]) -> AgentReport:
        score = Score(components=components)
        return AgentReport(
            stop=StopReason.FINISHED,
            score=score,
            success=(score.value or 0.0) >= self.success_at,
            evidence=evidence,
        )

    def _shown_data(self, task: Task) -> dict[str, JSON]:
        if not self.shows_data:
            return {}
        return {key: value for key, value in task.data.items() if key not in self.hide}

    @contextmanager
    def _folders(self) -> Iterator[tuple[Path, Path]]:
        """Where the program runs, and where its task is written down; what is new is removed."""
        private = Path(tempfile.mkdtemp(prefix="practicum-task-"))
        new = self.workdir == NEW_FOLDER
        folder = Path(tempfile.mkdtemp(prefix="practicum-work-")) if new else Path(self.workdir)
        try:
            yield folder, private
        finally:
            shutil.rmtree(private, ignore_errors=True)
            if new:
                shutil.rmtree(folder, ignore_errors=True)


def _address(endpoint: Endpoint) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": f"{endpoint.url}/v1",
        "OPENAI_API_KEY": endpoint.key,
        "ANTHROPIC_BASE_URL": endpoint.url,
        "ANTHROPIC_API_KEY": endpoint.key,
    }


def _task_file(
    path: Path, task: Task, opening: Sequence[Message], data: Mapping[str, JSON]
) -> Path:
    content = {
        "id": task.id,
        "env": task.env,
        "level": task.level,
        "prompt": task.instruction,
        "messages": [{"role": m.role, "content": m.content} for m in opening],
        "data": dict(data),
    }
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


def _prompt(opening: Sequence[Message]) -> str:
    """All that the task's opening says, as one text; no variable can hold a zero byte."""
    return "\n\n".join(message.content for message in opening).replace("\0", "")


def _as_evidence(ended: Ended) -> JSON:
    return {"exit_code": ended.exit_code, "stdout": ended.stdout, "stderr": ended.stderr}


def _failed(command: Sequence[str], ended: Ended) -> str:
    how = (
        f"was ended by signal {-ended.exit_code}"
        if ended.exit_code < 0
        else f"ended with exit code {ended.exit_code}"
    )
    said = (ended.stderr.strip() or ended.stdout.strip())[-QUOTED_CHARS:]
    return f"{command[0]!r} {how}: {said or 'it printed nothing'}"
