"""From a request that a dialect has read to sampled turns, within the rollout's limits."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from practicum.core.conversing import HistoryCodec, TurnDelta
from practicum.core.errors import ContextFull, UserError
from practicum.gateway.capture import turn_seed
from practicum.gateway.requests import Asked, ChatRequest, ChatTurn, Happening, Refused
from practicum.gateway.rollouts import Admission, OpenRollouts, Rollout, closed
from practicum.gateway.server.settings import GatewaySettings, Grammars

__all__ = ["Answering"]

MOST_STOP_CHARACTERS = 1000
MOST_MESSAGES = 10_000


class Answering:
    """Samples what requests ask for."""

    def __init__(
        self, rollouts: OpenRollouts, settings: GatewaySettings, grammars: Grammars | None
    ) -> None:
        self._rollouts = rollouts
        self._settings = settings
        self._grammars = grammars

    async def turns(
        self, rollout: Rollout, asked: Asked, tell: Callable[[Happening], None] | None = None
    ) -> list[ChatTurn]:
        """The turns of an answer, one for each choice; `tell` hears of them as they are sampled.

        Raises `Refused` for everything that is not the server's own fault.
        """
        self._check(asked)
        request = self._constrained(rollout, asked)
        with self._rollouts.admit(
            rollout, turns=asked.n, max_tokens=request.params.max_tokens
        ) as admission:
            params = replace(request.params, max_tokens=admission.max_tokens)
            limited = replace(request, params=params)
            task = asyncio.current_task()
            assert task is not None
            rollout.use.tasks.add(task)
            try:
                async with asyncio.timeout(self._patience(rollout)):
                    return await self._sample(rollout, asked.n, limited, admission, tell)
            except TimeoutError:
                raise self._too_late(rollout) from None
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
        tell: Callable[[Happening], None] | None,
    ) -> list[ChatTurn]:
        async def one(number: int) -> ChatTurn:
            turn = await rollout.conversation.respond(_for_choice(request, number, tell))
            admission.turns += 1
            admission.sampled += len(turn.completion.token_ids)
            if tell is not None:
                tell(Happening(choice=number, turn=turn))
            return turn

        try:
            if n == 1:
                return [await one(0)]
            async with asyncio.TaskGroup() as together:
                running = [together.create_task(one(number)) for number in range(n)]
        except ExceptionGroup as failed:
            raise _as_refusal(failed.exceptions[0]) from None
        except (ContextFull, UserError) as error:
            raise _as_refusal(error) from None
        return [task.result() for task in running]

    def _check(self, asked: Asked) -> None:
        if asked.n > self._settings.max_choices:
            most = self._settings.max_choices
            raise Refused(400, f"n is {asked.n}; it can be at most {most}", param="n")
        if len(asked.request.messages) > MOST_MESSAGES:
            raise Refused(400, f"there are more than {MOST_MESSAGES} messages", param="messages")
        if any(len(stop) > MOST_STOP_CHARACTERS for stop in asked.request.params.stop):
            most = MOST_STOP_CHARACTERS
            raise Refused(400, f"a stop text is longer than {most} characters", param="stop")

    def _constrained(self, rollout: Rollout, asked: Asked) -> ChatRequest:
        """The request with the grammar that its form or its choice of tools asks for."""
        request, choice = asked.request, asked.tool_choice
        may_call, grammar = choice.kind != "none", None
        codec = cast(HistoryCodec, rollout.conversation.codec)
        if choice.kind in ("required", "named"):
            tools = [t for t in request.tools if not choice.name or t.name == choice.name]
            if not tools:
                sentence = "tool_choice asks for a call and no such tool is offered"
                raise Refused(400, sentence, param="tool_choice")
            many = asked.parallel_tool_calls and choice.kind == "required"
            with self._compiling("tool_choice") as grammars:
                grammar = grammars.calls(codec.calls_form(tools, many=many), codec.thought_form)
        elif asked.form is not None:
            may_call = False  # the JSON that was asked for is no call, whatever it says
            with self._compiling("response_format") as grammars:
                grammar = grammars.of(asked.form.schema, codec.thought_form)
        one_call = not asked.parallel_tool_calls
        return replace(request, may_call=may_call, one_call=one_call, grammar=grammar)

    @contextmanager
    def _compiling(self, param: str) -> Iterator[Grammars]:
        """The grammars; what they say against a request is said to its client."""
        if self._grammars is None:
            sentence = f"{param} cannot be enforced by this server; leave it out"
            raise Refused(400, sentence, param=param)
        try:
            yield self._grammars
        except UserError as error:
            raise Refused(400, f"{param}: {error}", param=param) from None

    def _patience(self, rollout: Rollout) -> float:
        left = rollout.time_left_s
        most = self._settings.request_timeout_s
        return most if left is None else min(most, max(left, 0.0))

    def _too_late(self, rollout: Rollout) -> Refused:
        left = rollout.time_left_s
        if left is not None and left <= 0:
            most = rollout.limits.deadline_s
            return Refused(429, f"the rollout's {most:g} s are over; open another", "deadline")
        most = self._settings.request_timeout_s
        return Refused(504, f"the answer took longer than {most:g} s", "timeout_error")


def _for_choice(
    request: ChatRequest, number: int, tell: Callable[[Happening], None] | None
) -> ChatRequest:
    """The request of one choice: choices of a seeded request have seeds of their own."""
    seed = request.seed
    if seed is not None and number:
        seed = turn_seed(seed, number)
    if tell is None:
        return replace(request, seed=seed)

    def hear(delta: TurnDelta) -> None:
        tell(Happening(choice=number, delta=delta))

    return replace(request, seed=seed, on_delta=hear)


def _as_refusal(error: Exception) -> Exception:
    """What went wrong, as the client is told; a fault of the server's stays what it is."""
    if isinstance(error, ContextFull):
        return Refused(400, str(error), "context_length_exceeded", param="messages")
    if isinstance(error, UserError):
        return Refused(400, str(error))
    return error
