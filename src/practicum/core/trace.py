"""What was said and sampled: a graph of messages with the tokens each one added.

A node holds only the tokens it adds to its parent's path, so that a root-to-leaf walk is exactly
the token sequence the model saw. A history an agent rewrites is a new branch, never an edit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from practicum.core.task import JSON

__all__ = [
    "Failure",
    "Message",
    "Node",
    "Role",
    "SampledSpan",
    "StopReason",
    "ToolCall",
    "ToolSpec",
    "Trace",
]

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call the policy asked for."""

    name: str
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool the policy may call; `parameters` is a JSON schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: str = ""
    """What the assistant thought, where its source keeps that apart from what it said."""
    is_error: bool = False
    """Whether a tool answered that it failed."""


class StopReason(StrEnum):
    """Why an episode ended."""

    FINISHED = "finished"
    """The environment reached its own end: answer stated, task closed."""
    MAX_TURNS = "max_turns"
    """The turn limit cut it off; what was done until then is scored."""
    CONTEXT_FULL = "context_full"
    """The next prompt would not fit the model's context."""
    ENVIRONMENT_FAILED = "environment_failed"
    """The environment broke: the episode is masked."""
    AGENT_FAILED = "agent_failed"
    """The agent program broke: the episode is masked."""
    CANCELLED = "cancelled"
    """The run was stopped while the episode was under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed rollout as data: the boundary it crossed and what was said there."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSpan:
    """How a node's tokens were sampled, one entry a token.

    `logprobs` are under the distribution the token was drawn from: after temperature, after the
    constraint, after top-k and top-p. `choices` lists the token ids that a constraint allowed; a
    single choice was forced, has log-probability 0 and carries no loss; an empty tuple means the
    whole vocabulary, or a grammar that allowed too many tokens to list. `log_kept` is the log of
    the probability mass that was kept by top-k, by top-p and by a grammar without a list, so
    `logprobs + log_kept` is the log-probability before that cut, which is what the learner
    recomputes among the choices.

    A turn that was recorded elsewhere as text has no log-probabilities: `logprobs` is empty, and so
    is `loss_mask` until the text has been tokenised. What needs them must not be given such a turn.
    """

    logprobs: tuple[float, ...]
    loss_mask: tuple[bool, ...]
    log_kept: tuple[float, ...] = ()
    choices: tuple[tuple[int, ...], ...] = ()
    temperature: float = 1.0
    fingerprint: str = ""
    """Which weights sampled it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Messages, and the tokens they add to the path that ends at `parent`."""

    parent: int | None
    """Index of the parent in `Trace.nodes`; None for a root."""
    messages: tuple[Message, ...]
    token_ids: tuple[int, ...]
    sampled: SampledSpan | None = None
    """None when the tokens were given to the model rather than sampled by it."""
    duration_s: float = 0.0
    """How long it took to say, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One episode as it happened. Rewards and statistics are derived, never stored in it."""

    id: str
    task_id: str
    env: str
    nodes: tuple[Node, ...] = ()
    stop: StopReason = StopReason.FINISHED
    failure: Failure | None = None
    model: str = ""
    started_at: float = 0.0
    """Seconds since the epoch."""
    duration_s: float = 0.0
    tools: tuple[ToolSpec, ...] = ()
    """Tools that were offered, where the source says."""
    source: str = ""
    """What recorded it: empty for a rollout of Practicum's own, else the name of a format."""

    @property
    def is_masked(self) -> bool:
        """True when the episode says nothing about the policy and must not be trained on."""
        return self.stop in MASKED_STOPS

    @property
    def fingerprints(self) -> frozenset[str]:
        """The weights that sampled any of its tokens."""
        found = (n.sampled.fingerprint for n in self.nodes if n.sampled is not None)
        return frozenset(fingerprint for fingerprint in found if fingerprint)

    @property
    def has_logprobs(self) -> bool:
        """Whether every sampled token's log-probability is known, as online methods need."""
        spans = [(n.sampled, n.token_ids) for n in self.nodes if n.sampled is not None]
        return all(ids and len(span.logprobs) == len(ids) for span, ids in spans)

    @property
    def sampled_tokens(self) -> int:
        """How many tokens the model produced, forced ones included."""
        return sum(len(n.token_ids) for n in self.nodes if n.sampled is not None)

    @property
    def turns(self) -> tuple[int, ...]:
        """Indices of the sampled nodes, in the order they were sampled."""
        return tuple(i for i, node in enumerate(self.nodes) if node.sampled is not None)

    def leaves(self) -> tuple[int, ...]:
        """Indices of nodes without children: each ends one training sample."""
        parents = {node.parent for node in self.nodes}
        return tuple(i for i in range(len(self.nodes)) if i not in parents)

    def path(self, leaf: int) -> tuple[int, ...]:
        """Indices from the root to `leaf`."""
        walk: list[int] = []
        at: int | None = leaf
        while at is not None:
            walk.append(at)
            at = self.nodes[at].parent
        return tuple(reversed(walk))

    def token_ids(self, leaf: int) -> tuple[int, ...]:
        """The tokens the model saw along the path to `leaf`."""
        return tuple(t for i in self.path(leaf) for t in self.nodes[i].token_ids)

    def messages(self) -> Iterator[Message]:
        """Every message in the order it was added."""
        for node in self.nodes:
            yield from node.messages


MASKED_STOPS = frozenset(
    {StopReason.ENVIRONMENT_FAILED, StopReason.AGENT_FAILED, StopReason.CANCELLED}
)
"""Endings that are not the policy's doing."""
