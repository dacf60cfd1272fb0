"""Sampled turns to messages, in every family's markup, whole and while they are sampled."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.engine.chat.families import (
    ALL_FAMILIES,
    FAMILIES,
    Family,
    as_json,
    codec_of,
    sampled,
    tokenizer_of,
)
from tests.unit.engine.chat.scripts import BASH, TOOLS, Script

from practicum.core.conversation import TurnDelta
from practicum.core.trace import Message, ToolCall
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.models.tiny import CHAT_TEMPLATE

CASES = 15


def chunks(ids: Sequence[int], dice: random.Random) -> list[Sequence[int]]:
    found, at = [], 0
    while at < len(ids):
        size = dice.choice([1, 1, 2, 5, 40])
        found.append(ids[at : at + size])
        at += size
    return found


def put_together(deltas: Sequence[TurnDelta]) -> Message:
    """A message made of nothing but what a client of a stream would have been told."""
    content = "".join(d.text for d in deltas if d.kind == "content")
    reasoning = "".join(d.text for d in deltas if d.kind == "reasoning")
    names = [(d.index, d.text) for d in deltas if d.kind == "call"]
    assert [index for index, _ in names] == list(range(len(names)))
    calls = []
    for index, name in names:
        told = "".join(d.text for d in deltas if d.kind == "arguments" and d.index == index)
        calls.append(ToolCall(name=name, arguments=json.loads(told), id=f"call_{index}"))
    return Message(role="assistant", content=content, reasoning=reasoning, tool_calls=tuple(calls))


def streamed(codec: TemplateCodec, ids: Sequence[int], dice: random.Random) -> Message:
    reader = codec.reader(TOOLS)
    deltas = [delta for chunk in chunks(ids, dice) for delta in reader.feed(chunk)]
    deltas += reader.end()
    told = put_together(deltas)
    assert told == reader.message()
    return told


def read_text(name: str, text: str) -> tuple[Message, list[str]]:
    codec = codec_of(name)
    reader = codec.reader(TOOLS)
    reader.feed(sampled(codec, text, random.Random(0)))
    reader.end()
    return reader.message(), reader.faults


def as_read(family: Family, message: Message) -> Message:
    """A turn without thinking is one whose thinking is empty, where the template begins it."""
    return replace(message, reasoning=message.reasoning if family.thinks else "")


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_a_turn_is_read_as_what_was_meant_however_its_tokens_come(name: str) -> None:
    codec, family = codec_of(name), ALL_FAMILIES[name]
    for seed in range(CASES):
        dice = random.Random(seed)
        message = Script(family, dice).turn(calls=True)
        ids = (*sampled(codec, family.text(message), dice), codec.turn_end_id)
        whole = codec.read(ids, TOOLS)
        assert whole == as_read(family, message)
        assert streamed(codec, ids, dice) == whole


@pytest.mark.parametrize("name", FAMILIES)
def test_turns_cut_off_and_turns_of_noise_stream_as_they_are_read(name: str) -> None:
    codec, family = codec_of(name), FAMILIES[name]
    tokenizer: Any = codec._tokenizer
    for seed in range(CASES):
        dice = random.Random(1000 + seed)
        ids = list(sampled(codec, family.text(Script(family, dice).turn(calls=True)), dice))
        ids = ids[: dice.randint(0, len(ids))]
        for _ in range(dice.randint(0, 6)):
            ids.insert(dice.randint(0, len(ids)), dice.randrange(len(tokenizer)))
        assert streamed(codec, ids, dice) == codec.read(ids, TOOLS)


def test_text_without_markup_is_the_content_to_the_letter() -> None:
    codec = codec_of("qwen2.5")
    for seed in range(40):
        dice = random.Random(seed)
        ids = [dice.randrange(256) for _ in range(dice.randint(0, 40))]
        assert codec.read(ids, TOOLS).content == codec.decode(ids)
        assert streamed(codec, ids, dice).content == codec.decode(ids)


@pytest.mark.parametrize("text", ["", " \n", "\n\nHello.  \n", "a <tool", "<tool_call", "é漢🙂"])
def test_blanks_and_beginnings_of_marks_are_content_in_the_end(text: str) -> None:
    assert read_text("qwen2.5", text) == (Message(role="assistant", content=text), [])


def test_a_character_in_several_tokens_is_given_out_once_it_is_whole() -> None:
    reader = codec_of("chatml").reader()
    told = [[delta.text for delta in reader.feed([byte])] for byte in "a漢b".encode()]
    assert told == [["a"], [], [], ["漢"], ["b"]]


def test_content_is_given_out_as_it_comes_and_a_call_once_it_is_certain() -> None:
    codec = codec_of("qwen2.5")
    reader = codec.reader(TOOLS)
    text = 'I look.\n<tool_call>{"name": "finish", "arguments": {}}</tool_call>\n'
    told = [(i, d) for i, byte in enumerate(text.encode()) for d in reader.feed([byte])]
    assert "".join(d.text for _, d in told if d.kind == "content") == "I look."
    assert max(i for i, d in told if d.kind == "content") == text.index(".")
    assert [i for i, d in told if d.kind == "call"] == [text.rindex(">")]
    assert reader.end() == []


@pytest.mark.parametrize(
    ("name", "body", "sentence"),
    [
        ("qwen2.5", '{"name": "bash", "arguments": {"script": "ls"', "not valid JSON"),
        ("qwen2.5", '{"name": "rm", "arguments": {}}', "no tool 'rm'; the tools are bash, finish"),
        ("qwen2.5", '{"name": "bash", "arguments": [1]}', "is not an object"),
        ("qwen2.5", '{"name": "bash", "name": "bash"}', "given twice"),
        ("qwen2.5", '{"name": "bash", "arguments": {"seconds": NaN}}', "NaN"),
        ("qwen2.5", "", "there is no call"),
        ("qwen2.5", "7", "not an object"),
        ("qwen3-coder", "<function=bash>\nls\n</function>", "is not a <parameter=NAME>"),
        ("qwen3-coder", "<function=rm>\n</function>", "no tool 'rm'"),
    ],
)
def test_a_malformed_call_stays_in_the_content_and_says_what_is_wrong(
    name: str, body: str, sentence: str
) -> None:
    text = f"So: <tool_call>{body}</tool_call> done"
    message, faults = read_text(name, text)
    assert message == Message(role="assistant", content=text)
    assert len(faults) == 1
    assert sentence in faults[0]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("mistral-args", "[TOOL_CALLS]bash[ARGS]{", "not valid JSON"),
        ("mistral-args", "[TOOL_CALLS]", "no call after"),
        ("mistral-args", "[TOOL_CALLS]do it", "not a name with its arguments"),
        ("deepseek-v3", "<｜tool▁calls▁begin｜>bash<｜tool▁calls▁end｜>", "not a whole call"),
        ("phi", "<|tool_call|>[1]<|/tool_call|>", "not an object"),
        ("gemma", "```tool_code\nbash(x)\n```", "is not a plain value"),
        ("gemma", "```tool_code\nbash(1, 2, 3)\n```", "takes 2 arguments"),
        ("gemma", "```tool_code\nbash(\n```", "not Python"),
        ("gemma", "```tool_code\nimport os\n```", "not a call"),
        ("gemma", "```tool_code\nbash('a', script='b')\n```", "not given once"),
        ("llama3", '{"name": "rm", "parameters": {}}', "no tool 'rm'"),
        ("llama3", "<|python_tag|>print(1)", "not valid JSON"),
        ("llama3", as_json(ToolCall(name="finish")) * 2, "only one tool"),
    ],
)
def test_malformed_calls_of_other_forms_stay_too(name: str, text: str, sentence: str) -> None:
    message, faults = read_text(name, text)
    assert message == Message(role="assistant", content=text)
    assert len(faults) == 1
    assert sentence in faults[0]


def test_a_whole_call_after_a_broken_one_is_read() -> None:
    good = '<tool_call>{"name": "finish", "arguments": {}}</tool_call>'
    for bad in ("<tool_call>{oops}</tool_call>", "<tool_call>{oops ", '<tool_call>{"a</tool_call>'):
        message, faults = read_text("qwen2.5", bad + good)
        assert [call.name for call in message.tool_calls] == ["finish"]
        assert message.content == bad.rstrip()
        assert len(faults) == 1


def test_without_tools_nothing_is_a_call() -> None:
    codec = codec_of("qwen2.5")
    text = '<tool_call>{"name": "finish", "arguments": {}}</tool_call>'
    ids = sampled(codec, text, random.Random(0))
    assert codec.read(ids) == Message(role="assistant", content=text)


@pytest.mark.parametrize(
    ("name", "text", "arguments"),
    [
        ("llama3", '{"name": "bash", "parameters": {"script": "ls"}}', {"script": "ls"}),
        ("llama3", '<|python_tag|>bash.call(script="ls")', {"script": "ls"}),
        ("llama3", '<|python_tag|>{"name": "bash", "parameters": {}}', {}),
        ("mistral", '[TOOL_CALLS] [{"name": "bash", "arguments": "{}"}]', {}),
        ("mistral-args", '[TOOL_CALLS]bash[CALL_ID]x1[ARGS]{"seconds": 1}', {"seconds": 1}),
        (
            "gemma",
            "```tool_code\nprint(bash('ls', seconds=2))\n```",
            {"script": "ls", "seconds": 2},
        ),
        (
            "gemma",
            '```json\n{"name": "bash", "parameters": {"script": "ls"}}\n```',
            {"script": "ls"},
        ),
        (
            "deepseek-v3",
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>{"script": "ls"}'
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            {"script": "ls"},
        ),
        ("chatml", ' {"name": "bash", "arguments": {"script": "ls"}} ', {"script": "ls"}),
        (
            "qwen2.5",
            '<tool_call>{"type": "function", "function": {"name": "bash", "arguments": {}}}',
            {},
        ),
        (
            "qwen3-coder",
            "<tool_call>\n<function=bash>\n<parameter=script>\nls\n\n</parameter>\n"
            "<parameter=seconds>\n5\n</parameter>\n</function>\n</tool_call>",
            {"script": "ls\n", "seconds": 5},
        ),
    ],
)
def test_forms_of_calls(name: str, text: str, arguments: dict[str, Any]) -> None:
    message, faults = read_text(name, text)
    called = ToolCall(name="bash", arguments=arguments, id="call_0")
    assert message == Message(role="assistant", content="", tool_calls=(called,))
    assert faults == []


@pytest.mark.parametrize("name", ["llama3", "chatml"])
def test_json_that_is_no_call_is_an_answer_and_is_not_held_back(name: str) -> None:
    text = '{"answer": 42}'
    assert read_text(name, text) == (Message(role="assistant", content=text), [])
    reader = codec_of(name).reader(TOOLS)
    told = reader.feed(text[:-1].encode())
    assert "".join(delta.text for delta in told) == text[:-1]


def test_thinking_that_never_ended_is_reasoning() -> None:
    for name, opening in (("qwen3", "<think>\n"), ("qwen3-thinking", ""), ("deepseek-r1", "")):
        message, _ = read_text(name, opening + "so <tool_call>{}</tool_call> I")
        expected = Message(role="assistant", content="", reasoning="so <tool_call>{}</tool_call> I")
        assert message == expected


def test_a_template_that_knows_no_thinking_leaves_it_in_the_content() -> None:
    text = "<think>\nhm\n</think>\n\nYes."
    assert read_text("qwen2.5", text)[0] == Message(role="assistant", content=text)


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_in_a_plain_text_every_tag_is_content_however_its_tokens_come(name: str) -> None:
    codec, dice = codec_of(name), random.Random(name)
    text = "<think>\nSo.\n</think>\n\n <tool_call>{}</tool_call> {"
    ids = sampled(codec, text, dice)
    reader = codec.reader(TOOLS, is_plain=True)
    deltas = [delta for chunk in chunks(ids, dice) for delta in reader.feed(chunk)]
    told = put_together([*deltas, *reader.end()])
    assert told == reader.message() == Message(role="assistant", content=text)


def test_tags_in_the_middle_of_an_answer_are_content() -> None:
    text = "Write <think>this</think>."
    assert read_text("qwen3", text)[0] == Message(role="assistant", content=text)


def test_special_tokens_that_mean_nothing_here_are_left_out() -> None:
    codec = codec_of("mistral")
    pad = codec._tokenizer.convert_tokens_to_ids("<|pad|>")
    call = sampled(codec, '[TOOL_CALLS] [{"name": "finish"}]', random.Random(0))
    message = codec.read([pad, *call, codec.turn_end_id], [BASH, *TOOLS])
    assert [c.name for c in message.tool_calls] == ["finish"]
    assert message.content == ""


def test_a_call_beyond_the_limit_is_not_parsed() -> None:
    reader = codec_of("chatml").reader(TOOLS)
    body = json.dumps({"name": "bash", "arguments": {"script": "x" * 100_001}})
    reader.feed(f"<tool_call>{body}</tool_call>".encode())
    reader.end()
    assert "characters long; 100000 are allowed" in reader.faults[0]


def test_thinking_between_other_tags_is_read_where_the_template_has_those() -> None:
    tokenizer = tokenizer_of(replace(FAMILIES["chatml"], template="{# [THINK] #}" + CHAT_TEMPLATE))
    codec = TemplateCodec(tokenizer)
    message = codec.read(tokenizer.encode("[THINK]hm[/THINK]Yes."))
    assert message == Message(role="assistant", content="Yes.", reasoning="hm")


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_of_a_call_that_is_cut_off_no_markup_becomes_content(name: str) -> None:
    family, codec = ALL_FAMILIES[name], codec_of(name)
    call = ToolCall(name="bash", arguments={"script": "ls -l /tmp"}, id="call_0")
    # Some models write content or calls in a turn, and not both.
    for words in ("Let me see.", ""):
        text = family.text(Message(role="assistant", content=words, tool_calls=(call,)))
        if not codec.read(codec._renderer.encode(text), TOOLS).tool_calls:
            continue
        begins = text.index(words) + len(words)
        cut = whole = 0
        for end in range(begins, len(text)):
            reader = codec.reader(TOOLS)
            deltas = reader.feed(codec._renderer.encode(text[:end]))
            deltas = [*deltas, *reader.end(is_cut=True)]
            message = reader.message()
            beyond = message.content.removeprefix(words).strip()
            assert len(beyond) < 3 or not words, (text[:end], message.content)
            told = "".join(d.text for d in deltas if d.kind == "content")
            assert told == message.content
            names = [d.text for d in deltas if d.kind == "call"]
            if reader.cut_call is not None:
                cut += 1
                assert names == ["bash"]
                arguments = "".join(d.text for d in deltas if d.kind == "arguments")
                assert arguments == reader.cut_call.arguments
                assert not message.tool_calls
            whole += bool(message.tool_calls)
        assert cut or whole
