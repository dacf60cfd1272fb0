import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest
from tests.clients.serving import ScriptedSampler
from tests.unit.engine.reference import tiny
from tests.unit.gateway.pieces import SlowSampler, say, talk

from practicum.core.conversation import RolloutLimits
from practicum.core.errors import UserError
from practicum.core.sampling import Completion, SamplingParams, SamplingRequest
from practicum.core.trace import ToolSpec
from practicum.engine.sampling.json_grammar import JsonGrammars
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.requests import ChatRequest, JsonForm, ParsedRequest, Refused, ToolChoice
from practicum.gateway.rollouts import OpenRollouts, Rollout
from practicum.gateway.server.answering import RequestSampler
from practicum.gateway.server.gateway_settings import GatewaySettings

PLAIN = ParsedRequest(
    request=ChatRequest(messages=(say("user", "q"),), params=SamplingParams(max_tokens=40)),
    stream=False,
)
LOOK = ToolSpec(name="look", parameters={"type": "object", "properties": {}})
CONSTRAINED = {
    "form": ParsedRequest(request=PLAIN.request, stream=False, form=JsonForm(schema={"const": 1})),
    "calls": ParsedRequest(
        request=ChatRequest(
            messages=PLAIN.request.messages, params=PLAIN.request.params, tools=(LOOK,)
        ),
        stream=False,
        tool_choice=ToolChoice(kind="required"),
    ),
}


class HeldGrammars(JsonGrammars):
    """Real grammars, whose compilation waits until it may go on."""

    def __init__(self) -> None:
        super().__init__(tiny().tokenizer)
        self.times = 0
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def _compile(self, grammar: str) -> Any:
        self.times += 1
        self.begun.set()
        if threading.current_thread() is not threading.main_thread():  # the event loop's
            assert self.may_go_on.wait(240)
        return super()._compile(grammar)


def answering(
    grammars: JsonGrammars, **limits: Any
) -> tuple[RequestSampler, OpenRollouts, Rollout]:
    rollouts = OpenRollouts()
    params = SamplingParams(max_tokens=40)
    talk = CapturedConversation(ScriptedSampler(["1"]), tiny().codec, params, seed=1)
    rollout = rollouts.open(talk, RolloutLimits(**limits))
    return RequestSampler(rollouts, GatewaySettings(), grammars), rollouts, rollout


class BreaksOff(SlowSampler):
    """Fails after so many tokens."""

    def __init__(self, after: int) -> None:
        super().__init__(lambda request: "x" * 30)
        self._after = after

    async def sample(self, request: SamplingRequest) -> Completion:
        def count(tokens: int) -> None:
            counted(tokens)
            if self.told == self._after:
                raise UserError("it broke")

        counted = request.on_sampled
        assert counted is not None
        return await super().sample(replace(request, on_sampled=count))


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("choices", [1, 3])
@pytest.mark.parametrize("ending", ["hangs up", "times out", "is closed", "fails"])
async def test_what_was_sampled_is_charged_however_the_turn_ends(
    ending: str, choices: int, is_streamed: bool
) -> None:
    rollouts = OpenRollouts()
    pause_s = 0.01 if ending == "times out" else 0.0
    talked, slow = talk(lambda request: "x" * 3000, max_tokens=4000, pause_s=pause_s)
    sampler = BreaksOff(7) if ending == "fails" else slow
    talked = CapturedConversation(sampler, talked.codec, talked.params, seed=1)
    rollout = rollouts.open(talked, RolloutLimits(max_tokens=100_000))
    settings = GatewaySettings(request_timeout_s=1.0 if ending == "times out" else 3600.0)
    answers, told = RequestSampler(rollouts, settings, None), list[int]()
    request = replace(PLAIN.request, params=talked.params, on_sampled=told.append)
    asked = ParsedRequest(request=request, n=choices)
    emit = (lambda event: None) if is_streamed else None
    turns = asyncio.create_task(answers.turns(rollout, asked, emit))
    if ending in ("hangs up", "is closed"):
        while sampler.told < 12:
            await asyncio.sleep(0)
        turns.cancel() if ending == "hangs up" else rollouts.close(rollout.id)
    with pytest.raises((Refused, asyncio.CancelledError)):
        await turns
    assert sampler.told > 0
    assert rollout.use.tokens == sum(told) == sampler.told
    assert (rollout.use.reserved, rollout.use.turns, rollout.use.under_way) == (0, 0, 0)


async def begun(grammars: HeldGrammars) -> None:
    assert await asyncio.to_thread(grammars.begun.wait, 60)


@pytest.mark.parametrize("asked", CONSTRAINED.values(), ids=CONSTRAINED)
async def test_others_are_answered_while_a_grammar_compiles(asked: ParsedRequest) -> None:
    grammars = HeldGrammars()
    answers, _, rollout = answering(grammars)
    waiting = asyncio.create_task(answers.turns(rollout, asked))
    await begun(grammars)
    [other] = await answers.turns(rollout, PLAIN)
    assert other.message.content == "1"
    assert not waiting.done()
    grammars.may_go_on.set()
    [turn] = await waiting
    assert turn.message.content == "1"


async def test_requests_at_once_for_one_schema_compile_it_once() -> None:
    grammars = HeldGrammars()
    answers, _, rollout = answering(grammars)
    waiting = [asyncio.create_task(answers.turns(rollout, CONSTRAINED["form"])) for _ in range(3)]
    await begun(grammars)
    grammars.may_go_on.set()
    await asyncio.gather(*waiting)
    assert grammars.times == 1


async def test_a_rollout_that_closes_does_not_wait_for_its_grammar() -> None:
    grammars = HeldGrammars()
    answers, rollouts, rollout = answering(grammars, max_turns=1)
    waiting = asyncio.create_task(answers.turns(rollout, CONSTRAINED["form"]))
    await begun(grammars)
    assert rollout.use.turns == 1
    rollouts.close(rollout.id)
    with pytest.raises(Refused, match="is closed"):
        await waiting
    assert rollout.use.turns == 0
    grammars.may_go_on.set()


async def test_a_schema_that_cannot_be_enforced_uses_up_no_turn() -> None:
    answers, _, rollout = answering(JsonGrammars(tiny().tokenizer), max_turns=1)
    wrong = ParsedRequest(
        request=PLAIN.request, stream=False, form=JsonForm(schema={"type": "strnig"})
    )
    with pytest.raises(Refused, match="response_format: the JSON schema cannot be enforced"):
        await answers.turns(rollout, wrong)
    assert await answers.turns(rollout, PLAIN)
