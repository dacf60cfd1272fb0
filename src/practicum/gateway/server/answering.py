"""`RequestSampler`: samples the turns of a parsed request, within its rollout's limits."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from practicum.core.capabilities import WorksAside
from practicum.core.conversation import HistoryCodec, TurnDelta
from practicum.core.errors import ContextFull, UserError
from practicum.core.sampling import CallsForm, ThoughtForm, TokenGrammar
from practicum.gateway.capture import turn_seed
from practicum.gateway.large_requests import INLINE_BYTES, in_large_thread
from practicum.gateway.requests import ChatRequest, ChatTurn, ParsedRequest, Refused, StreamEvent
from practicum.gateway.rollouts import Admission, OpenRollouts, Rollout, closed
from practicum.gateway.server.gateway_settings import GatewaySettings, Grammars

MOST_STOP_CHARACTERS = 1000
MOST_MESSAGES = 10_000
MOST_TOOLS = 1000
FEW_TOOLS = 16
"""Tools whose calls' form is found in the event loop; the template is tried on each new name."""


class RequestSampler:
    """Checks, constrains and samples requests."""

    def __init__(
        self, rollouts: OpenRollouts, settings: GatewaySettings, grammars: Grammars | None
    ) -> None:
        self._rollouts = rollouts
        self._settings = settings
        self._grammars = grammars

    async def turns(
        self,
        rollout: Rollout,
        parsed: ParsedRequest,
        emit: Callable[[StreamEvent], None] | None = None,
    ) -> list[ChatTurn]:
        """The turns of an answer, one for each choice; `emit` gets their events meanwhile.

        Raises `Refused` for everything that is not the server's own fault.
        """
        self.check(rollout, parsed)
        params = parsed.request.params
        most_s = self._settings.queue_timeout_s
        await self._rollouts.wait_for_place(rollout, most_s, parsed.request.size)
        with self._rollouts.admit(
            rollout, turns=parsed.n, max_tokens=params.max_tokens
        ) as admission:
            params = replace(params, max_tokens=admission.max_tokens)
            task = asyncio.current_task()
            assert task is not None
            rollout.use.tasks.add(task)
            try:
                async with asyncio.timeout(self._timeout_s(rollout)):
                    request = replace(await self._constrained(rollout, parsed), params=params)
                    return await self._sample(rollout, parsed.n, request, admission, emit)
            except TimeoutError:
                raise self._timeout_refusal(rollout) from None
            except asyncio.CancelledError:
                if not rollout.use.is_closed:
                    raise
                task.uncancel()
                raise closed(rollout.id) from None
            finally:
                rollout.use.tasks.discard(task)

    async def _sample(
        self,
        rollout: Rollout,
        n: int,
        request: ChatRequest,
        admission: Admission,
        emit: Callable[[StreamEvent], None] | None,
    ) -> list[ChatTurn]:
        def sampled(tokens: int) -> None:
            admission.charge(tokens)
            if request.on_sampled is not None:
                request.on_sampled(tokens)

        asked = replace(request, on_sampled=sampled)

        async def one(number: int) -> ChatTurn:
            turn = await rollout.conversation.respond(_for_choice(asked, number, emit))
            admission.turns += 1
            if emit is not None:
                emit(StreamEvent(choice=number, turn=turn, prompt_tokens=turn.prompt_tokens))
            return turn

        try:
            if n == 1:
                return [await one(0)]
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(one(number)) for number in range(n)]
        except ExceptionGroup as failed:
            raise _as_refusal(failed.exceptions[0]) from None
        except (ContextFull, UserError) as error:
            raise _as_refusal(error) from None
        return [task.result() for task in running]

    def check(self, rollout: Rollout, parsed: ParsedRequest) -> None:
        """Refuses what can be refused before anything is tokenised."""
        if parsed.n > self._settings.max_choices:
            most = self._settings.max_choices
            raise Refused(400, f"n is {parsed.n}; it can be at most {most}", param="n")
        if len(parsed.request.messages) > MOST_MESSAGES:
            raise Refused(400, f"there are more than {MOST_MESSAGES} messages", param="messages")
        if any(len(stop) > MOST_STOP_CHARACTERS for stop in parsed.request.params.stop):
            most = MOST_STOP_CHARACTERS
            raise Refused(400, f"a stop text is longer than {most} characters", param="stop")
        if len(parsed.request.tools) > MOST_TOOLS:
            raise Refused(400, f"there are more than {MOST_TOOLS} tools", param="tools")
        try:
            rollout.conversation.check_length(parsed.request.messages)
        except ContextFull as error:
            raise overflow(error) from None

    async def _constrained(self, rollout: Rollout, parsed: ParsedRequest) -> ChatRequest:
        """The request with the grammar for its JSON schema or its `tool_choice`.

        With a schema and tools, a turn is the JSON or calls tools, as at the providers. Compiling a
        large schema takes seconds, so it runs in a thread and not in the event loop.
        """
        request, choice = parsed.request, parsed.tool_choice
        may_call, grammar = choice.kind != "none", None
        try:
            codec = rollout.conversation.codec_of(request)
        except UserError as error:
            raise Refused(400, str(error), param="chat_template_kwargs") from None
        tools = choice.callable(request.tools)
        if choice.kind in ("required", "named"):
            if not tools:
                sentence = "tool_choice asks for a call and no such tool is offered"
                raise Refused(400, sentence, param="tool_choice")
            many = parsed.parallel_tool_calls and choice.kind == "required"
            with self._grammar_compiler("tool_choice") as grammars:
                grammar = await _compiled(
                    request,
                    codec,
                    lambda codec: codec.calls_form(tools, many=many),
                    lambda form, thought: grammars.calls(cast(CallsForm, form), thought),
                )
        elif parsed.form is not None:
            may_call = may_call and bool(tools)
            with self._grammar_compiler("response_format") as grammars:
                asked, many = parsed.form, parsed.parallel_tool_calls
                grammar = await _compiled(
                    request,
                    codec,
                    lambda codec: codec.calls_form(tools, many=many) if may_call else None,
                    lambda form, thought: (
                        grammars.choices(asked.choices, thought, form)
                        if asked.choices
                        else grammars.of(asked.schema, thought, form)
                    ),
                )
        return replace(
            request,
            may_call=may_call,
            callable_tools=tools,
            may_be_json=parsed.form is not None and choice.kind == "auto",
            one_call=not parsed.parallel_tool_calls,
            grammar=grammar,
        )

    @contextmanager
    def _grammar_compiler(self, param: str) -> Iterator[Grammars]:
        """The grammar compiler, whose `UserError`s become refusals."""
        if self._grammars is None:
            sentence = f"{param} cannot be enforced by this server; leave it out"
            raise Refused(400, sentence, param=param)
        try:
            yield self._grammars
        except UserError as error:
            raise Refused(400, f"{param}: {error}", param=param) from None

    def _timeout_s(self, rollout: Rollout) -> float:
        left = rollout.time_left_s
        most = self._settings.request_timeout_s
        return most if left is None else min(most, max(left, 0.0))

    def _timeout_refusal(self, rollout: Rollout) -> Refused:
        left = rollout.time_left_s
        if left is not None and left <= 0:
            most = rollout.limits.deadline_s
            return Refused(429, f"the rollout's {most:g} s are over; open another", "deadline")
        most = self._settings.request_timeout_s
        return Refused(504, f"the answer took longer than {most:g} s", "timeout_error")


