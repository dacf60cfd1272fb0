"""`OpenHandsAgent`: runs the OpenHands SDK's own agent with the policy and a session's sandbox.

`ConversationHost` is the process that runs its conversations, with a JSON channel to each.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

from practicum.agents.waiting import timed_boundary
from practicum.core.capabilities import tools_of
from practicum.core.conversation import (
    AgentReport,
    Assignment,
    Endpoint,
    Limited,
    ReachableConversation,
)
from practicum.core.errors import AgentFailure, EnvironmentFailure, UserError
from practicum.core.interfaces import Session
from practicum.core.task import JSON
from practicum.core.tool_calls import read_tool_call
from practicum.core.trace import Message, StopReason, ToolCall, ToolSpec

RUNNER = Path(__file__).with_name("runner.py")

MAX_MESSAGE_BYTES = 16 * 2**20
"""A longer message ends the episode."""
END_TIMEOUT_S = 5.0
"""Seconds to wait for a conversation's processes to end; a parent that is still loading the SDK
starts and ends them later."""
LOG = "log.txt"
ORDER_BYTES = 8
"""The same as in `runner.py`."""


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A channel of JSON objects, one per line, in both directions."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None if the other side has closed."""
        try:
            line = await self.reader.readline()
        except ConnectionError:
            return None
        return dict(json.loads(line)) if line.endswith(b"\n") else None

    async def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message; if the other side has closed, the next `receive` gives None."""
        with suppress(ConnectionError):
            self.writer.write(json.dumps(message).encode() + b"\n")
            await self.writer.drain()


@dataclass(slots=True)
class _Parent:
    """The process that has loaded the SDK and forks a child for each conversation."""

    process: subprocess.Popen[bytes]
    orders: socket.socket
    folder: Path
    users: int = 0
    numbers: "count[int]" = field(default_factory=count)

    @classmethod
    def start(cls, python: Path) -> "_Parent":
        folder = Path(tempfile.mkdtemp(prefix="practicum-openhands-"))
        ours, theirs = socket.socketpair()
        with theirs, (folder / LOG).open("wb") as log:
            process = subprocess.Popen(
                [str(python), "-I", str(RUNNER), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=_environment(python, folder),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        return cls(process, ours, folder)

    def send_order(self, number: int, descriptors: tuple[int, ...] = ()) -> None:
        """Tells it to start a conversation (with two file descriptors), or to end it."""
        with suppress(ConnectionError):  # it died: the lines of its children say so
            socket.send_fds(self.orders, [number.to_bytes(ORDER_BYTES, "big")], descriptors)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.orders.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(slots=True)
class ConversationHost:
    """Runs conversations in one process with the SDK loaded, which lives while there are any.

    The process inherits nothing of this one's environment: no keys, no proxies, no home.
    """

    python: Path
    _parent: _Parent | None = None

    @asynccontextmanager
    async def conversation(self, job: Mapping[str, Any], folder: Path) -> AsyncIterator[JsonLines]:
        """Starts a conversation; after the block its process and all it started are dead.

        Its output is in `folder`. The model's key is sent over the channel, so that it is not in
        the process list or in an environment.
        """
        parent = self._acquire()
        number = next(parent.numbers)
        ours, theirs = socket.socketpair()
        try:
            with theirs, (folder / LOG).open("wb") as log:
                parent.send_order(number, (theirs.fileno(), log.fileno()))
            reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_MESSAGE_BYTES)
            try:
                channel = JsonLines(reader, writer)
                await channel.send({**job, "folder": str(folder)})
                yield channel
            finally:
                parent.send_order(number)
                # The parent closes the channel once the conversation's processes are dead.
                with suppress(TimeoutError):
                    await asyncio.wait_for(_drained(reader), END_TIMEOUT_S)
                writer.close()
        finally:
            ours.close()
            self._release(parent)

    @contextmanager
    def keep_loaded(self) -> Iterator[None]:
        """Keeps the SDK loaded for the block, between conversations too."""
        parent = self._acquire()
        try:
            yield
        finally:
            self._release(parent)

    def last_words(self, folder: Path) -> str:
        """The output of a conversation that died, or else of its parent."""
        for source in (folder, *([self._parent.folder] if self._parent else [])):
            with suppress(OSError):
                if text := (source / LOG).read_text(errors="replace").strip():
                    return text
        return "it printed nothing"

    def _acquire(self) -> _Parent:
        if self._parent is None or self._parent.process.poll() is not None:
            self._parent = _Parent.start(self.python)
        self._parent.users += 1
        return self._parent

    def _release(self, parent: _Parent) -> None:
        parent.users -= 1
        if parent.users == 0:
            parent.close()
            self._parent = None if self._parent is parent else self._parent


async def _drained(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(65536):
            pass


def _environment(python: Path, folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "OH_PERSISTENCE_DIR": str(folder / "settings"),
        "OPENHANDS_SUPPRESS_BANNER": "1",
        # Otherwise contexts below 16,384 tokens are refused.
        "ALLOW_SHORT_CONTEXT_WINDOWS": "true",
        # Otherwise LiteLLM fetches model prices from the internet.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "NO_PROXY": "*",
    }


TERMINALS = ("bash", "terminal", "shell", "execute_bash")
"""Names that a session's tool for commands may have, in order of preference."""

