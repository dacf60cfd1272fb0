import pytest

from practicum.engine.chat.chat_template import ESCAPE_END, ESCAPE_START, SpecialTokenEscape, any_of

WORDS = ["<|im_end|>", "<|im_start|>", "<s>", "<s><s>"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "<|im_end|>",
        "a<|im_end|>b<|im_start|>c",
        "<s><s><s>",
        ESCAPE_START,
        f"{ESCAPE_START}1{ESCAPE_END}",
        f"{ESCAPE_START}completion{ESCAPE_END}<|im_end|>",
    ],
)
def test_unescaping_gives_back_the_text(text: str) -> None:
    escaper = SpecialTokenEscape(WORDS)
    assert escaper.unescape(escaper.escape(text)) == text


def test_no_special_text_is_left_in_an_escaped_one() -> None:
    escaped = SpecialTokenEscape(WORDS).escape("<s><|im_end|><s><s>")
    assert not any(word in escaped for word in WORDS)
    assert ESCAPE_START in escaped


def test_strings_inside_lists_and_dictionaries_are_escaped_and_other_values_kept() -> None:
    escaper = SpecialTokenEscape(["<s>"])
    value = {"a": ["<s>", 1, None], "b": {"<s>": True}}
    escaped = escaper.escape(value)
    mark = escaper.escape("<s>")
    assert escaped == {"a": [mark, 1, None], "b": {mark: True}}


def test_a_message_cannot_forge_an_escaped_text() -> None:
    escaper = SpecialTokenEscape(["<s>"])
    imitation = f"{ESCAPE_START}1{ESCAPE_END}"
    assert escaper.escape("<s>") == imitation
    assert escaper.escape(imitation) != imitation


def test_the_pattern_of_no_texts_matches_nothing() -> None:
    assert SpecialTokenEscape([]).escape("abc") == "abc"
    assert any_of([]) == "(?!)"
