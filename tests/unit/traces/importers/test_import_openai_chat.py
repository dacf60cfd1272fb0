import json
from collections.abc import Callable
from pathlib import Path

import pytest

from practicum.core.trace import Message, ToolCall
from practicum.store.episode_codec import encode_hashed_episode
from practicum.traces.importers import import_openai_chat
from practicum.traces.importers.records import Imported, Part

USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "hello"}


def test_the_example_says_all_it_says(examples: Path, read: Callable[..., list[Imported]]) -> None:
    first, second, third = read(examples / "openai_chat.jsonl", "openai-chat")
    trace = first.episode.trace
    assert (trace.id, trace.task_id, trace.model) == ("chat-1", "count-logs", "qwen2.5-1.5b")
    assert trace.started_at == 1772442000.0
    assert (trace.source, trace.env) == ("openai-chat", "openai-chat")
    assert [tool.name for tool in trace.tools] == ["bash"]
    assert trace.tools[0].parameters["required"] == ["script"]
    assert [len(node.messages) for node in trace.nodes] == [2, 1, 1, 1]
    assert trace.turns == (1, 3)
    assert trace.nodes[1].messages[0] == Message(
        role="assistant",
        content="",
        tool_calls=(
            ToolCall(name="bash", arguments={"script": "ls /var/log/app | wc -l"}, id="call_1"),
        ),
    )
    assert trace.nodes[2].messages[0].tool_call_id == "call_1"
    assert (first.episode.score.value, first.episode.outcome.success) == (1.0, True)  # type: ignore[union-attr]
    assert [(one.value, one.is_suggestion) for one in first.labels] == [(1.0, False)]
    assert second.episode.trace.nodes[1].messages[0].reasoning == "I have not looked."
    assert second.episode.trace.nodes[0].messages[0].content.startswith("How many log files")
    assert [one.value for one in second.labels] == [0.0]
    assert first.task.instruction == "How many log files are in /var/log/app?"
    assert third.episode.trace.turns == (1,), "an assistant message of weight 0 was given"
    assert third.episode.score.value is None


def test_turns_have_no_tokens_and_no_probabilities(
    examples: Path, read: Callable[..., list[Imported]]
) -> None:
    for one in read(examples / "openai_chat.jsonl"):
        assert not one.episode.trace.has_logprobs
        assert one.episode.trace.sampled_tokens == 0


def test_the_same_line_has_the_same_id_and_another_has_another(
    parts_of: Callable[..., list[Part]],
) -> None:
    other = {"messages": [USER, {**SAID, "content": "Hello"}]}
    parts = parts_of(
        import_openai_chat.read, {"messages": [USER, SAID]}, {"messages": [USER, SAID]}, other
    )
    ids = [part.found[0].episode.trace.id for part in parts]
    assert ids[0] == ids[1] != ids[2]


def test_arguments_that_are_no_json_are_kept_as_text(parts_of: Callable[..., list[Part]]) -> None:
    calls = [
        {"id": "1", "function": {"name": "f", "arguments": "{broken"}},
        {"id": "2", "function": {"name": "f", "arguments": ""}},
        {"id": "3", "function": {"name": "f", "arguments": {"a": 1}}},
        {"id": "4", "function": {"name": "f", "arguments": "[1]"}},
    ]
    (part,) = parts_of(import_openai_chat.read, {"messages": [USER, {**SAID, "tool_calls": calls}]})
    said = part.found[0].episode.trace.nodes[1].messages[0]
    assert [dict(call.arguments) for call in said.tool_calls] == [
        {"unparsed": "{broken"},
        {},
        {"a": 1},
        {"unparsed": "[1]"},
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "it is not JSON"),
        ("1", "the line is not an object"),
        ('"text"', "the line is not an object"),
        ({"text": 1}, 'it has no "messages"'),
        ({"messages": "hi"}, "messages is not a list"),
        ({"messages": ["hi"]}, "message 1 is not an object"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "message 1 has the role 'wizard'"),
        ({"messages": [USER]}, "no turn of an assistant is in it"),
        ({"messages": []}, "no turn of an assistant is in it"),
        ({"messages": [USER, SAID], "reward": "high"}, "reward is 'high', not a number"),
        ({"messages": [USER, SAID], "label": "so-so"}, "label is 'so-so'; it must be true"),
        ({"messages": [USER, SAID], "success": 3}, "success is 3; it must be true"),
        ({"messages": [USER, {**SAID, "tool_calls": [{}]}]}, "of message 2 names no tool"),
        ({"messages": [USER, SAID], "tools": {"a": 1}}, "tools is not a list"),
        ({"messages": [USER, SAID], "metadata": []}, "metadata is not an object"),
    ],
)
def test_a_bad_line_says_why_and_the_others_are_kept(
    line: object, reason: str, parts_of: Callable[..., list[Part]]
) -> None:
    good = {"messages": [USER, SAID]}
    before, bad, after = parts_of(import_openai_chat.read, good, line, good)
    assert before.found
    assert after.found
    assert (bad.line, bad.found) == (2, ())
    assert reason in bad.problem


def test_half_characters_and_odd_numbers_do_no_harm(parts_of: Callable[..., list[Part]]) -> None:
    line = json.dumps({"messages": [USER, {**SAID, "content": "a\ud800b \U0001d11e \x00"}]})
    late = {"messages": [USER, SAID], "created_at": 1772442000123456789, "id": 7}
    huge = {"messages": [USER, SAID], "created_at": 10**400}
    good, dated, undated, wrong = parts_of(
        import_openai_chat.read, line, late, huge, {**huge, "reward": 10**400}
    )
    said = good.found[0].episode.trace.nodes[1].messages[0].content
    assert said == "a\ufffdb \U0001d11e \x00"
    encode_hashed_episode(good.found[0].episode)
    trace = dated.found[0].episode.trace
    assert (trace.id, trace.started_at) == ("7", pytest.approx(1772442000.123456789))
    assert undated.found[0].episode.trace.started_at == 0.0
    assert "not a number" in wrong.problem
