"""Contracts of agents that are programs: how they reach the model, and how chat history is coded.

`ProgramAgent` gets an `Assignment` and a `ReachableConversation` and returns an `AgentReport`. Its
client sends the whole history with each request, which a `HistoryCodec` turns into tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from practicum.core.interfaces import ChatCodec, Conversation
from practicum.core.sampling import CallsForm, ThoughtForm
from practicum.core.score import Score
from practicum.core.task import JSON, Task
from practicum.core.trace import Message, StopReason, ToolSpec

REPORTED = "reported"
"""Key in `Outcome.evidence` of the score that an agent reported for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutLimits:
    """Limits of one rollout's use of the model; 0 is no limit."""

    max_turns: int = 0
    max_tokens: int = 0
    """Sampled tokens in total."""
    deadline_s: float = 0.0
    """Seconds from when the rollout was opened."""
    concurrency: int = 16
    """Requests in progress at once, as agents with sub-agents send them; more wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """URL and API key of the model for one rollout.

    The base URL of OpenAI clients is `url` + "/v1", of Anthropic clients `url`.
    """

    url: str
    key: str


class ReachableConversation(Conversation, Protocol):
    """A conversation that other programs can use over HTTP."""

    def endpoint(self) -> Endpoint:
        """Its URL and key, valid until the episode ends."""


@runtime_checkable
class Limited(Protocol):
    """A conversation with limits."""

    def limit_met(self) -> StopReason | None:
        """The limit that was reached, or that the next request would exceed; None if neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The task of a program agent and the id of its episode."""

    task: Task
    trace_id: str
    """Also names the folder of files that the agent leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """How a program agent ended, and what it reports."""

    stop: StopReason
    score: Score | None = None
    """None: the reward scores the environment's evidence."""
    success: bool | None = None
    """None: the environment decides."""
    evidence: Mapping[str, JSON] = field(default_factory=dict)
    """Added to the environment's evidence."""


@runtime_checkable
class ProgramAgent(Protocol):
    """An agent that is a program and reaches the model over HTTP.

    Any error that escapes `work` makes the episode a failed one: retried, then masked.
    """

    async def work(
        self, assignment: Assignment, session: Any, conversation: ReachableConversation
    ) -> AgentReport:
        """Do the task. `session` stays open and is asked for its outcome afterwards."""


@runtime_checkable
class ScoresItself(Protocol):
    """A program agent that says itself what its work is worth."""

    def cut_off(self, stop: StopReason, reason: str = "") -> AgentReport:
        """What it reports of an episode that a limit ended before it could say so: a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTurn:
    """The tokens an earlier assistant message was sampled as."""

    token_ids: tuple[int, ...]
    ended_turn: bool
    """Whether the last token is the model's own end-of-turn token."""


Messages = Sequence[Message]
Turns = Mapping[int, SampledTurn]
"""Sampled turns by the index of their message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDelta:
    """A streamed change to an assistant message."""

    kind: Literal["content", "reasoning", "call", "arguments"]
    text: str
    """A piece of the content, of the reasoning or of a call's JSON arguments, or a tool's name."""
    index: int = 0
    """Which tool call of the message it belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutCall:
    """A call that the token limit cut off: the tool's name, and its arguments as far as they go."""

    name: str
    arguments: str
    """JSON that may end anywhere."""


class TurnReader(Protocol):
    """Parses a turn while it is sampled; text that may still turn out to be markup is held back."""

    def feed(self, token_ids: Sequence[int]) -> list[TurnDelta]:
        """The deltas that no later token can change."""

    def end(self, *, is_cut: bool = False) -> list[TurnDelta]:
        """The remaining deltas, once the turn is over; `is_cut` if the token limit ended it."""

    @property
    def cut_call(self) -> CutCall | None:
        """The call that the end cut off, which the message does not have."""

    def message(self) -> Message:
        """The parsed turn; call it after `end`."""


class HistoryCodec(ChatCodec, Protocol):
    """A codec for clients that send their whole conversation with every request."""

    def prompt(
        self, messages: Messages, tools: Sequence[ToolSpec] = (), turns: Turns | None = None
    ) -> tuple[int, ...]:
        """Tokens of a whole conversation, generation prompt included.

        An assistant message whose index is in `turns` keeps the tokens it was sampled as, provided
        that the template renders all of it; where the template drops a part (the reasoning, mostly)
        the rendered text is encoded instead.
        """

    def read(self, token_ids: Sequence[int], tools: Sequence[ToolSpec] = ()) -> Message:
        """A sampled turn as a message: its content, reasoning and tool calls."""

    def reader(
        self,
        tools: Sequence[ToolSpec] = (),
        *,
        may_be_json: bool = False,
        is_plain: bool = False,
    ) -> TurnReader:
        """Parses one turn while it is sampled.

        With `may_be_json`, a turn that does not begin with a call has none. With `is_plain`, all
        of it is content, its markup too.
        """

    def calls_form(self, tools: Sequence[ToolSpec], *, many: bool = False) -> CallsForm:
        """The format of a turn that must call one of the tools, or several with `many`."""

    @property
    def thought_form(self) -> ThoughtForm | None:
        """The format of the model's reasoning before its answer; None where it has none."""
