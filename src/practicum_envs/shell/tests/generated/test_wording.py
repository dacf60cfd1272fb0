"""How instructions are put together."""

import random

import pytest

from practicum_envs.shell.generated.material import and_list, instruct, mode_text

MANY = range(200)


@pytest.mark.parametrize(
    ("items", "text"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_a_list_in_a_sentence(items: list[str], text: str) -> None:
    assert and_list(items) == text


def test_a_mode_is_written_in_several_ways() -> None:
    found = {mode_text(0o751, random.Random(n)) for n in MANY}
    assert found == {
        "751",
        "751 (octal)",
        "rwxr-x--x (as ls shows it)",
        "u=rwx,g=rx,o=x (symbolic)",
        "owner: read, write and execute; group: read and execute; others: execute only",
    }


def test_no_permission_is_said_too() -> None:
    found = {mode_text(0o400, random.Random(n)) for n in MANY}
    assert "owner: read only; group: nothing; others: nothing" in found
    assert "u=r,g=,o= (symbolic)" in found


def test_every_sentence_is_told_in_its_order() -> None:
    sentences = ["Make this.", "The file must be that.", "Remove it."]
    for n in MANY:
        text = instruct(sentences, random.Random(n)).lower()
        places = [text.index(sentence.lower()) for sentence in sentences]
        assert places == sorted(places)


def test_one_step_needs_no_order() -> None:
    found = {instruct(["Make this."], random.Random(n)) for n in MANY}
    assert all(text.endswith("Make this.") and "order" not in text for text in found)
    assert len(found) > 3


def test_the_place_is_named_only_where_it_is_known() -> None:
    told = [instruct(["Make this."], random.Random(n), "/srv/x") for n in MANY]
    assert 0 < sum("/srv/x" in text for text in told) < len(told)
    assert not any("None" in instruct(["Make this."], random.Random(n)) for n in MANY)


def test_a_sentence_that_ends_with_a_text_has_a_line_of_its_own() -> None:
    for n in MANY:
        text = instruct(["Write this line: a b", "Remove it."], random.Random(n))
        assert any(line.endswith("Write this line: a b") for line in text.splitlines())
