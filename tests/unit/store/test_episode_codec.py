import math
import random
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Failure, Message, Node, SampledSpan, StopReason, ToolCall, Trace
from practicum.store.episode_codec import decode_episode, decode_task, encode_episode, encode_task

MakeEpisode = Callable[..., Episode]


def bits(values: tuple[float, ...]) -> list[bytes]:
    return [struct.pack("<d", value) for value in values]


def with_logprobs(episode: Episode, values: tuple[float, ...]) -> Episode:
    span = SampledSpan(logprobs=values, loss_mask=(True,) * len(values))
    node = Node(parent=None, messages=(), token_ids=(1,) * len(values), sampled=span)
    return replace(episode, trace=replace(episode.trace, nodes=(node,)))


def test_an_episode_comes_back_equal(make_episode: MakeEpisode) -> None:
    assert decode_episode(encode_episode(make_episode())) == make_episode()


def test_a_failed_unscored_episode_comes_back_equal() -> None:
    episode = Episode(
        trace=Trace(
            id="e",
            task_id="t",
            env="shell",
            stop=StopReason.ENVIRONMENT_FAILED,
            failure=Failure(kind="EnvironmentFailure", message="it broke"),
            started_at=1.5,
        ),
        outcome=None,
        score=Score.unscored("it broke"),
    )
    assert decode_episode(encode_episode(episode)) == episode


def test_every_float_comes_back_bit_for_bit(make_episode: MakeEpisode) -> None:
    source = random.Random(0)
    drawn = [struct.unpack("<d", source.randbytes(8))[0] for _ in range(20_000)]
    values = (
        *(value for value in drawn if not math.isnan(value)),
        *(-0.0, 0.0, 5e-324, 1.7976931348623157e308, 0.1, 1 / 3, math.inf, -math.inf, math.nan),
    )
    back = decode_episode(encode_episode(with_logprobs(make_episode(), values)))
    span = back.trace.nodes[0].sampled
    assert span is not None
    assert bits(span.logprobs) == bits(values)


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.0,
        True,
        None,
        "1",
        "true",
        "2026-11-15",
        2**80,
        [],
        {},
        [[1, 1.0, True, None, "x", {"a": [False, 0, 0.0]}]],
        "wörds, 数, 😀, \x00, \u2028",
    ],
    ids=repr,
)
def test_json_values_keep_their_type(make_episode: MakeEpisode, value: JSON) -> None:
    outcome = Outcome(success=None, evidence={"value": value})
    episode = replace(make_episode(), outcome=outcome)
    back = decode_episode(encode_episode(episode)).outcome
    assert back is not None
    assert repr(back.evidence["value"]) == repr(value)


def test_tool_calls_come_back_equal(make_episode: MakeEpisode) -> None:
    call = ToolCall(name="run", arguments={"command": ["ls", "-l"], "timeout_s": 2.5}, id="c1")
    message = Message(role="assistant", content="", tool_calls=(call,))
    node = Node(parent=None, messages=(message,), token_ids=())
    episode = replace(make_episode(), trace=replace(make_episode().trace, nodes=(node,)))
    assert decode_episode(encode_episode(episode)) == episode


def test_what_a_record_may_not_hold_is_refused_when_it_is_written(
    make_episode: MakeEpisode,
) -> None:
    wrong = replace(make_episode(), outcome=Outcome(success=None, evidence={"a": "\ud800"}))
    with pytest.raises(ValueError, match="surrogates not allowed"):
        encode_episode(wrong)


def test_a_task_comes_back_equal() -> None:
    task = Task(id="t1", env="math", split="heldout", level=3, data={"left": [1, "x"], "seed": 7})
    assert decode_task(encode_task(task)) == task
