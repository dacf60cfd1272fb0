"""What all importers make: their result records, and `Draft`, which collects one."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from practicum.core.sample import Episode
from practicum.core.score import Label, Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Failure, Message, Node, StopReason, ToolSpec, Trace, recorded_nodes


class Malformed(Exception):
    """Why a record cannot be imported, in one sentence; `line` if known more exactly."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """An imported episode, its task and its labels."""

    episode: Episode
    task: Task
    labels: tuple[Label, ...] = ()
    identity: str = ""
    """Identifies the episode when it is imported again; empty: by its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One record of a file (a line, an array item, or the file): its episodes, or its problem."""

    line: int
    """Where it starts; 0 where the format has no lines."""
    offset: int
    """Bytes of the file read so far."""
    found: tuple[Imported, ...] = ()
    problem: str = ""


Read = Callable[[Path, int], Iterator[Part]]
"""`read(path, skip)`: the parts of a file, always in the same order, without the first `skip`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A label as the file has it."""

    value: float
    author: str
    note: str = ""
    is_suggestion: bool = False


@dataclass(slots=True, kw_only=True)
class Draft:
    """The fields that an importer collects; `finish` makes the records."""

    source: str
    messages: list[Message] = field(default_factory=list)
    nodes: tuple[Node, ...] = ()
    """Set where the conversation branches; else made from `messages`."""
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
        """The records; missing ids are made from the content."""
        nodes = self.nodes or recorded_nodes(
            self.messages, given=self.given, durations=self.durations
        )
        if not any(node.sampled for node in nodes):
            raise Malformed("no turn of an assistant is in it")
        messages = [message for node in nodes for message in node.messages]
        first = next((m.content for m in messages if m.role == "user"), "")
        instruction = self.instruction or first
        env = self.env or self.source
        task_id = self.task_id or _digest([instruction])[:16]
        trace = Trace(
            id=self.id or f"{self.source}-{_digest([env, task_id, *map(repr, messages)])[:16]}",
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