CLOSED = "The task is closed."


@dataclass(slots=True)
class SessionExecutor:
    """Runs the commands of one OpenHands conversation in a session's sandbox."""

    session: Session
    terminal: str
    """The session's tool that runs commands."""
    argument: str
    """The name of that tool's argument for the command."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """The session's tools that end it, with the argument for the final answer."""
    commands: int = 0
    is_over: bool = False

    @classmethod
    def of(cls, session: Any) -> "SessionExecutor":
        """The executor of a session; raises `UserError` if it has no tool for commands."""
        offered = {tool.name: tool for tool in tools_of(session)}
        for name in TERMINALS:
            if name in offered:
                ends = {n: _first_argument(offered[n]) for n in ENDS if n in offered}
                return cls(session, name, _first_argument(offered[name]), ends)
        raise UserError(
            "the agent openhands works with commands, and the environment has no tool for them "
            f"(it has: {', '.join(offered) or 'none'}); write env: {{name: shell, protocol: tools}}"
        )

    def example(self, shown: Sequence[Message]) -> list[dict[str, str]]:
        """An example of the session's prompt, as steps with OpenHands' tools; the task is first."""
        if not shown or shown[0].role != "user":
            return []
        steps = [{"do": "ask", "with": "", "text": shown[0].content}]
        tools = self.session.tools()
        for position, message in enumerate(shown):
            if message.role != "assistant":
                continue
            call = (message.tool_calls or (read_tool_call(message.content, tools),))[0]
            observation = shown[position + 1].content if position + 1 < len(shown) else CLOSED
            if call.name == self.terminal:
                command = str(call.arguments.get(self.argument, ""))
                steps.append({"do": "run", "with": command, "text": observation})
            else:
                text = str(call.arguments.get(self.ends.get(call.name, ""), "")) or "Done."
                steps.append({"do": "finish", "with": text, "text": CLOSED})
        return steps

    async def run(self, command: str) -> dict[str, Any]:
        """Runs a command in the sandbox; returns the message for OpenHands."""
        if self.is_over:
            return {"text": CLOSED, "is_error": True, "over": True}
        self.commands += 1
        call = ToolCall(name=self.terminal, arguments={self.argument: command})
        async with timed_boundary(EnvironmentFailure, "the environment"):
            observation = await self.session.call(call)
        self.is_over = observation.terminated
        return {
            "text": observation.message.content,
            "is_error": observation.message.is_error,
            "over": self.is_over,
        }

    async def finish(self, answer: str) -> None:
        """Ends the session by one of its tools, with the agent's final message as the answer."""
        name = next((n for n in ENDS if n in self.ends and (answer or n != "answer")), None)
        if self.is_over or name is None:
            return
        argument = self.ends[name]
        call = ToolCall(name=name, arguments={argument: answer} if argument else {})
        async with timed_boundary(EnvironmentFailure, "the environment"):
            observation = await self.session.call(call)
        self.is_over = observation.terminated


ENDS = ("answer", "finish")
"""Tools that end a session, in order of preference; tasks without a question ignore an answer."""


def _first_argument(tool: ToolSpec) -> str:
    """A tool's first required argument, or else its first optional one."""
    required, known = tool.parameters.get("required"), tool.parameters.get("properties")
    names = [*(required if isinstance(required, list) else ())]
    names += [*(known if isinstance(known, dict) else ())]
    return str(names[0]) if names else ""


AT_ONCE = 32
"""Most conversations at once: each is a process of about 50 MB."""

SYSTEM_PROMPT = (
    "You are root on a Linux machine and do one task there. Call one tool a turn: terminal runs a "
    "command in bash and shows what it prints, finish says that the task is done. Each command "
    "runs in a new shell. Where the task asks a question, the message of finish is the answer and "
    "nothing else."
)
"""Replaces the SDK's own, which with its tools is longer than a small model's context."""

MALFORMED: Mapping[str, JSON] = {
    "status": "agent_validation_failed",
    "reason": "the last turn called no tool",
}
"""Evidence of an episode that ended with a message and not with the finish tool: the message is
taken as the answer, but the turn was malformed."""

