"""Requests and answers that are the same for every dialect (OpenAI, Anthropic)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from practicum.core.conversation import TurnDelta
from practicum.core.sampling import Completion, SamplingParams, TokenGrammar
from practicum.core.trace import Message, ToolSpec


class Refused(Exception):
    """A request that is refused, with an HTTP status, a message and a kind.

    Kinds: `invalid_request_error`, `authentication_error`, `permission_error`, `not_found_error`,
    `model_not_found`, `conflict_error`, `request_too_large`, `context_length_exceeded`,
    `turn_limit`, `token_limit`, `deadline`, `rate_limit_error`, `overloaded_error`,
    `timeout_error`, `api_error`. Each dialect has its own JSON for them.
    """

    def __init__(
        self,
        status: int,
        sentence: str,
        kind: str = "invalid_request_error",
        param: str = "",
        *,
        retry_after_s: int = 1,
    ) -> None:
        super().__init__(sentence)
        self.retry_after_s = retry_after_s
        """When to try again, where that helps: kinds `rate_limit_error` and `overloaded_error`."""
        self.status = status
        self.sentence = sentence
        self.kind = kind
        self.param = param
        """The request's parameter that is wrong, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A whole conversation, and how to sample its next turn."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    params: SamplingParams = field(default_factory=SamplingParams)
    """Its seed is ignored: see `seed`."""
    grammar: TokenGrammar | None = None
    top_logprobs: int = 0
    on_delta: Callable[[TurnDelta], None] | None = None
    """Called with the turn's deltas as they are sampled."""
    seed: int | None = None
    """The client's seed; None lets the rollout choose one per turn."""
    may_call: bool = True
    """Whether tool calls are parsed; False keeps them as text."""
    one_call: bool = False
    """Whether calls after the first are dropped from the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurn:
    """The sampled turn that answers a request."""

    message: Message
    completion: Completion
    prompt_tokens: int
    node: int
    """The turn's index in the rollout's graph."""
    prompt_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonForm:
    """The answer must be a JSON object; any one if the schema is None."""

    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Whether tools may, must or must not be called.

    `kind` is `auto`, `none`, `required` or `named`; `name` is the tool of the last.
    """

    kind: str = "auto"
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """A request's body as parsed by a dialect.

    The server compiles `form` and `tool_choice` into a grammar later.
    """

    request: ChatRequest
    model: str = ""
    n: int = 1
    stream: bool = False
    form: JsonForm | None = None
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    logprobs: bool = False
    """Whether the answer has log-probabilities; `request.top_logprobs` says of how many tokens."""
    token_ids: bool = False
    """Whether the answer has the token ids of prompt and turn."""
    stream_usage: bool = False
    """Whether a stream ends with the usage."""
    echo: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the request that the dialect repeats in its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFacts:
    """Metadata that every answer has."""

    id: str
    """Unique, without a dialect's prefix. Later requests of the rollout may refer to it."""
    model: str
    created: int
    """Seconds since the epoch."""
    token_text: Callable[[int], str] = str
    """A token's text, for lists of log-probabilities."""
    fingerprint: str = ""
    """Which weights answer, where that is known before they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """An event of a stream: new text of one choice (`delta`), or its complete turn (`turn`)."""

    choice: int = 0
    delta: TurnDelta | None = None
    turn: ChatTurn | None = None
