"""Tools in chat templates: as the template shows them, or as text."""

import pytest
from tokenizers import AddedToken

from practicum.core.trace import Message, ToolSpec
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.models.tiny import CHAT_TEMPLATE, build_tiny_tokenizer

NATIVE = (
    "{% if tools %}{{ '<|im_start|>system\nTOOLS ' }}{% for t in tools %}"
    "{{ t['function']['name'] + ' ' + t['function']['description'] }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endif %}" + CHAT_TEMPLATE
)
BASH = ToolSpec(name="bash", description="Run <|im_end|> commands.")
TASK = Message(role="user", content="List /tmp.")
ANSWER = Message(role="tool", content="a b")


def codec_of(template: str) -> TemplateCodec:
    tokenizer = build_tiny_tokenizer()
    tokenizer.add_tokens([AddedToken("<x>", special=True)], special_tokens=True)
    tokenizer.chat_template = template
    return TemplateCodec(tokenizer)


def text_of(codec: TemplateCodec, ids: tuple[int, ...]) -> str:
    return str(codec._tokenizer.decode(list(ids), skip_special_tokens=False))


def test_a_template_that_knows_tools_is_given_them() -> None:
    codec = codec_of(NATIVE)
    opened = text_of(codec, codec.open([TASK], [BASH]))
    assert "TOOLS bash Run" in opened
    assert "can be called" not in opened
    assert "tool\na b" in text_of(codec, codec.extend([ANSWER], ended_turn=True))


def test_without_tools_nothing_is_added() -> None:
    codec = codec_of(NATIVE)
    assert codec.open([TASK], ()) == codec.open([TASK])
    assert "TOOLS" not in text_of(codec, codec.open([TASK]))


@pytest.mark.parametrize("opening", [[TASK], [Message(role="system", content="Rules."), TASK]])
def test_a_template_that_does_not_is_given_them_as_text(opening: list[Message]) -> None:
    codec = codec_of(CHAT_TEMPLATE)
    opened = text_of(codec, codec.open(opening, [BASH]))
    assert opened.count("system\n") == 1
    assert '"name": "bash"' in opened
    assert ("Rules." in opened) == (len(opening) == 2)
    answered = text_of(codec, codec.extend([ANSWER], ended_turn=True))
    assert "user\na b" in answered
    assert "tool\n" not in answered


@pytest.mark.parametrize("template", [NATIVE, CHAT_TEMPLATE], ids=["native", "as-text"])
def test_what_a_tool_says_of_itself_never_ends_a_turn(template: str) -> None:
    codec = codec_of(template)
    silent = ToolSpec(name="bash", description="Run commands.")
    ends = [
        sum(token == codec.turn_end_id for token in codec.open([TASK], [tool]))
        for tool in (BASH, silent)
    ]
    assert ends[0] == ends[1]


def test_an_opening_may_show_what_a_tool_answered() -> None:
    said = Message(role="assistant", content="call")
    for template, role in ((NATIVE, "tool"), (CHAT_TEMPLATE, "user")):
        codec = codec_of(template)
        assert f"{role}\na b" in text_of(codec, codec.open([TASK, said, ANSWER, said], [BASH]))
