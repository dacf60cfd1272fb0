"""`CapturedConversation`: a conversation that records every token sent to and sampled from a model.

`TokenListener` and `DeltaFilter` stream a turn while it is sampled: tokens are parsed into deltas,
and deltas are cut at stop strings.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from practicum.core.capabilities import (
    EncodesText,
    Guide,
    TakesTemplateVariables,
    WorksAside,
    context_length,
    fewest_tokens,
)
from practicum.core.conversation import HistoryCodec, TurnDelta, TurnReader
from practicum.core.errors import ContextFull, MessageTooLong, UserError
from practicum.core.interfaces import ChatCodec, Sampler
from practicum.core.sampling import Actions, Completion, SamplingParams, SamplingRequest
from practicum.core.trace import Message, Node, Tools, ToolSpec
from practicum.gateway.graph import RolloutGraph
from practicum.gateway.large_requests import INLINE_BYTES, in_large_thread
from practicum.gateway.requests import ChatRequest, ChatTurn

MIN_INTERVAL_S = 0.1
"""Least seconds between two deltas after the first: parsing and sending each token would slow down
the sampler, which shares the interpreter."""

OnDelta = Callable[[TurnDelta], None]


class DeltaFilter:
    """Cuts a stream of deltas at stop strings, and keeps only the first call with `one_call`.

    Text that may be the start of a stop string is buffered.

    >>> sent = []
    >>> stream = DeltaFilter(lambda delta: sent.append(delta.text), stops=("END",))
    >>> stream.feed([TurnDelta(kind="content", text="so E")])
    >>> stream.feed([TurnDelta(kind="content", text="ND and on")])
    >>> stream.end()
    >>> sent
    ['so ']
    """

    def __init__(self, emit: OnDelta, stops: Sequence[str] = (), *, one_call: bool = False) -> None:
        self._emit = emit
        self._stops = tuple(stops)
        self._one_call = one_call
        self._buffer = ""
        self._is_stopped = False

    def feed(self, deltas: Sequence[TurnDelta]) -> None:
        """Emits what is certain."""
        for delta in deltas:
            if delta.kind in ("call", "arguments") and self._one_call and delta.index:
                continue
            if not self._stops or delta.kind != "content":
                self._send(delta)
            elif not self._is_stopped:
                self._buffer_text(delta.text)

    def end(self) -> None:
        """Ends the turn: emits buffered text, which was no stop string."""
        if self._buffer and not self._is_stopped:
            self._send(TurnDelta(kind="content", text=self._buffer))
        self._buffer = ""

    def _buffer_text(self, text: str) -> None:
        self._buffer += text
        cut = cut_at_stop(self._buffer, self._stops)
        if cut is not None:
            self._is_stopped = True
            certain, self._buffer = cut, ""
        else:
            starts = {stop[:size] for stop in self._stops for size in range(len(stop))}
            longest = max(len(start) for start in starts if self._buffer.endswith(start))
            split = len(self._buffer) - longest
            certain, self._buffer = self._buffer[:split], self._buffer[split:]
        if certain:
            self._send(TurnDelta(kind="content", text=certain))

    def _send(self, delta: TurnDelta) -> None:
        if delta.text or delta.kind == "call":
            self._emit(delta)


class TokenListener:
    """Parses tokens as they are sampled, at most once per `MIN_INTERVAL_S`, and emits deltas."""

    def __init__(self, reader: TurnReader, delta_filter: DeltaFilter) -> None:
        self._reader = reader
        self._filter = delta_filter
        self._pending: list[int] = []
        self._read_count = 0
        self._next_time = 0.0

    def feed(self, token_ids: Sequence[int]) -> None:
        """Adds sampled tokens."""
        self._pending += token_ids
        now = time.monotonic()
        if now >= self._next_time:
            if self._read_tokens(self._pending):
                self._next_time = now + MIN_INTERVAL_S
            self._pending = []

    def end(self, token_ids: Sequence[int], *, is_cut: bool = False) -> None:
        """Ends the turn; `token_ids` are all its tokens."""
        self._read_tokens(token_ids[self._read_count :])
        self._filter.feed(self._reader.end(is_cut=is_cut))
        self._filter.end()

    def _read_tokens(self, token_ids: Sequence[int]) -> bool:
        """Parses tokens; whether there were any deltas."""
        self._read_count += len(token_ids)
        deltas = self._reader.feed(token_ids)
        self._filter.feed(deltas)
        return bool(deltas)


class MeteredSampler:
    """A sampler that tells how many tokens it samples, as it does, each once.

    Samplers that tell nothing on the way are asked at the end: `sampled` then gets the rest.
    """

    def __init__(self, sampler: Sampler, sampled: Callable[[int], None]) -> None:
        self._sampler = sampler
        self._sampled = sampled

    async def sample(self, request: SamplingRequest) -> Completion:
        """One completion, counted."""
        counted = 0

        def count(tokens: int) -> None:
            nonlocal counted
            counted += tokens
            self._sampled(tokens)

        completion = await self._sampler.sample(replace(request, on_sampled=count))
        if len(completion.token_ids) > counted:
            count(len(completion.token_ids) - counted)
        return completion

    def fingerprint(self) -> str:
        """See `Sampler`."""
        return self._sampler.fingerprint()

    def forget(self) -> None:
        """See `Sampler`."""
        self._sampler.forget()

    @property
    def context_tokens(self) -> int:
        """See `HasContextTokens`."""
        return context_length(self._sampler)


def cut_at_stop(text: str, stops: Sequence[str]) -> str | None:
    """The text before the first stop string in it; None if it has none."""
    positions = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(positions)] if positions else None


def apply_filter(message: Message, stops: Sequence[str], *, one_call: bool) -> Message:
    """A whole turn as `DeltaFilter` would stream it."""
    cut = cut_at_stop(message.content, stops) if stops else None
    calls = message.tool_calls[:1] if one_call else message.tool_calls
    return replace(message, content=message.content if cut is None else cut, tool_calls=calls)


class PathState(NamedTuple):
    """How far one path of a conversation has come."""

    last: int | None
    """Its newest node."""
    tokens: tuple[int, ...]
    history: list[Message]
    ended_turn: bool
    """Whether its newest turn ended with the end-of-turn token."""


class CapturedConversation:
    """One rollout's conversation with the model; all its tokens are recorded in `nodes`.

    `complete` appends to one path: tokens of earlier turns are sent again as they were recorded,
    and only new messages are tokenised. `respond` is for clients that send their whole conversation
    with each request; turns that were sampled here keep their tokens there too.

    Args:
        sampler: The model.
        codec: Its chat template; must be a `HistoryCodec` for `respond`.
        params: Sampling parameters for what a request leaves out.
        seed: The seed from which every turn's seed is derived.
        context_tokens: Most tokens of prompt and answer together; by default the sampler's. An
            answer's `max_tokens` is cut to what is left.
    """

    def __init__(
        self,
        sampler: Sampler,
        codec: ChatCodec,
        params: SamplingParams,
        seed: int,
        *,
        context_tokens: int | None = None,
    ) -> None:
        self.graph = RolloutGraph()
        self.nodes: list[Node] = self.graph.nodes
        self.tools: tuple[ToolSpec, ...] = ()
        """Tools that were offered in any request, each once."""
        self.params = params
        self.guide: Guide | None = None
        self.given_turns = 0
        self.sampling_s = 0.0
        self.roles: list[str] = []
        self.codec = codec
        self._sampler = sampler
        self._seed = seed
        self._last: int | None = None
        self._path: tuple[int, ...] = ()
        self._history: list[Message] = []
        self._ended_turn = True
        self._role, self._learns = "", True
        self._resting: dict[str, PathState] = {}
        """Where the roles that do not act now have come to."""
        self._requests = 0
        self._context_tokens = context_length(sampler) if context_tokens is None else context_tokens

    async def complete(
        self, messages: Sequence[Message], actions: Actions = (), tools: Tools = ()
    ) -> Completion:
        """Adds messages and the assistant's turn after them: sampled, or given by the guide."""
        self.check_length(messages)
        if self._last is None:
            given = self.codec.open(messages, tools)
            self._offer(tools)
        else:
            given = self.codec.extend(messages, self._ended_turn)
        prompt = self._path + given
        guided = self.guide(messages, actions) if self.guide is not None else None
        if guided is None:
            self.guide = None  # the model goes on by itself
        completion = guided or await self._sample(prompt, actions)
        # Without the duration: a run that is repeated must record the same nodes.
        parent = self.graph.add_given(self._last, tuple(messages), given)
        message = Message(role="assistant", content=completion.text)
        if not self._learns:
            completion = replace(completion, loss_mask=(False,) * len(completion.token_ids))
        if guided is None:
            self.roles += [self._role.partition("/")[0]] if self._role else []
            self._last = self.graph.add_turn(parent, message, completion)
        else:
            self._last = self.graph.repeat(
                parent, (message,), completion.token_ids, ended=completion.ended_turn
            )
            self.given_turns += 1
        self._history += messages
        self.graph.remember(self._last, self._history)
        self._history.append(message)
        self._path = prompt + completion.token_ids
        self._ended_turn = completion.ended_turn
        return completion

    def speak_as(self, role: str, *, learns: bool = True) -> None:
        """Go on with a role's path, or begin it; a role that does not learn only acts."""
        if role != self._role:
            self._resting[self._role] = PathState(
                self._last, self._path, self._history, self._ended_turn
            )
            found = self._resting.pop(role, None) or PathState(None, (), [], True)
            self._last, self._path, self._history, self._ended_turn = found
        self._role, self._learns = role, learns

    async def _sample(self, prompt: tuple[int, ...], actions: Actions) -> Completion:
        params = replace(self.params, seed=turn_seed(self._seed, len(self.nodes)))
        request = SamplingRequest(prompt_ids=prompt, params=params, actions=actions)
        started = time.monotonic()
        try:
            return await self._sampler.sample(request)
        finally:
            self.sampling_s += time.monotonic() - started

    def fold(self, shorten: Callable[[Message], Message]) -> int:
        """Goes on from a branch in which earlier results are shortened; the tokens of its path.

        Turns keep the tokens they were sampled as, and are learned from where they were sampled.
        """
        at: int | None = None
        history: list[Message] = []
        tokens: tuple[int, ...] = ()
        ended_turn = True
        for index in self.graph.path(self._last):
            node = self.nodes[index]
            messages, given = node.messages, node.token_ids
            was_said = any(message.role == "assistant" for message in messages[-1:])
            if at is not None and not was_said:
                shortened = tuple(shorten(message) for message in messages)
                if shortened != messages:
                    messages, given = shortened, self.codec.extend(shortened, ended_turn)
            ended_turn = self.graph.ended_turn(index)
            is_same = node.parent == at and messages == node.messages
            at = index if is_same else self.graph.repeat(at, messages, given, ended=ended_turn)
            history += messages
            tokens += given
        self._last, self._history, self._path = at, history, tokens
        return len(tokens)

    async def respond(self, request: ChatRequest) -> ChatTurn:
        """Samples the turn that answers a whole conversation.

        A request that fails or is cancelled records nothing; what it sampled is told all the same.
        """
        codec = self.codec_of(request)
        prompt = await self.prompt_of(request)
        params = self._fit_context(request.params, len(prompt))
        if request.on_prompt is not None:
            request.on_prompt(len(prompt))
        callable_ = request.tools if request.callable_tools is None else request.callable_tools
        tools = callable_ if request.may_call else ()
        is_plain = request.text is not None
        reader = codec.reader(tools, may_be_json=request.may_be_json, is_plain=is_plain)
        delta_filter = DeltaFilter(
            request.on_delta or _ignore, params.stop, one_call=request.one_call
        )
        listener = TokenListener(reader, delta_filter)
        started = time.monotonic()
        sampler = MeteredSampler(self._sampler, request.on_sampled or _ignore)
        completion = await sampler.sample(
            SamplingRequest(
                prompt_ids=prompt,
                params=replace(params, seed=self._next_seed(request.seed)),
                grammar=request.grammar,
                top_logprobs=request.top_logprobs,
                on_tokens=listener.feed if request.on_delta is not None else None,
            )
        )
        duration_s = time.monotonic() - started
        self.sampling_s += duration_s
        listener.end(completion.token_ids, is_cut=not completion.finished)
        cut_call = reader.cut_call
        if request.one_call and reader.message().tool_calls:
            cut_call = None
        message = apply_filter(reader.message(), params.stop, one_call=request.one_call)
        parent = self.graph.place(prompt, request.messages)
        node = self.graph.add_turn(parent, message, completion, duration_s)
        self.graph.remember(node, request.messages)
        self._offer(request.tools)
        return ChatTurn(
            message=message,
            completion=completion,
            prompt_tokens=len(prompt),
            node=node,
            cut_call=cut_call,
            prompt_ids=prompt,
        )

    def _fit_context(self, params: SamplingParams, prompt_tokens: int) -> SamplingParams:
        """The params with `max_tokens` cut to what is left of the context."""
        if not self._context_tokens:
            return params
        room = self._context_tokens - prompt_tokens
        if room < 1:
            # Clients recognise an overflow by these first words of OpenAI's.
            raise ContextFull(
                f"This model's maximum context length is {self._context_tokens} tokens, its answer "
                f"included, and the conversation is {prompt_tokens} tokens long; send a shorter one"
            )
        return replace(params, max_tokens=min(params.max_tokens, room))

    async def prompt_of(self, request: ChatRequest) -> tuple[int, ...]:
        """The tokens of a whole conversation, in which turns sampled here keep their tokens."""
        self.check_length(request.messages)
        codec, turns = self.codec_of(request), self.graph.turns(request.messages)
        if request.text is not None:
            return await self._plain_ids(request.text)
        if request.size <= INLINE_BYTES or not isinstance(codec, WorksAside):
            return codec.prompt(request.messages, request.tools, turns)
        return await in_large_thread(
            lambda: codec.aside().prompt(request.messages, request.tools, turns)
        )

    def codec_of(self, request: ChatRequest) -> HistoryCodec:
        """The codec with the template's variables that a request gives."""
        codec = cast(HistoryCodec, self.codec)
        if not request.template:
            return codec
        if not isinstance(codec, TakesTemplateVariables):
            raise UserError("this model's chat template takes no variables; leave them out")
        found: HistoryCodec = codec.with_variables(request.template)
        return found

    async def _plain_ids(self, text: str) -> tuple[int, ...]:
        codec = self.codec
        if not isinstance(codec, EncodesText):
            raise UserError("this model takes conversations only; ask for a chat completion")
        if len(text) <= INLINE_BYTES or not isinstance(codec, WorksAside):
            return codec.encode_text(text)
        aside: EncodesText = codec.aside()
        return await in_large_thread(lambda: aside.encode_text(text))

    def check_length(self, messages: Sequence[Message]) -> None:
        """Refuses messages that cannot fit whatever their tokens are, without making them."""
        most, least = self._context_tokens, fewest_tokens(self.codec, messages)
        if most and least >= most:
            length = sum(len(message.content) for message in messages)
            raise MessageTooLong(
                f"This model's maximum context length is {most} tokens, its answer included, and "
                f"the conversation's {length} characters are {least} tokens or more; send a "
                "shorter one"
            )

    def _next_seed(self, asked: int | None) -> int:
        """The client's seed, or a new one; turns that are sampled at once have different ones.

        One request after another gets the seeds of `complete`, which adds two nodes per turn.
        """
        turn, self._requests = self._requests, self._requests + 1
        return turn_seed(self._seed, 2 * turn) if asked is None else asked

    def _offer(self, tools: Sequence[ToolSpec]) -> None:
        known = {tool.name for tool in self.tools}
        self.tools += tuple(tool for tool in tools if tool.name not in known)


def turn_seed(seed: int, turn: int) -> int:
    """A seed for one turn, hashed so that neighbouring turns and seeds share nothing.

    >>> turn_seed(0, 0) != turn_seed(0, 2) != turn_seed(1, 0)
    True
    """
    digest = hashlib.blake2b(f"{seed}/{turn}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _ignore(told: object) -> None:
    """For requests of which nobody wants to hear."""
