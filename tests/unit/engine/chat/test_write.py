"""An assistant's turn that was recorded as text, in the tokens the model would have sampled."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.unit.engine.chat.families import codec_of
from tokenizers import AddedToken
from transformers import AutoTokenizer

from practicum.core.tool_calls import read_tool_call, write_tool_call
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.engine.chat.chat_template import ESCAPE_END, ESCAPE_START
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.models.download import silent
from practicum.engine.models.loading import locate_model
from practicum.engine.models.tiny import CHAT_TEMPLATE, build_tiny_tokenizer

HEADERS = (
    "{% for m in messages %}{{ '<|start|>' + m['role'] + '<|stop|>\n\n' }}"
    "{{ m['content'] + '<|eot|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant<|stop|>\n\n' }}{% endif %}"
)
SPACED = (
    "{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + m['content'] + ' ' + eos_token }}{% endif %}{% endfor %}"
)
PLAIN = (
    "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
THINKING = CHAT_TEMPLATE.replace(
    "message['content']",
    "('<think>\n' + message['reasoning_content'] + '\n</think>\n\n'"
    " if message['reasoning_content'] else '') + message['content']",
)
CALLING = (
    "{% if tools %}{{ '<|im_start|>system\n' }}{% for t in tools %}{{ t | tojson }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] }}"
    "{% if m['content'] %}{{ '\n' + m['content'] }}{% endif %}"
    "{% for c in m['tool_calls'] %}{{ '\n[CALL]' + c['function']['name'] + ' ' }}"
    "{{ c['function']['arguments'] | tojson }}{{ '[/CALL]' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
OPENS_OTHERWISE = CHAT_TEMPLATE.replace("assistant\n' }}", "assistant\n<think>\n' }}")

WORDS = ("divide", "3x + 7 = 16", "both sides,", "by -2/5", "é漢🙂", "12345", "x\n\n9", "  (", ".")
BASH = ToolSpec(
    name="bash", parameters={"type": "object", "properties": {"script": {"type": "string"}}}
)


def tokenizer_with(template: str, tokens: Sequence[str] = ()) -> Any:
    tokenizer = build_tiny_tokenizer()
    tokenizer.add_tokens([AddedToken(t, special=True) for t in tokens], special_tokens=True)
    tokenizer.chat_template = template
    return tokenizer


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "chatml": lambda: tokenizer_with(CHAT_TEMPLATE),
    "headers": lambda: tokenizer_with(HEADERS, ("<|start|>", "<|stop|>", "<|eot|>")),
    "spaced": lambda: tokenizer_with(SPACED),
    "calling": lambda: tokenizer_with(CALLING),
    "smollm2": lambda: AutoTokenizer.from_pretrained(locate_model("smollm2-135m", silent)),
}


def user(text: str) -> Message:
    return Message(role="user", content=text)


def said(text: str, *calls: ToolCall, reasoning: str = "") -> Message:
    return Message(role="assistant", content=text, tool_calls=calls, reasoning=reasoning)


def rendering(tokenizer: Any, conversation: list[dict[str, Any]]) -> list[int]:
    text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    return list(tokenizer.encode(text, add_special_tokens=False))


@pytest.mark.parametrize(
    "name",
    ["chatml", "headers", "spaced", "calling", pytest.param("smollm2", marks=pytest.mark.smollm2)],
)
def test_turns_written_one_by_one_give_the_template_s_rendering_of_the_whole(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    codec = TemplateCodec(tokenizer)
    for seed in range(20):
        dice = random.Random(seed)
        texts = [
            "ok " + " ".join(dice.choices(WORDS, k=dice.randint(1, 8)))
            for _ in range(2 * dice.randint(1, 4) + 1)
        ]
        ids = list(codec.open([user(texts[0])]))
        for answer, observation in zip(texts[1::2], texts[2::2], strict=True):
            written = codec.write(said(answer))
            assert codec.decode(written).strip() == answer.strip()
            ids += [*written, *codec.extend([user(observation)], ended_turn=True)]
        roles = ["user", "assistant"] * len(texts)
        whole = [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)]
        assert ids == rendering(tokenizer, whole)


@pytest.mark.parametrize("name", ["chatml", "headers", "calling"])
def test_what_was_said_stays_plain_text_and_comes_back_as_it_was(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    codec = TemplateCodec(tokenizer)
    end = tokenizer.decode([codec.turn_end_id])
    nasty = f"  a{end}b<|im_start|>system {ESCAPE_START}1{ESCAPE_END} c \n"
    written = codec.write(said(nasty))
    specials = {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
    assert [i for i in written if i in specials] == [codec.turn_end_id]
    assert written[-1] == codec.turn_end_id
    assert codec.decode(written) == nasty


def test_a_template_without_a_closing_token_ends_the_turn_with_the_end_of_text() -> None:
    tokenizer = tokenizer_with(PLAIN)
    codec = TemplateCodec(tokenizer)
    assert list(codec.write(said("yes\n"))) == [*b"yes\n", tokenizer.eos_token_id]


def test_a_template_that_opens_turns_otherwise_gets_what_was_said() -> None:
    codec = TemplateCodec(tokenizer_with(OPENS_OTHERWISE))
    assert list(codec.write(said("yes"))) == [*b"yes", codec.turn_end_id]


@pytest.mark.parametrize("text", ["", "Let me look."])
def test_tool_calls_are_written_as_the_template_writes_them(text: str) -> None:
    tokenizer = TOKENIZERS["calling"]()
    codec = TemplateCodec(tokenizer)
    calls = [ToolCall(name="bash", arguments={"script": s}, id=s) for s in ("ls", "pwd")]
    ids = [*codec.open([user("go")]), *codec.write(said(text, *calls))]
    ids += codec.extend([Message(role="tool", content="a b")], ended_turn=True)
    as_read = [{"function": {"name": c.name, "arguments": dict(c.arguments)}} for c in calls]
    assert ids == rendering(
        tokenizer,
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": text, "tool_calls": as_read},
            {"role": "tool", "content": "a b"},
        ],
    )


def test_arguments_of_a_call_never_end_the_turn() -> None:
    codec = TemplateCodec(TOKENIZERS["calling"]())
    written = codec.write(said("", ToolCall(name="bash", arguments={"script": "<|im_end|>"})))
    assert written.count(codec.turn_end_id) == 1
    assert '{"script": "<|im_end|>"}' in codec.decode(written)


def test_a_template_without_tools_gets_calls_in_the_form_that_the_prompt_asks_for() -> None:
    codec = TemplateCodec(TOKENIZERS["chatml"]())
    call = ToolCall(name="bash", arguments={"script": "ls <|im_end|>"})
    text = codec.decode(codec.write(said("Look.", call)))
    assert text.startswith("Look.\n<tool_call>")
    assert read_tool_call(text, [BASH]) == call


def test_reasoning_is_written_where_the_template_has_a_place_for_it() -> None:
    message = said("4", reasoning="2 + 2 <|im_end|>")
    knows, does_not = (TemplateCodec(tokenizer_with(t)) for t in (THINKING, CHAT_TEMPLATE))
    assert knows.decode(knows.write(message)) == "<think>\n2 + 2 <|im_end|>\n</think>\n\n4"
    assert knows.write(message).count(knows.turn_end_id) == 1
    assert does_not.decode(does_not.write(message)) == "4"
    assert knows.decode(knows.write(said("4"))) == "4"


def test_reasoning_goes_before_the_words_where_the_prompt_has_begun_it() -> None:
    codec = TemplateCodec(tokenizer_with(OPENS_OTHERWISE))
    message = said("4", reasoning="2 + 2 <|im_end|>")
    written = codec.write(message)
    assert codec.decode(written) == "2 + 2 <|im_end|>\n</think>\n\n4"
    assert written.count(codec.turn_end_id) == 1
    assert codec.read(written) == message


def test_reasoning_stands_in_the_content_where_the_template_leaves_it_there() -> None:
    codec = TemplateCodec(tokenizer_with("{# <think> #}" + CHAT_TEMPLATE))
    message = said("4", reasoning="2 + 2")
    assert codec.decode(codec.write(message)) == "<think>\n2 + 2\n</think>\n\n4"
    assert codec.read(codec.write(message)) == message


def test_calls_that_a_template_takes_one_at_a_time_are_written_as_its_prompts_show_them() -> None:
    codec = codec_of("llama3")
    calls = [ToolCall(name="bash", arguments={"script": s}) for s in ("ls", "pwd")]
    one, two = (codec.decode(codec.write(said("", *calls[:count]))) for count in (1, 2))
    assert one == '{"name": "bash", "parameters": {"script": "ls"}}'
    assert two == "\n".join(map(write_tool_call, calls))
    shown = codec.decode(codec.prompt([user("go"), said("", *calls), user("and?")]))
    assert two in shown
