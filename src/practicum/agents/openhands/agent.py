"""Has OpenHands do a task: its own agent and loop, our model behind it, our sandbox under it."""

import asyncio
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from practicum.agents.openhands.desk import SessionDesk
from practicum.agents.openhands.process import Line, Workshop
from practicum.core.conversing import Endpoint, ReachableConversation
from practicum.core.errors import AgentFailure
from practicum.core.task import JSON
from practicum.core.trace import StopReason
from practicum.core.working import AgentReport, Assignment, Limited

__all__ = ["AT_ONCE", "SYSTEM_PROMPT", "OpenHandsAgent", "kept_folder"]

AT_ONCE = 32
"""Conversations that run together: each is a process of about 50 MB. Others wait for a place."""

SYSTEM_PROMPT = (
    "You are root on a Linux machine and do one task there. Call one tool a turn: terminal runs a "
    "command in bash and shows what it prints, finish says that the task is done. Each command "
    "runs in a new shell. Where the task asks a question, the message of finish is the answer and "
    "nothing else."
)
"""In place of the SDK's own, which with its tools is longer than a small model's window."""

MALFORMED: Mapping[str, JSON] = {
    "status": "agent_validation_failed",
    "reason": "the last turn called no tool",
}
"""Evidence of an episode that ended with a message: what it says is taken as the answer, but it is
no turn in the form that was asked for."""

MODEL_ALIAS = "policy"
KEPT_CHARS = 400
"""Characters of what a failed conversation printed that its failure quotes."""


@dataclass(slots=True, kw_only=True)
class OpenHandsAgent:
    """A conversation of the OpenHands SDK for each episode; implements `WorkingAgent`."""

    python: Path
    """The Python of the SDK's own environment."""
    max_turns: int = 8
    prompt: Literal["short", "openhands"] = "short"
    """`short`: few words about two tools; `openhands`: the SDK's own prompt and descriptions, 5 to
    6 thousand tokens of them."""
    request_timeout_s: float = 600.0
    keep_in: Path | None = None
    """Folder of the run, where the events of each episode are kept; None keeps none."""
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    workshop: Workshop = field(init=False)

    def __post_init__(self) -> None:
        self.workshop = Workshop(self.python)

    async def work(
        self, assignment: Assignment, session: Any, conversation: ReachableConversation
    ) -> AgentReport:
        """Let OpenHands work until it finishes, gives up or has had its turns."""
        desk = SessionDesk.of(session)
        # What the system is told there is about tools that OpenHands does not have.
        *shown, asked = [one for one in session.prompt() if one.role != "system"]
        async with self.places:
            with tempfile.TemporaryDirectory(prefix="practicum-openhands-") as name:
                folder = Path(name)
                job = self._job(conversation.endpoint(), folder)
                job.update(task=asked.content, example=desk.example(shown))
                try:
                    async with self.workshop.conversation(job, folder) as line:
                        ending = await self._answered(line, desk, folder)
                finally:
                    self._keep(assignment.trace_id, folder)
        stop = _why(ending, desk, conversation)
        if stop is StopReason.FINISHED:
            await desk.finish(str(ending["final"]))
        evidence: dict[str, JSON] = {"ended": str(ending["ended"]), "commands": desk.commands}
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

    async def _answered(self, line: Line, desk: SessionDesk, folder: Path) -> Mapping[str, Any]:
        """Answer the conversation's commands until it says how it ended."""
        while (message := await line.receive()) is not None:
            if "ended" in message:
                return message
            await line.send(await desk.run(str(message["command"])))
        said = self.workshop.last_words(folder)[-KEPT_CHARS:]
        raise AgentFailure(f"OpenHands died before it was done: {said}")

    def _keep(self, trace_id: str, folder: Path) -> None:
        """Move the events to the run's folder, whatever became of the conversation."""
        if self.keep_in is None:
            return
        for found in sorted((folder / "conversations").glob("*")):
            target = kept_folder(self.keep_in, trace_id)
            shutil.rmtree(target, ignore_errors=True)  # of an earlier try of the same episode
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(found, target)


def kept_folder(run: Path, trace_id: str) -> Path:
    """Where the events of an episode are: `openhands/` and its trace's id.

    >>> kept_folder(Path("runs/x"), "step-1/0/find..a b/3").as_posix()
    'runs/x/openhands/step-1/0/find..a_b/3'
    """
    words = [re.sub(r"[^\w.=,-]", "_", word) for word in trace_id.split("/")]
    return run.joinpath("openhands", *(word if word.strip(".") else "_" for word in words))


def _why(
    ending: Mapping[str, Any], desk: SessionDesk, conversation: ReachableConversation
) -> StopReason:
    """How the episode ended, from how the conversation did."""
    code, ended = str(ending["code"]), str(ending["ended"])
    if desk.is_over or ended == "finished":
        return StopReason.FINISHED
    if code == "MaxIterationsReached" or ended == "stuck":
        return StopReason.MAX_TURNS
    limit = conversation.limit_met() if isinstance(conversation, Limited) else None
    if limit is not None:
        return limit  # OpenHands was refused a turn, and that is what its error is about
    raise AgentFailure(f"OpenHands ended as {ended!r}: {str(ending['error'])[:KEPT_CHARS]}")
