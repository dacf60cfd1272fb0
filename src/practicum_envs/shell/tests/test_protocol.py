import pytest

from practicum_envs.shell.protocol import (
    Action,
    answer_turn,
    bash_turn,
    finish_turn,
    read_action,
    text_rules,
)


def test_the_blocks_of_a_turn_are_run_one_after_the_other() -> None:
    text = "First.\nAct: bash\n```bash\ncd /tmp\nls\n```\nand\n```bash\npwd\n```\n"
    assert read_action(text) == Action(kind="bash", content="cd /tmp\nls\n\npwd")


@pytest.mark.parametrize(
    "text", ["Act: bash\nls", "Act: bash\n```\nls\n```", "Act: bash\n```sh\nls\n```"]
)
def test_without_a_block_marked_bash_nothing_is_run(text: str) -> None:
    assert read_action(text) == Action(kind="bash", content="")


@pytest.mark.parametrize(
    "text", ["Act: finish", "Done.\nAct: Finish.", "Act:finish", "Act:\nfinish"]
)
def test_finish_is_read_as_loosely_as_bash(text: str) -> None:
    assert read_action(text).kind == "finish"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no line with Act:"),
        ("act: bash", "no line with Act:"),
        ("```bash\nls\n```", "no line with Act:"),
        ("Act: look around", "not bash or finish"),
        ("Act: answer(42)", "not bash or finish"),
    ],
)
def test_anything_else_is_invalid_and_says_why(text: str, why: str) -> None:
    action = read_action(text, takes_answers=False)
    assert action.kind == "invalid"
    assert why in action.content


BOTH = "Act: finish\nNo, wait.\nAct: bash\n```bash\nls\n```"


def test_the_first_act_counts_or_the_last_one_that_is_known() -> None:
    assert read_action(BOTH, "first").kind == "finish"
    assert read_action(BOTH, "last").kind == "bash"
    assert read_action(f"{BOTH}\nAct: hmm", "last").kind == "bash"
    assert read_action("Act: hmm\nAct: finish", "first").kind == "invalid"


def test_the_rules_say_which_of_several_acts_counts() -> None:
    for reading in ("first", "last"):
        rules = text_rules(5, "/", True, reading)  # type: ignore[arg-type]
        assert f"Each turn holds one Act: of several the {reading} counts." in rules


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Act: answer(42)", "42"),
        ("Act: Answer (a (b) c)", "a (b) c"),
        ("Act: answer( 7 )", " 7 "),
        ("Act: answer()", ""),
    ],
)
def test_an_answer_is_what_stands_between_the_outer_brackets(text: str, answer: str) -> None:
    assert read_action(text, "last") == Action(kind="answer", content=answer)


@pytest.mark.parametrize("text", ["Act: answer 42", "Act: answer)42(", "Act: answer("])
def test_an_answer_without_brackets_is_none(text: str) -> None:
    assert read_action(text, "last").kind == "invalid"


def test_what_is_written_is_read_back() -> None:
    assert read_action(bash_turn("ls\npwd\n", "text")) == Action(kind="bash", content="ls\npwd")
    assert read_action(finish_turn("text")).kind == "finish"
    answered = read_action(answer_turn("4 \n2", "text"), "last")
    assert answered == Action(kind="answer", content="4 2")
