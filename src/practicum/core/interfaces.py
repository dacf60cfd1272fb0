"""Every contract between the parts, on one page; those of learning are in `learning`.

Parts receive each other as arguments typed by these Protocols; only `assemble` knows which
concrete class stands behind one. Records are in the other files of this folder.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from practicum.core.command import CommandResult, SandboxSpec
from practicum.core.learning import (
    Algorithm,
    ExampleRow,
    Learner,
    Measured,
    Need,
    Objective,
    OfflineMethod,
    Teacher,
    UpdateReport,
)
from practicum.core.sample import Episode, Group
from practicum.core.sampling import ActionForm, Completion, SamplingRequest
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Split, Task
from practicum.core.trace import Message, StopReason, ToolCall, ToolSpec, Trace

__all__ = [
    "Agent",
    "Algorithm",
    "ChatCodec",
    "Conversation",
    "Curriculum",
    "DiscreteSession",
    "Environment",
    "ExampleRow",
    "GroupReward",
    "Learner",
    "Measured",
    "Need",
    "Objective",
    "Observation",
    "OfflineMethod",
    "Reward",
    "Sampler",
    "Sandbox",
    "Sandboxes",
    "Session",
    "Teacher",
    "TraceStore",
    "UpdateReport",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the environment answers to one turn."""

    message: Message
    """What the policy sees next."""
    reward: float | None = None
    """What the turn paid; None when the environment pays per episode."""
    terminated: bool = False
    """The episode is over by the environment's own rules. A turn limit is the agent's matter."""


class Session(Protocol):
    """One live episode; single use, never reset."""

    def prompt(self) -> list[Message]:
        """The messages that open the conversation."""
        ...

    def tools(self) -> list[ToolSpec]:
        """Tools the policy may call; none in a discrete environment."""
        ...

    async def call(self, call: ToolCall) -> Observation:
        """Carry out one tool call."""
        ...

    async def outcome(self) -> Outcome:
        """The evidence for rewards, collected before the session closes."""
        ...


class DiscreteSession(Protocol):
    """A session whose turns are one action each, written as text."""

    def prompt(self) -> list[Message]:
        """The messages that open the conversation."""
        ...

    def actions(self) -> tuple[ActionForm, ...]:
        """The ways to act now; empty when the policy writes freely and the text is parsed."""
        ...

    async def act(self, text: str) -> Observation:
        """Carry out the action written as `text`."""
        ...

    async def outcome(self) -> Outcome:
        """The evidence for rewards, collected before the session closes."""
        ...


class Environment(Protocol):
    """A source of tasks and the place where they are done."""

    name: str

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Tasks of one side of the wall, in an order given by the seed; may be endless."""
        ...

    def open(self, task: Task) -> AbstractAsyncContextManager[Any]:
        """Start one episode: yields a `Session` or a `DiscreteSession`."""
        ...

    def reference(self, task: Task) -> Sequence[str]:
        """The turns of a solution that earns full marks."""
        ...


class Sampler(Protocol):
    """Draws completions. Torch, vLLM, remote or scripted."""

    async def sample(self, request: SamplingRequest) -> Completion:
        """One completion; many calls at once are batched."""
        ...

    def fingerprint(self) -> str:
        """Which weights the next token would come from."""
        ...

    def forget(self) -> None:
        """Drop what is cached, so that what follows does not depend on what came before."""
        ...


class ChatCodec(Protocol):
    """Messages to tokens, only ever forward: tokens already seen are never made again."""

    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> tuple[int, ...]:
        """Tokens of the opening messages, up to where the assistant begins to write.

        `tools` are shown with them, in the way the model knows or else as text.
        """
        ...

    def extend(self, messages: Sequence[Message], ended_turn: bool) -> tuple[int, ...]:
        """Tokens to append after a completion so that `messages` follow it.

        `ended_turn` says whether the completion itself ended with the end-of-turn token.
        """
        ...

    def write(self, message: Message) -> tuple[int, ...]:
        """Tokens of an assistant's turn as the model would have sampled it, its end included."""
        ...


