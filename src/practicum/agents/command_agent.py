"""`CommandAgent`: an agent that is any executable, run in a process of its own for each episode.

It gets the model's URL and key and its task in environment variables.
"""

import asyncio
import json
import math
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from practicum.agents.waiting import timed_boundary
from practicum.core.conversation import (
    AgentReport,
    Assignment,
    Endpoint,
    Limited,
    ReachableConversation,
)
from practicum.core.errors import AgentFailure, EnvironmentFailure
from practicum.core.score import Score
from practicum.core.task import JSON, Task
from practicum.core.trace import Message, StopReason
from practicum.core.trusted_code import NEW_FOLDER

BASICS = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
"""Environment variables that programs inherit; no secrets are among them."""

MARK = "PRACTICUM_EPISODE"
"""Environment variable with a random value, by which a program's descendants are found in /proc."""

LOOK_S = 0.02
"""Seconds between two checks whether a program has ended."""

KEPT_CHARS = 4000
"""Bytes kept of the start of a program's output, and as many of its end."""

BY_EVIDENCE = "evidence"
BY_EXIT_CODE = "exit_code"
QUOTED_CHARS = 400
"""Last characters of a failed program's output that the error message quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The exit code and output of a program."""

    exit_code: int
    """If negative, the signal that killed it."""
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAgent:
    """Runs a command for each episode.

    The command gets `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY`,
    `PRACTICUM_PROMPT` and `PRACTICUM_TASK` (the path of a JSON file).
    """

    command: tuple[str, ...]
    inherit: tuple[str, ...] = ()
    """Environment variables that it inherits besides `BASICS`."""
    workdir: str = NEW_FOLDER
    score: str | tuple[str, ...] = BY_EVIDENCE
    """`evidence`, `exit_code`, or a command whose last printed line is the score."""
    hide: tuple[str, ...] = ("answer",)
    """Keys of a task's data that only the scoring command sees."""
    shows_data: bool = False
    """Whether the command sees the task's data; an environment's own tasks have solutions in it."""
    success_at: float = 1.0
    """The score from which an episode counts as a success."""

    async def work(
        self, assignment: Assignment, session: Any, conversation: ReachableConversation
    ) -> AgentReport:
        """Runs the command, then scores its work."""
        async with timed_boundary(EnvironmentFailure, "the environment"):
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
                async with timed_boundary(EnvironmentFailure, "the environment"):
                    await session.act(ended.stdout.strip())
                return AgentReport(stop=StopReason.FINISHED, evidence=evidence)
            value = await self._scored(task, opening, ended, folder, private)
        return self._report({"score": value}, evidence)

    async def _scored(
        self, task: Task, opening: Sequence[Message], ended: Ended, folder: Path, private: Path
    ) -> float:
        """The score that the scoring command prints; it runs in the folder of the work."""
        command = tuple(self.score)
        whole = _task_file(private / "whole_task.json", task, opening, dict(task.data))
        environment = {**bare_environment(self.inherit), "PRACTICUM_TASK": str(whole)}
        output = await run_program(
            command, environment=environment, folder=folder, stdin=ended.stdout.encode()
        )
        if output.exit_code != 0:
            raise AgentFailure(f"scoring: {_failed(command, output)}")
        last = output.stdout.strip().rpartition("\n")[2]
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
        """Raises `AgentFailure`, unless the command failed because of the episode's limits."""
        output = _failed(self.command, ended)
        limit = conversation.limit_met() if isinstance(conversation, Limited) else None
        if limit is None:
            raise AgentFailure(output)
        return replace(self.cut_off(limit, output), evidence=evidence)

    def cut_off(self, stop: StopReason, reason: str = "") -> AgentReport:
        """See `ScoresItself`: 0, unless the environment judges the answer, which there is none of.

        A limit that ends the program is the policy's doing, and not the program's failure.
        """
        if self.score == BY_EVIDENCE:
            return AgentReport(stop=stop)
        score = Score(components={"score": 0.0}, reason=reason)
        return AgentReport(stop=stop, score=score, success=False)

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
        """The program's working folder and the folder of its task file; new ones are removed."""
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
    """The first messages as one text, without zero bytes, which no variable can hold."""
    return "\n\n".join(message.content for message in opening).replace("\0", "")


def _as_evidence(ended: Ended) -> JSON:
    return {"exit_code": ended.exit_code, "stdout": ended.stdout, "stderr": ended.stderr}


def _failed(command: Sequence[str], ended: Ended) -> str:
    how = (
        f"was ended by signal {-ended.exit_code}"
        if ended.exit_code < 0
        else f"ended with exit code {ended.exit_code}"
    )
    output = (ended.stderr.strip() or ended.stdout.strip())[-QUOTED_CHARS:]
    return f"{command[0]!r} {how}: {output or 'it printed nothing'}"


def bare_environment(inherit: Sequence[str]) -> dict[str, str]:
    """This process's environment, reduced to `BASICS` and the variables in `inherit`."""
    return {name: os.environ[name] for name in (*BASICS, *inherit) if name in os.environ}


async def run_program(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    stdin: bytes = b"",
) -> Ended:
    """Runs a program; when this returns or raises, the program and all it started are dead."""
    mark = secrets.token_hex(16)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env={**environment, MARK: mark},
            start_new_session=True,
        )
    except OSError as error:
        raise AgentFailure(f"the command {command[0]!r} cannot be started: {error}") from None
    kept = (KeptText(), KeptText())
    reading = asyncio.gather(
        _feed(process.stdin, stdin), *map(_drain, (process.stdout, process.stderr), kept)
    )
    try:
        # Not `process.wait`, which also waits for the pipes: a background child may keep them open.
        while process.returncode is None:
            await asyncio.sleep(LOOK_S)
        exit_code = process.returncode
        end_all(process.pid, mark)
        await reading
    finally:
        end_all(process.pid, mark)
        reading.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await reading  # asyncio complains of what was cancelled and never looked at
        await asyncio.shield(process.wait())
    return Ended(exit_code=exit_code, stdout=kept[0].text(), stderr=kept[1].text())


def end_all(group: int, mark: str) -> None:
    """Kills a process group, and all processes with the mark, since a child may leave the group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)


class KeptText:
    r"""The start and the end of a long output, in bounded memory.

    >>> kept = KeptText(limit=3)
    >>> kept.add(b"abc..."), kept.add(b"...xyz"), kept.text()
    (None, None, 'abc\n[6 bytes left out]\nxyz')
    """

    def __init__(self, limit: int = KEPT_CHARS) -> None:
        self._limit = limit
        self._head = b""
        self._tail = b""
        self._total = 0

    def add(self, more: bytes) -> None:
        """Adds output."""
        self._total += len(more)
        room = self._limit - len(self._head)
        self._head += more[:room]
        self._tail = (self._tail + more[room:])[-self._limit :]

    def text(self) -> str:
        """What is kept; invalid UTF-8 is replaced."""
        left_out = self._total - len(self._head) - len(self._tail)
        gap = f"\n[{left_out} bytes left out]\n".encode() if left_out else b""
        return (self._head + gap + self._tail).decode("utf-8", "replace")


async def _feed(pipe: asyncio.StreamWriter | None, given: bytes) -> None:
    if pipe is None:
        return
    with suppress(ConnectionError):  # the program may end without reading its input
        pipe.write(given)
        await pipe.drain()
    pipe.close()


async def _drain(pipe: asyncio.StreamReader | None, kept: KeptText) -> None:
    while pipe is not None and (more := await pipe.read(65_536)):
        kept.add(more)
