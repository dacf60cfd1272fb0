"""What readers of other formats give, and what they say of what they cannot read."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from practicum.core.label import Label
from practicum.core.recorded import recorded_nodes
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Failure, Message, Node, StopReason, ToolSpec, Trace

__all__ = ["Draft", "Imported", "Malformed", "Part", "Read", "Verdict"]


class Malformed(Exception):
    """Why a part of a file cannot be used, as one sentence; `line` where it is known better."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One episode from elsewhere, what it is about, and the verdicts that came with it."""

    episode: Episode
    task: Task
    labels: tuple[Label, ...] = ()
    identity: str = ""
    """What makes it the same episode when it is met again; empty where its whole content does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A line, an item or a file: what it gave, or why it gave nothing."""

    line: int
    """Where it begins; 0 where lines say nothing."""
    offset: int
    """Bytes of the file read so far."""
    found: tuple[Imported, ...] = ()
    problem: str = ""


Read = Callable[[Path, int], Iterator[Part]]
"""Reads a file part by part, in the same order each time, without the first so many parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A label as its source gives it."""

    value: float
    author: str
    note: str = ""
    is_suggestion: bool = False


@dataclass(slots=True, kw_only=True)
class Draft:
    """What a reader has found out of an episode; `finish` makes the records of it."""

    source: str
    messages: list[Message] = field(default_factory=list)
    nodes: tuple[Node, ...] = ()
    """Given where the conversation branches; else made from the messages."""
    given: set[int] = field(default_factory=set)
    """Indices of assistant messages that the model did not write."""
    durations: dict[int, float] = field(default_factory=dict)
    id: str = ""
    task_id: str = ""
    env: str = ""
    model: str = ""
    instruction: str = ""
    started_at: float = 0.0
    duration_s: float = 0.0
    tools: tuple[ToolSpec, ...] = ()
    stop: StopReason = StopReason.FINISHED
    failure: Failure | None = None
    success: bool | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    evidence: dict[str, JSON] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    identity: str = ""

    def finish(self) -> Imported:
        """The records, with ids made from the content where the source has none."""
        nodes = self.nodes or recorded_nodes(
            self.messages, given=self.given, durations=self.durations
        )
        if not any(node.sampled for node in nodes):
            raise Malformed("no turn of an assistant is in it")
        said = [message for node in nodes for message in node.messages]
        instruction = self.instruction or next((m.content for m in said if m.role == "user"), "")
        env = self.env or self.source
        task_id = self.task_id or _digest([instruction])[:16]
        trace = Trace(
            id=self.id or f"{self.source}-{_digest([env, task_id, *map(repr, said)])[:16]}",
            task_id=task_id,
            env=env,
            nodes=nodes,
            stop=self.stop,
            failure=self.failure,
            model=self.model,
            started_at=self.started_at,
            duration_s=self.duration_s,
            tools=self.tools,
            source=self.source,
        )
        score = (
            Score(components=dict(self.rewards))
            if self.rewards
            else Score.unscored("its source gives no reward")
        )
        outcome = Outcome(success=self.success, evidence=self.evidence)
        return Imported(
            episode=Episode(trace=trace, outcome=outcome, score=score),
            task=Task(id=task_id, env=env, split="train", instruction=instruction),
            labels=tuple(self._label(verdict, trace) for verdict in self.verdicts),
            identity=self.identity,
        )

    def _label(self, verdict: Verdict, trace: Trace) -> Label:
        return Label(
            episode_id=trace.id,
            value=verdict.value,
            author=verdict.author,
            created_at=self.started_at,
            note=verdict.note,
            is_suggestion=verdict.is_suggestion,
        )


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
