"""What a client asks of the model and what it gets, whichever dialect it speaks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from practicum.core.conversing import TurnDelta
from practicum.core.sampling import Completion, SamplingParams, TokenGrammar
from practicum.core.trace import Message, ToolSpec

__all__ = [
    "AnswerFacts",
    "Asked",
    "ChatRequest",
    "ChatTurn",
    "Happening",
    "JsonForm",
    "Refused",
    "ToolChoice",
]


class Refused(Exception):
    """A request that is not carried out: one sentence, its HTTP status, and what kind it is.

    Kinds: `invalid_request_error`, `authentication_error`, `permission_error`, `not_found_error`,
    `conflict_error`, `request_too_large`, `context_length_exceeded`, `turn_limit`, `token_limit`,
    `deadline`, `rate_limit_error`, `timeout_error`, `api_error`. Dialects word them in their own
    shape.
    """

    def __init__(
        self, status: int, sentence: str, kind: str = "invalid_request_error", param: str = ""
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.kind = kind
        self.param = param
        """The parameter that is wrong, where one is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A whole conversation, and how its next turn is to be sampled."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    params: SamplingParams = field(default_factory=SamplingParams)
    """Its seed is not looked at: see `seed`."""
    grammar: TokenGrammar | None = None
    top_logprobs: int = 0
    on_delta: Callable[[TurnDelta], None] | None = None
    """Told of what is sampled as it comes."""
    seed: int | None = None
    """The client's own; None lets the rollout give each turn one."""
    may_call: bool = True
    """Whether what looks like a call is one; False keeps it as text."""
    one_call: bool = False
    """Whether calls after the first are left out of the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurn:
    """An answered request."""

    message: Message
    completion: Completion
    prompt_tokens: int
    node: int
    """Where the turn is in the rollout's graph."""
    prompt_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonForm:
    """The answer must be JSON: any object, or one that a schema allows."""

    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Whether tools may, must or must not be called.

    `kind` is `auto`, `none`, `required` or `named`; `name` goes with the last.
    """

    kind: str = "auto"
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request's body as a dialect has read it.

    A dialect only reads: the server compiles `form` and `tool_choice` into a grammar.
    """

    request: ChatRequest
    model: str = ""
    n: int = 1
    stream: bool = False
    form: JsonForm | None = None
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    logprobs: bool = False
    """Whether log-probabilities are shown; how many others beside is `request.top_logprobs`."""
    token_ids: bool = False
    """Whether prompt and sampled ids are shown."""
    stream_usage: bool = False
    """Whether a stream ends with how many tokens were used."""
    echo: Mapping[str, Any] = field(default_factory=dict)
    """What the dialect itself wants again when it writes the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFacts:
    """What every answer says about itself."""

    id: str
    """Unique, without any dialect's prefix. A later request of the same rollout may name it."""
    model: str
    created: int
    """Seconds since the epoch."""
    token_text: Callable[[int], str] = str
    """One token as text, for lists of log-probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something a stream has to tell: new text of one choice, or that the choice is complete."""

    choice: int = 0
    delta: TurnDelta | None = None
    turn: ChatTurn | None = None
