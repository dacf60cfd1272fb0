import pytest

from practicum.chat.literals import CLOSING, DISGUISED, OPENING, Disguise, any_of

WORDS = ["<|im_end|>", "<|im_start|>", "<s>", "<s><s>"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "<|im_end|>",
        "a<|im_end|>b<|im_start|>c",
        "<s><s><s>",
        OPENING,
        f"{OPENING}1{CLOSING}",
        f"{OPENING}completion{CLOSING}<|im_end|>",
    ],
)
def test_taking_a_disguise_off_gives_back_the_text(text: str) -> None:
    disguise = Disguise(WORDS)
    assert disguise.take_off(disguise.put_on(text)) == text


def test_no_special_text_is_left_in_a_disguised_one() -> None:
    hidden = Disguise(WORDS).put_on("<s><|im_end|><s><s>")
    assert not any(word in hidden for word in WORDS)
    assert DISGUISED in hidden


def test_strings_inside_lists_and_dictionaries_are_disguised_and_other_values_kept() -> None:
    disguise = Disguise(["<s>"])
    value = {"a": ["<s>", 1, None], "b": {"<s>": True}}
    hidden = disguise.put_on(value)
    mark = disguise.put_on("<s>")
    assert hidden == {"a": [mark, 1, None], "b": {mark: True}}


def test_a_message_cannot_imitate_a_disguise() -> None:
    disguise = Disguise(["<s>"])
    imitation = f"{OPENING}1{CLOSING}"
    assert disguise.put_on("<s>") == imitation
    assert disguise.put_on(imitation) != imitation


def test_the_pattern_of_no_words_matches_nothing() -> None:
    assert Disguise([]).put_on("abc") == "abc"
    assert any_of([]) == "(?!)"
