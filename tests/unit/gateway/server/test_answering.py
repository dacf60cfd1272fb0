import asyncio
import threading
from typing import Any

import pytest
from tests.clients.serving import ScriptedSampler
from tests.unit.engine.reference import tiny
from tests.unit.gateway.pieces import say

from practicum.core.conversation import RolloutLimits
from practicum.core.sampling import SamplingParams
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
        self.compiled = 0
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def _compile(self, grammar: str) -> Any:
        self.compiled += 1
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
    assert grammars.compiled == 1


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