async def _compiled(
    request: ChatRequest,
    codec: HistoryCodec,
    find_form: Callable[[HistoryCodec], CallsForm | None],
    compile_grammar: Callable[[CallsForm | None, ThoughtForm | None], TokenGrammar],
) -> TokenGrammar:
    """A request's grammar, compiled in a thread; a large request's in that of large ones."""
    is_large = request.size > INLINE_BYTES or len(request.tools) > FEW_TOOLS
    if is_large and isinstance(codec, WorksAside):
        aside: HistoryCodec = codec.aside()
        return await in_large_thread(lambda: compile_grammar(find_form(aside), aside.thought_form))
    form, thought = find_form(codec), codec.thought_form
    return await asyncio.to_thread(compile_grammar, form, thought)


def _for_choice(
    request: ChatRequest, number: int, emit: Callable[[StreamEvent], None] | None
) -> ChatRequest:
    """The request of one choice; choices of a seeded request have different seeds."""
    seed = request.seed
    if seed is not None and number:
        seed = turn_seed(seed, number)
    if emit is None:
        return replace(request, seed=seed)

    prompt_tokens = 0

    def note_prompt(tokens: int) -> None:
        nonlocal prompt_tokens
        prompt_tokens = tokens
        if request.on_prompt is not None:
            request.on_prompt(tokens)

    def emit_delta(delta: TurnDelta) -> None:
        emit(StreamEvent(choice=number, delta=delta, prompt_tokens=prompt_tokens))

    return replace(request, seed=seed, on_delta=emit_delta, on_prompt=note_prompt)


def overflow(error: ContextFull) -> Refused:
    """The refusal of a conversation that does not fit."""
    return Refused(400, str(error), "context_length_exceeded", param="messages")


def _as_refusal(error: Exception) -> Exception:
    """The client's errors as refusals; others unchanged, which answers 500."""
    if isinstance(error, ContextFull):
        return overflow(error)
    if isinstance(error, UserError):
        return Refused(400, str(error))
    return error
