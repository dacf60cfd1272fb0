"""`RequestSampler`: samples the turns of a parsed request, within its rollout's limits."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from practicum.core.conversation import HistoryCodec, TurnDelta
from practicum.core.errors import ContextFull, UserError
from practicum.gateway.capture import turn_seed
from practicum.gateway.requests import ChatRequest, ChatTurn, ParsedRequest, Refused, StreamEvent
from practicum.gateway.rollouts import Admission, OpenRollouts, Rollout, closed
from practicum.gateway.server.gateway_settings import GatewaySettings, Grammars

MOST_STOP_CHARACTERS = 1000
MOST_MESSAGES = 10_000


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
        self._check(parsed)
        params = parsed.request.params
        await self._rollouts.wait_for_place(rollout, self._settings.queue_timeout_s)
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
        async def one(number: int) -> ChatTurn:
            turn = await rollout.conversation.respond(_for_choice(request, number, emit))
            admission.turns += 1
            admission.sampled += len(turn.completion.token_ids)
            if emit is not None:
                emit(StreamEvent(choice=number, turn=turn))
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

    def _check(self, parsed: ParsedRequest) -> None:
        if parsed.n > self._settings.max_choices:
            most = self._settings.max_choices
            raise Refused(400, f"n is {parsed.n}; it can be at most {most}", param="n")
        if len(parsed.request.messages) > MOST_MESSAGES:
            raise Refused(400, f"there are more than {MOST_MESSAGES} messages", param="messages")
        if any(len(stop) > MOST_STOP_CHARACTERS for stop in parsed.request.params.stop):
            most = MOST_STOP_CHARACTERS
            raise Refused(400, f"a stop text is longer than {most} characters", param="stop")

    async def _constrained(self, rollout: Rollout, parsed: ParsedRequest) -> ChatRequest:
        """The request with the grammar for its JSON schema or its `tool_choice`.

        Compiling a large schema takes seconds, so it runs in a thread and not in the event loop.
        """
        request, choice = parsed.request, parsed.tool_choice
        may_call, grammar = choice.kind != "none", None
        codec = cast(HistoryCodec, rollout.conversation.codec)
        if choice.kind in ("required", "named"):
            tools = [t for t in request.tools if not choice.name or t.name == choice.name]
            if not tools:
                sentence = "tool_choice asks for a call and no such tool is offered"
                raise Refused(400, sentence, param="tool_choice")
            many = parsed.parallel_tool_calls and choice.kind == "required"
            with self._grammar_compiler("tool_choice") as grammars:
                form = codec.calls_form(tools, many=many)
                grammar = await asyncio.to_thread(grammars.calls, form, codec.thought_form)
        elif parsed.form is not None:
            may_call = False  # the requested JSON may look like a call and is none
            with self._grammar_compiler("response_format") as grammars:
                schema = parsed.form.schema
                grammar = await asyncio.to_thread(grammars.of, schema, codec.thought_form)
        one_call = not parsed.parallel_tool_calls
        return replace(request, may_call=may_call, one_call=one_call, grammar=grammar)

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


def _for_choice(
    request: ChatRequest, number: int, emit: Callable[[StreamEvent], None] | None
) -> ChatRequest:
    """The request of one choice; choices of a seeded request have different seeds."""
    seed = request.seed
    if seed is not None and number:
        seed = turn_seed(seed, number)
    if emit is None:
        return replace(request, seed=seed)

    def emit_delta(delta: TurnDelta) -> None:
        emit(StreamEvent(choice=number, delta=delta))

    return replace(request, seed=seed, on_delta=emit_delta)


def _as_refusal(error: Exception) -> Exception:
    """The client's errors as refusals; others unchanged, which answers 500."""
    if isinstance(error, ContextFull):
        return Refused(400, str(error), "context_length_exceeded", param="messages")
    if isinstance(error, UserError):
        return Refused(400, str(error))
    return error
