"""Requests and answers that are the same for every dialect (OpenAI, Anthropic)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from practicum.core.conversation import CutCall, TurnDelta
from practicum.core.sampling import Completion, SamplingParams, TokenGrammar
from practicum.core.trace import Message, Tools, ToolSpec


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
    callable_tools: Tools | None = None
    """Those of the tools that may be called; None for all of them."""
    template: tuple[tuple[str, str | int | float | bool], ...] = ()
    """Variables of the chat template (vLLM's `chat_template_kwargs`), sorted by name."""
    text: str | None = None
    """A prompt that the chat template does not write: the text as it is. The messages show it."""
    may_be_json: bool = False
    """Whether a turn that does not begin with a call is JSON, in which nothing is one."""
    one_call: bool = False
    """Whether calls after the first are dropped from the message."""
    body_bytes: int = 0
    """How long the request is that it was parsed from."""
    on_prompt: Callable[[int], None] | None = None
    """Called with the number of the prompt's tokens, once they are known."""
    on_sampled: Callable[[int], None] | None = None
    """Called with how many tokens are new as they are sampled; see `SamplingRequest`."""

    @property
    def size(self) -> int:
        """Characters of the conversation, or bytes of the request where it is longer."""
        return max(self.body_bytes, sum(len(message.content) for message in self.messages))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurn:
    """The sampled turn that answers a request."""

    message: Message
    completion: Completion
    prompt_tokens: int
    node: int
    """The turn's index in the rollout's graph."""
    cut_call: CutCall | None = None
    """The call that the token limit cut off, which the message does not have."""
    prompt_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonForm:
    """The answer must be a JSON object; any one if the schema is None."""

    schema: Mapping[str, Any] | None = None
    choices: tuple[str, ...] = ()
    """Texts of which the answer must be one, in place of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Whether tools may, must or must not be called.

    `kind` is `auto`, `none`, `required` or `named`; `name` is the tool of the last.
    """

    kind: str = "auto"
    name: str = ""
    allowed: tuple[str, ...] = ()
    """Tools that may be called; empty for all that are offered."""

    def callable(self, tools: Tools) -> Tools:
        """Those of the tools that may be called."""
        names = (self.name,) if self.name else self.allowed
        return tuple(t for t in tools if not names or t.name in names)


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
    custom_tools: frozenset[str] = frozenset()
    """Tools whose input is a text and no JSON."""
    legacy_calls: bool = False
    """Whether the request has `functions`, and the answer a `function_call`."""
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
    prompt_tokens: int = 0
