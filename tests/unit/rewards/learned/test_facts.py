import math

import pytest
from tests.unit.rewards.learned.talks import answered, said, talk, user

from practicum.core.trace import Failure, Message, Node, SampledSpan, StopReason, Trace
from practicum.rewards.learned.features import count_facts, fact_names, read_transcript


def facts_of(trace: Trace) -> dict[str, float]:
    return dict(zip(fact_names(), count_facts(trace, read_transcript(trace)), strict=True))


STUBBORN = talk(
    "stubborn",
    user("make the folder"),
    said("Trying.", "mkdir /x"),
    answered("Permission denied"),
    said("Trying.", "mkdir /x"),
    answered("Permission denied", is_error=True),
    said("", "mkdir /x"),
    answered(""),
    said("Sorry, it could not be done?"),
    stop=StopReason.MAX_TURNS,
)


def test_counts_are_those_of_a_count_by_hand() -> None:
    found = facts_of(STUBBORN)
    assert found["turns"] == pytest.approx(math.log(5))
    assert found["calls"] == pytest.approx(math.log(4))
    assert found["calls_per_turn"] == pytest.approx(3 / 4)
    assert found["failed_share"] == pytest.approx(1 / 3)
    assert found["error_answer_share"] == pytest.approx(2 / 3)
    assert found["failures_in_a_row"] == pytest.approx(math.log(3))
    assert found["last_answer_failed"] == 0
    assert found["empty_answer_share"] == pytest.approx(1 / 3)
    assert found["repeated_call_share"] == pytest.approx(1 - 1 / 3)
    assert found["same_call_in_a_row"] == pytest.approx(math.log(3))
    assert found["repeated_answer_share"] == pytest.approx(1 - 2 / 3)
    assert found["repeated_turn_share"] == pytest.approx(1 - 2 / 3)
    assert found["silent_turn_share"] == pytest.approx(1 / 4)
    assert found["last_gives_up"] == 1
    assert found["last_asks"] == 1
    assert found["last_claims_done"] == 1
    assert found["stop_max_turns"] == 1
    assert found["stop_finished"] == 0
    assert found["ends_with_call"] == 0


def test_calls_written_into_the_text_count_like_calls_kept_apart() -> None:
    written = Message(
        role="assistant",
        content='<tool_call>\n{"name": "bash", "arguments": {"script": "ls"}}\n</tool_call>',
    )
    apart = read_transcript(talk("a", user("look"), said("", "ls")))
    inside = read_transcript(talk("b", user("look"), written))
    assert apart.calls == inside.calls
    assert apart.ends_with_call
    assert inside.ends_with_call
    assert inside.said[0].strip() == ""


def test_a_phrase_said_again_is_repetition() -> None:
    once = facts_of(talk("a", user("go"), said("one two three four five six")))
    again = facts_of(talk("b", user("go"), said("one two three four one two three four")))
    assert once["repeated_phrase_share"] == 0
    assert again["repeated_phrase_share"] == pytest.approx(1 - 4 / 5)
    assert again["distinct_word_share"] == pytest.approx(1 / 2)


def test_the_prompt_is_no_fact_and_later_words_of_the_user_are() -> None:
    first = facts_of(talk("a", user("short"), said("done")))
    longer = facts_of(talk("a", user("much longer, with an error in it"), said("done")))
    replied = facts_of(talk("a", user("short"), said("done"), user("no"), said("done")))
    assert first == longer
    assert replied["user_replies"] == pytest.approx(math.log(2))


def test_only_the_path_that_was_followed_last_is_read() -> None:
    span = SampledSpan(logprobs=(), loss_mask=())
    trace = Trace(
        id="t",
        task_id="t",
        env="test",
        nodes=(
            Node(parent=None, messages=(user("go"),), token_ids=()),
            Node(parent=0, messages=(said("dropped"),), token_ids=(), sampled=span),
            Node(parent=0, messages=(said("kept"),), token_ids=(), sampled=span),
        ),
        failure=Failure(kind="agent", message="broke"),
    )
    assert read_transcript(trace).said == ("kept",)
    assert facts_of(trace)["branches"] == pytest.approx(math.log(2))
    assert facts_of(trace)["broke_off"] == 1


def test_an_empty_trace_has_finite_facts() -> None:
    found = facts_of(Trace(id="", task_id="", env=""))
    assert all(math.isfinite(value) for value in found.values())
    assert len(set(fact_names())) == len(fact_names())
