"""What makes two examples the same."""

from dataclasses import replace

import pytest
from tests.unit.traces.datasets.made import make_example

from practicum.core.trace import Message, ToolCall
from practicum.traces.datasets.examples import says_made_up
from practicum.traces.datasets.splits import asked_text, content_hash, prompt_hash, task_key

EXAMPLE = make_example("a")


def with_call(call_id: str, script: str) -> Message:
    call = ToolCall(name="bash", arguments={"script": script}, id=call_id)
    return Message(role="assistant", content="", tool_calls=(call,))


def test_ids_of_calls_make_no_difference_and_arguments_do() -> None:
    one, renamed, other = (
        replace(EXAMPLE, messages=(*EXAMPLE.messages[:2], with_call(name, script)))
        for name, script in (("c1", "ls"), ("c2", "ls"), ("c1", "rm"))
    )
    assert content_hash(one) == content_hash(renamed) != content_hash(other)


def test_the_prompt_is_the_same_whatever_was_answered() -> None:
    other = make_example("b", said="5")
    assert prompt_hash(EXAMPLE) == prompt_hash(other)
    assert content_hash(EXAMPLE) != content_hash(other)
    assert prompt_hash(EXAMPLE) != prompt_hash(make_example("c", asked="What is 3 + 3?"))


def test_what_was_asked_leaves_out_the_rules() -> None:
    assert asked_text(EXAMPLE) == "What is 2 + 2?"
    rules_only = replace(EXAMPLE, messages=(EXAMPLE.messages[0], EXAMPLE.messages[2]), given=1)
    assert asked_text(rules_only) == "Answer."


def test_a_task_is_known_by_its_environment_and_id() -> None:
    assert task_key(EXAMPLE) == ("quiz", "t")
    unnamed = [replace(make_example("b", said=said), task_id="") for said in ("4", "5")]
    assert task_key(unnamed[0]) == task_key(unnamed[1])


@pytest.mark.parametrize(
    ("facts", "made_up"),
    [
        ({"synthetic": True}, True),
        ({"synthetic": "false"}, False),
        ({"synthetic": False, "source": "human"}, False),
        ({"source": "Made-up negative"}, True),
        ({"origin": "perturbed"}, True),
        ({"metadata": {"is_synthetic": 1}}, True),
        ({"metadata": {"source": "openhands"}}, False),
        ({"source": None}, False),
        ({}, False),
    ],
)
def test_rows_say_whether_they_were_made_up(facts: dict[str, object], made_up: bool) -> None:
    assert says_made_up(facts) is made_up
