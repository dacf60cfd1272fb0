from pathlib import Path

import pytest

from practicum.cli.label import Answer, from_file, from_keys, from_lines
from practicum.core.errors import UserError


def test_a_file_gives_an_answer_for_each_line(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_text("good\n\n# a remark\nB wrong folder\nnote looks odd\ns\nu\nt-7 bad twice\nq\n")
    assert list(from_file(path)) == [
        Answer(kind="good"),
        Answer(kind="bad", note="wrong folder"),
        Answer(kind="note", note="looks odd"),
        Answer(kind="skip"),
        Answer(kind="undo"),
        Answer(kind="bad", note="twice", episode_id="t-7"),
        Answer(kind="quit"),
    ]


@pytest.mark.parametrize("line", ["maybe", "t-7", "t-7 perhaps", "t-7 skip"])
def test_a_line_that_is_no_answer_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_text(f"good\n{line}\n")
    with pytest.raises(UserError, match=r"line 2: .*write good, bad, skip"):
        list(from_file(path))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        list(from_file(tmp_path / "nowhere"))


def test_typed_lines_are_asked_for_again_until_they_are_answers() -> None:
    lines, complaints = iter(["what\n", "g\n", ""]), list[str]()
    assert list(from_lines(lambda: next(lines), complaints.append)) == [Answer(kind="good")]
    assert len(complaints) == 1


def test_keys_are_answers_and_other_keys_are_not() -> None:
    keys = iter("xG?nb")
    answers = from_keys(lambda: next(keys), lambda: "because")
    assert next(answers) == Answer(kind="good")
    assert next(answers) == Answer(kind="note", note="because")
    assert next(answers) == Answer(kind="bad")
