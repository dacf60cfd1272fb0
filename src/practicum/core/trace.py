"""`Trace`, one episode as a tree of messages and tokens; and how recorded text becomes one.

A node holds only the tokens it adds to its parent, so a root-to-leaf path is exactly the token
sequence the model saw. An agent that rewrites its history starts a new branch; nodes never change.

`recorded_nodes` and `RecordedTree` build nodes from conversations that others recorded as text.
`words_of` and `repeated_share` measure repetition.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from practicum.core.task import JSON

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call that the policy wrote."""

    name: str
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool the policy may call; `parameters` is a JSON schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, JSON] = field(default_factory=dict)


Tools = tuple[ToolSpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: str = ""
    """The assistant's reasoning, where it is kept apart from the content."""
    is_error: bool = False
    """Whether this is a tool's error."""


class StopReason(StrEnum):
    """Why an episode ended."""

    FINISHED = "finished"
    """The environment or the agent ended it: the answer was given, say."""
    MAX_TURNS = "max_turns"
    """The turn limit was reached; the work so far is scored."""
    CONTEXT_FULL = "context_full"
    """The next prompt would not fit the model's context."""
    TIMED_OUT = "timed_out"
    """The deadline was over (`agent.deadline_s`): the policy has failed, and is scored so."""
    ENVIRONMENT_FAILED = "environment_failed"
    """An error of the environment: the episode is masked."""
    AGENT_FAILED = "agent_failed"
    """An error of the agent program: the episode is masked."""
    CANCELLED = "cancelled"
    """The run was stopped while the episode was under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error of a failed rollout: its class (see `errors.boundary`) and its message."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSpan:
    """How a node's tokens were sampled; every tuple has one entry per token.

    `logprobs` are of the distribution the token was drawn from: after temperature, constraint,
    top-k and top-p. `choices` lists the token ids a constraint allowed: a single one was forced,
    has log-probability 0 and no loss; none means the whole vocabulary, or a grammar that allowed
    too many to list. `log_kept` is the log of the probability mass that top-k, top-p and an
    unlisted grammar kept, so `logprobs + log_kept` is the log-probability before those cuts: the
    one the learner recomputes, as a log-softmax over the choices.

    A turn recorded elsewhere as text has no log-probabilities: `logprobs` is empty, and so is
    `loss_mask` until the text is tokenised. Online methods must not be given such a turn.
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
    """One or more messages, and the tokens they add to the path that ends at `parent`."""

    parent: int | None
    """Index of the parent in `Trace.nodes`; None for a root."""
    messages: tuple[Message, ...]
    token_ids: tuple[int, ...]
    sampled: SampledSpan | None = None
    """None when the tokens are the model's input rather than its output."""
    duration_s: float = 0.0
    """Seconds it took, where known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One episode as it happened; scores and statistics are kept elsewhere."""

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
    """Tools the policy could call, where known."""
    source: str = ""
    """Format it was imported from; empty for a rollout of Practicum's own."""
    client: str = ""
    """Name of the key that asked for it, where a server recorded it and asks for keys."""

    @property
    def is_masked(self) -> bool:
        """True when it ended through no fault of the policy and must not be trained on."""
        return self.stop in MASKED_STOPS

    @property
    def fingerprints(self) -> frozenset[str]:
        """All weights that sampled any of its tokens."""
        found = (n.sampled.fingerprint for n in self.nodes if n.sampled is not None)
        return frozenset(fingerprint for fingerprint in found if fingerprint)

    @property
    def has_logprobs(self) -> bool:
        """Whether every sampled token has a log-probability, as online methods need."""
        spans = [(n.sampled, n.token_ids) for n in self.nodes if n.sampled is not None]
        return all(ids and len(span.logprobs) == len(ids) for span, ids in spans)

    @property
    def sampled_tokens(self) -> int:
        """Number of sampled tokens, forced ones included."""
        return sum(len(n.token_ids) for n in self.nodes if n.sampled is not None)

    @property
    def turns(self) -> tuple[int, ...]:
        """Indices of the sampled nodes, in sampling order."""
        return tuple(i for i, node in enumerate(self.nodes) if node.sampled is not None)

    def leaves(self) -> tuple[int, ...]:
        """Indices of nodes without children; each ends one root-to-leaf path."""
        parents = {node.parent for node in self.nodes}
        return tuple(i for i in range(len(self.nodes)) if i not in parents)

    def path(self, leaf: int) -> tuple[int, ...]:
        """Indices from the root to `leaf`."""
        indices: list[int] = []
        at: int | None = leaf
        while at is not None:
            indices.append(at)
            at = self.nodes[at].parent
        return tuple(reversed(indices))

    def token_ids(self, leaf: int) -> tuple[int, ...]:
        """The tokens the model saw along the path to `leaf`."""
        return tuple(t for i in self.path(leaf) for t in self.nodes[i].token_ids)

    def messages(self) -> Iterator[Message]:
        """All messages, in the order they were added."""
        for node in self.nodes:
            yield from node.messages


MASKED_STOPS = frozenset(
    {StopReason.ENVIRONMENT_FAILED, StopReason.AGENT_FAILED, StopReason.CANCELLED}
)
"""Endings that are not the policy's fault."""

UNTOKENISED = SampledSpan(logprobs=(), loss_mask=())
"""The span of a turn that was recorded as text."""


def recorded_nodes(
    messages: Sequence[Message],
    *,
    given: Collection[int] = (),
    durations: Mapping[int, float] | None = None,
) -> tuple[Node, ...]:
    """A linear conversation as nodes: one per assistant turn, one for the messages between two.

    Args:
        messages: The whole conversation.
        given: Indices of assistant messages that no model sampled (few-shot examples, say).
        durations: Seconds each message took, by index.

    >>> said = [Message(role="user", content="2 + 2"), Message(role="assistant", content="4")]
    >>> [(n.parent, n.sampled is not None) for n in recorded_nodes(said)]
    [(None, False), (0, True)]
    """
    took = durations or {}
    nodes: list[Node] = []
    between: list[int] = []

    def add(indices: list[int], sampled: SampledSpan | None) -> None:
        nodes.append(
            Node(
                parent=len(nodes) - 1 if nodes else None,
                messages=tuple(messages[i] for i in indices),
                token_ids=(),
                sampled=sampled,
                duration_s=sum(took.get(i, 0.0) for i in indices),
            )
        )

    for index, message in enumerate(messages):
        if message.role != "assistant" or index in given:
            between.append(index)
            continue
        if between:
            add(between, None)
            between = []
        add([index], UNTOKENISED)
    if between:
        add(between, None)
    return tuple(nodes)


class RecordedTree:
    """Nodes from recorded model calls, each with its whole message history.

    Histories share the nodes of their common prefix; where one differs, it branches off.
    """

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._children: dict[int | None, list[int]] = {None: []}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes so far."""
        return tuple(self._nodes)

    def turn(self, history: Sequence[Message], reply: Message, duration_s: float = 0.0) -> None:
        """Add a model call: its input `history` and its output."""
        self._add(self.given(history), reply, UNTOKENISED, duration_s)

    def given(self, history: Sequence[Message]) -> int | None:
        """The node a history ends with, added if new; None for an empty history."""
        at: int | None = None
        for message in history:
            known = (i for i in self._children[at] if self._nodes[i].messages == (message,))
            found = next(known, None)
            at = self._add(at, message, None, 0.0) if found is None else found
        return at

    def _add(
        self, parent: int | None, message: Message, sampled: SampledSpan | None, duration_s: float
    ) -> int:
        index = len(self._nodes)
        self._nodes.append(
            Node(
                parent=parent,
                messages=(message,),
                token_ids=(),
                sampled=sampled,
                duration_s=duration_s,
            )
        )
        self._children[index] = []
        self._children[parent].append(index)
        return index


LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair: Python's strings may hold one, and no encoding or tokenizer can."""


def readable(message: Message) -> Message:
    r"""The message with U+FFFD for each lone surrogate, which a policy's own words may bring in.

    >>> readable(Message(role="tool", content="a\ud800b")).content
    'a\ufffdb'
    """
    if not LONE_SURROGATE.search(message.content):
        return message
    return replace(message, content=LONE_SURROGATE.sub("\ufffd", message.content))


WORD = re.compile(r"\w+|[^\w\s]")


def words_of(text: str) -> list[str]:
    """Words and punctuation marks, in lower case.

    >>> words_of("Go, go on!")
    ['go', ',', 'go', 'on', '!']
    """
    return WORD.findall(text.lower())


def repeated_share(words: Sequence[str], n: int = 3) -> float:
    """The share of word n-grams that occurred before; 0 for fewer than `n` words.

    >>> repeated_share("go on go on go on".split(), n=2)  # go on, on go, go on, on go, go on
    0.6
    """
    sequences = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    if not sequences:
        return 0.0
    return 1.0 - len(set(sequences)) / len(sequences)
