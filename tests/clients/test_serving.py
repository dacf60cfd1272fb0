"""The checks of this folder notice what they are for."""

from dataclasses import replace

import pytest
from tests.clients.serving import Served, check_recomputed, serving

from practicum.core.sampling import SamplingParams
from practicum.core.trace import Message
from practicum.engine.policy import TorchPolicy
from practicum.gateway.requests import ChatRequest


async def talk(served: Served) -> None:
    request = ChatRequest(
        messages=(Message(role="user", content="Hi"),), params=SamplingParams(max_tokens=6)
    )
    await served.conversation.respond(request)
    await served.conversation.respond(request)


async def test_a_lost_turn_and_a_changed_token_are_noticed(policy: TorchPolicy) -> None:
    async with serving(policy) as served:
        await talk(served)
        assert served.check_all_recorded() > 0
        whole = list(served.nodes)
        last = whole[-1]
        served.nodes[-1] = replace(last, token_ids=(*last.token_ids[:-1], 7))
        with pytest.raises(AssertionError):
            served.check_all_recorded()
        del served.nodes[-1]
        with pytest.raises(AssertionError):
            served.check_all_recorded()


async def test_a_wrong_logprob_is_noticed(policy: TorchPolicy) -> None:
    async with serving(policy) as served:
        await talk(served)
        check_recomputed(policy, served)
        last = served.nodes[-1]
        assert last.sampled is not None
        first, *others = last.sampled.logprobs
        wrong = replace(last.sampled, logprobs=(first + 3e-4, *others))
        served.nodes[-1] = replace(last, sampled=wrong)
        with pytest.raises(AssertionError):
            check_recomputed(policy, served)
