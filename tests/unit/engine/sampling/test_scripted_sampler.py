import pytest
from tests.unit.engine.reference import ask

from practicum.core.errors import UserError
from practicum.engine.sampling.scripted_sampler import ScriptedSampler


async def test_it_answers_in_turn_and_keeps_what_it_was_asked() -> None:
    sampler = ScriptedSampler(["add_terms 7", "state_answer"])
    requests = [ask(1), ask(1, 2)]
    assert [(await sampler.sample(r)).text for r in requests] == ["add_terms 7", "state_answer"]
    assert sampler.requests == requests


async def test_it_answers_by_a_function_of_the_request() -> None:
    sampler = ScriptedSampler(lambda request: str(len(request.prompt_ids)))
    assert (await sampler.sample(ask(1, 2, 3))).text == "3"


async def test_a_script_that_has_run_out_says_so() -> None:
    sampler = ScriptedSampler(iter(["only"]))
    await sampler.sample(ask(1))
    with pytest.raises(UserError, match="no answer left"):
        await sampler.sample(ask(1))