class Conversation(Protocol):
    """One episode's line to the model. What goes through it is recorded as it is sampled."""

    async def complete(
        self,
        messages: Sequence[Message],
        actions: tuple[ActionForm, ...] = (),
        tools: tuple[ToolSpec, ...] = (),
    ) -> Completion:
        """Add messages and sample the assistant's turn after them.

        `tools` are those the policy may call; they are shown when the conversation opens.
        """
        ...


class Agent(Protocol):
    """Who does the work: carries one session from its prompt to its end."""

    async def run(self, session: Any, conversation: Conversation) -> StopReason:
        """Drive the session turn by turn; says why it ended."""
        ...


class GroupReward(Protocol):
    """Scores that say how the episodes of a group compare with each other."""

    async def rescore(self, group: Group) -> Group:
        """The group with its episodes' scores as they are beside each other."""
        ...


class Reward(Protocol):
    """Scores an episode from its evidence alone, so that a stored one can be scored again."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """The score, with its components."""
        ...


class Curriculum(Protocol):
    """Chooses the next tasks, and learns from how the last ones went."""

    def next_tasks(self, count: int) -> list[Task]:
        """The next tasks to train on."""
        ...

    def observe(self, group: Group) -> None:
        """How a task went."""
        ...

    def state(self) -> dict[str, JSON]:
        """What a resumed run needs."""
        ...

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Go on from where `state` was taken."""
        ...


class TraceStore(Protocol):
    """Keeps episodes."""

    def begin_attempt(self, attempt: int, from_step: int) -> None:
        """From now on, what earlier attempts recorded after `from_step` no longer counts."""
        ...

    def add(
        self, episode: Episode, *, attempt: int, step: int, purpose: str, task: Task | None = None
    ) -> None:
        """Keep one episode durably enough to survive a kill, and its task if given."""
        ...

    def add_many(
        self,
        episodes: Iterable[Episode],
        *,
        attempt: int,
        step: int,
        purpose: str,
        tasks: Iterable[Task] = (),
    ) -> None:
        """Keep all of them, and the tasks they are about, or none."""
        ...

    def episodes(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> Iterator[Episode]:
        """Stored episodes, oldest first; a replayed step gives only its newest attempt.

        With a limit, only the newest so many.
        """
        ...


class Sandbox(Protocol):
    """A place where untrusted commands run; after `close` nothing of it is left."""

    @property
    def kind(self) -> str:
        """What isolates it: `bubblewrap`, `landlock`, `docker`, `podman`, `process` or `fake`."""
        ...

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        """Run one command to its end or its limit, in a process of its own."""
        ...

    async def judge(
        self, command: Sequence[str], *, timeout_s: float, stdin: bytes = b""
    ) -> CommandResult:
        """Run a checker over what was done.

        In a fresh process, with the system's own programs and libraries in place of any that were
        changed, and with all that is still running held still meanwhile.
        """
        ...

    async def read(self, path: str, limit: int = 1_048_576) -> bytes:
        """An ordinary file inside.

        `FileNotFoundError` where there is none, `ValueError` where it is longer than `limit` or
        not an ordinary file.
        """
        ...

    async def write(self, path: str, content: bytes) -> None:
        """Make a file inside, and the folders it lies in."""
        ...

    async def close(self) -> None:
        """End every process and remove every file. May be called twice."""
        ...


class Sandboxes(Protocol):
    """Opens sandboxes of one kind, many at once."""

    @property
    def kind(self) -> str:
        """See `Sandbox.kind`; stored with the run."""
        ...

    async def open(self, spec: SandboxSpec) -> Sandbox:
        """A new sandbox; `EnvironmentFailure` when none can be had now."""
        ...

    async def close(self) -> None:
        """Close every sandbox that is still open, and what serves them."""
        ...