MODEL_ALIAS = "policy"
KEPT_CHARS = 400
"""Last characters of a failed conversation's output that the error message quotes."""


@dataclass(slots=True, kw_only=True)
class OpenHandsAgent:
    """Runs a conversation of the OpenHands SDK for each episode; a `ProgramAgent`."""

    python: Path
    """The Python of the SDK's own environment."""
    max_turns: int = 8
    prompt: Literal["short", "openhands"] = "short"
    """`short`: a few words and two tools; `openhands`: the SDK's own prompt and tool descriptions,
    5,000 to 6,000 tokens."""
    request_timeout_s: float = 600.0
    keep_in: Path | None = None
    """The run's folder, in which each episode's events are stored; None stores none."""
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    host: ConversationHost = field(init=False)

    def __post_init__(self) -> None:
        self.host = ConversationHost(self.python)

    async def work(
        self, assignment: Assignment, session: Any, conversation: ReachableConversation
    ) -> AgentReport:
        """Runs OpenHands until it finishes, gives up or meets a limit."""
        executor = SessionExecutor.of(session)
        # Without the system message, which describes tools that OpenHands does not have.
        *shown, task = [one for one in session.prompt() if one.role != "system"]
        async with self.slots:
            with tempfile.TemporaryDirectory(prefix="practicum-openhands-") as name:
                folder = Path(name)
                job = self._job(conversation.endpoint(), folder)
                job.update(task=task.content, example=executor.example(shown))
                try:
                    async with self.host.conversation(job, folder) as channel:
                        ending = await self._serve_commands(channel, executor, folder)
                finally:
                    self._keep(assignment.trace_id, folder)
        stop = _stop_reason(ending, executor, conversation)
        if stop is StopReason.FINISHED:
            await executor.finish(str(ending["final"]))
        evidence: dict[str, JSON] = {"ended": str(ending["ended"]), "commands": executor.commands}
        report: dict[str, JSON] = {"openhands": evidence}
        if stop is StopReason.FINISHED and ending["spoke"]:
            report.update(MALFORMED)
        return AgentReport(stop=stop, evidence=report)

    def _job(self, endpoint: Endpoint, folder: Path) -> dict[str, Any]:
        (folder / "workspace").mkdir()
        short = self.prompt == "short"
        return {
            "model": MODEL_ALIAS,
            "base_url": f"{endpoint.url}/v1",
            "api_key": endpoint.key,
            "prompt": self.prompt,
            "system_prompt": SYSTEM_PROMPT if short else None,
            "max_turns": self.max_turns,
            "timeout_s": int(self.request_timeout_s),
            "workspace": str(folder / "workspace"),
            "persistence": str(folder / "conversations"),
        }

    async def _serve_commands(
        self, channel: JsonLines, executor: SessionExecutor, folder: Path
    ) -> Mapping[str, Any]:
        """Runs the conversation's commands until it ends; returns its last message."""
        while (message := await channel.receive()) is not None:
            if "ended" in message:
                return message
            await channel.send(await executor.run(str(message["command"])))
        text = self.host.last_words(folder)[-KEPT_CHARS:]
        raise AgentFailure(f"OpenHands died before it was done: {text}")

    def _keep(self, trace_id: str, folder: Path) -> None:
        """Moves the conversation's events to the run's folder."""
        if self.keep_in is None:
            return
        for found in sorted((folder / "conversations").glob("*")):
            target = kept_folder(self.keep_in, trace_id)
            shutil.rmtree(target, ignore_errors=True)  # of an earlier try of the same episode
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(found, target)


def kept_folder(run: Path, trace_id: str) -> Path:
    """The folder of an episode's events: `openhands/` and the trace id, safe as a path.

    >>> kept_folder(Path("runs/x"), "step-1/0/find..a b/3").as_posix()
    'runs/x/openhands/step-1/0/find..a_b/3'
    """
    words = [re.sub(r"[^\w.=,-]", "_", word) for word in trace_id.split("/")]
    return run.joinpath("openhands", *(word if word.strip(".") else "_" for word in words))


def _stop_reason(
    ending: Mapping[str, Any], executor: SessionExecutor, conversation: ReachableConversation
) -> StopReason:
    """The episode's stop reason; raises `AgentFailure` if OpenHands failed by itself."""
    code, ended = str(ending["code"]), str(ending["ended"])
    if executor.is_over or ended == "finished":
        return StopReason.FINISHED
    if code == "MaxIterationsReached" or ended == "stuck":
        return StopReason.MAX_TURNS
    limit = conversation.limit_met() if isinstance(conversation, Limited) else None
    if limit is not None:
        return limit  # OpenHands failed because the gateway refused it another turn
    raise AgentFailure(f"OpenHands ended as {ended!r}: {str(ending['error'])[:KEPT_CHARS]}")
