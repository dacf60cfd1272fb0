"""Requests and completions between processes: what arrives is what was sent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.errors import UserError
from practicum.core.sampling import (
    ActionForm,
    Completion,
    NextCharacters,
    SamplingParams,
    SamplingRequest,
)
from practicum.core.sampling_json import (
    SampleOrder,
    completion_from_json,
    completion_to_json,
    is_portable,
    order_to_json,
    request_from_json,
)

TOKENS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5).map(tuple)
NUMBERS = st.floats(0.0, 4.0)


@st.composite
def requests(draw: st.DrawFn) -> SamplingRequest:
    return SamplingRequest(
        prompt_ids=draw(TOKENS),
        params=SamplingParams(
            temperature=draw(NUMBERS),
            top_p=draw(NUMBERS),
            top_k=draw(st.integers(0, 9)),
            max_tokens=draw(st.integers(0, 2**16)),
            stop=tuple(draw(st.lists(st.text(max_size=3), max_size=2))),
            seed=draw(st.integers(0, 2**64 - 1)),
        ),
        actions=tuple(ActionForm(name=name) for name in draw(st.lists(st.text(max_size=4)))),
        drawn=draw(st.integers(0, 9)),
        top_logprobs=draw(st.integers(0, 9)),
    )


def no_grammar(source: str) -> None:
    raise AssertionError(source)


@given(requests())
def test_a_request_arrives_as_it_was_sent(request: SamplingRequest) -> None:
    told = json.loads(json.dumps(order_to_json(SampleOrder(request=request))))
    assert request_from_json(told, no_grammar) == request  # type: ignore[arg-type]


@given(st.data())
def test_a_completion_arrives_bit_for_bit(data: st.DataObject) -> None:
    tokens = data.draw(TOKENS)
    n = len(tokens)
    floats = st.lists(st.floats(-1e3, 0.0), min_size=n, max_size=n).map(tuple)
    choices = st.lists(TOKENS, min_size=n, max_size=n).map(tuple)
    completion = Completion(
        token_ids=tokens,
        text=data.draw(st.text(max_size=5)),
        logprobs=data.draw(floats),
        loss_mask=(True,) * n,
        log_kept=data.draw(st.one_of(st.just(()), floats)),
        choices=data.draw(st.one_of(st.just(()), choices)),
        temperature=data.draw(NUMBERS),
        fingerprint="f",
        finished=data.draw(st.booleans()),
        ended_turn=data.draw(st.booleans()),
        top_logprobs=data.draw(st.sampled_from([(), (((3, -0.5), (4, -1.5)),) * n])),
    )
    assert (
        completion_from_json(json.loads(json.dumps(completion_to_json(completion)))) == completion
    )


def test_an_order_of_one_token_among_some_allows_these_and_no_other() -> None:
    request = SamplingRequest(prompt_ids=(1,), params=SamplingParams(max_tokens=9))
    told = order_to_json(SampleOrder(request=request, among=(3, 7)))
    read = request_from_json(told, no_grammar)  # type: ignore[arg-type]
    assert read.params.max_tokens == 1
    assert read.grammar is not None
    assert read.grammar.start().allowed().nonzero()[0].tolist() == [3, 7]


def test_the_syntax_of_an_argument_is_not_portable() -> None:
    def digits(written: str) -> NextCharacters:
        return NextCharacters(allowed="1", may_end=True)

    forms = (ActionForm(name="a"), ActionForm(name="b", argument=digits))
    params = SamplingParams()
    assert is_portable(SamplingRequest(prompt_ids=(1,), params=params, actions=forms[:1]))
    assert not is_portable(SamplingRequest(prompt_ids=(1,), params=params, actions=forms))


def test_a_grammar_without_source_is_refused_in_a_sentence() -> None:
    class Own:
        def start(self) -> None:
            raise AssertionError

    request = SamplingRequest(prompt_ids=(1,), params=SamplingParams(), grammar=Own())  # type: ignore[arg-type]
    with pytest.raises(UserError, match="a Own holds this turn, and it cannot be sent"):
        order_to_json(SampleOrder(request=request))


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_ids": "x"},
        {"prompt_ids": [True]},
        {"prompt_ids": [-1]},
        {"params": None},
        {"params": {"temperature": "hot", "top_p": 1}},
        {"params": {"temperature": 1, "top_p": 1, "seed": 2**64}},
        {"drawn": -1},
        {"actions": [1]},
        {"grammar": {"a": 1}},
        {"among": [1.5]},
    ],
)
def test_what_is_no_request_is_refused_in_a_sentence(change: dict[str, object]) -> None:
    told = order_to_json(
        SampleOrder(request=SamplingRequest(prompt_ids=(1,), params=SamplingParams()))
    )
    with pytest.raises(UserError, match="send"):
        request_from_json({**told, **change}, no_grammar)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change", [{"logprobs": []}, {"choices": [[1]]}, {"token_ids": None}, {"text": 1, "x": 2}]
)
def test_what_is_no_completion_is_found_out(change: dict[str, object]) -> None:
    told = {
        "token_ids": [1, 2],
        "text": "a",
        "logprobs": [-1.0, -2.0],
        "loss_mask": [True, True],
        "log_kept": [],
        "choices": [],
        "temperature": 1.0,
        "fingerprint": "f",
        "finished": True,
        "ended_turn": True,
        "cached_tokens": 0,
        "stopped_by": "",
    }
    with pytest.raises(ValueError, match="no completion"):
        completion_from_json({**told, **change})
