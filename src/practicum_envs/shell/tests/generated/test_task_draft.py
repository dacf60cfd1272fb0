"""What steps share: nothing asserted is changed again, nothing is named twice."""

import random

import pytest

from practicum_envs.shell.generated.assertions import Content, Unchanged
from practicum_envs.shell.generated.material import Names
from practicum_envs.shell.generated.task_draft import TaskDraft, TaskFile


@pytest.fixture(params=range(20))
def draft(request: pytest.FixtureRequest) -> TaskDraft:
    return TaskDraft("train", random.Random(request.param))


def test_a_locked_aspect_is_not_given_out_again(draft: TaskDraft) -> None:
    first = draft.file("mode")
    assert "mode" in first.locked
    assert all(draft.file("mode") is not first for _ in range(5))


def test_what_was_asserted_is_not_moved_away(draft: TaskDraft) -> None:
    made = draft.add(TaskFile("/a", "text\n", locked={"content"}))
    assert all(draft.file("path") is not made for _ in range(5))


def test_what_is_gone_is_not_given_out(draft: TaskDraft) -> None:
    gone = draft.file("path")
    draft.forget(gone)
    assert all(draft.file() is not gone for _ in range(5))


def test_later_steps_work_on_what_earlier_ones_made() -> None:
    reused = 0
    for seed in range(100):
        draft = TaskDraft("train", random.Random(seed))
        made = draft.add(TaskFile("/a", "text\n", locked={"content"}))
        reused += draft.file("mode") is made
    assert reused > 50


def test_given_files_must_stay_and_made_ones_may_lack_a_line_end(draft: TaskDraft) -> None:
    assert isinstance(draft.setup_file("a\n").kept, Unchanged)
    assert isinstance(TaskFile("/a", "a\n").kept, Content)


def test_a_users_locked_aspect_is_not_given_out_again(draft: TaskDraft) -> None:
    first = draft.user("shell")
    assert all(draft.user("shell") is not first for _ in range(5))
    group = draft.group("members")
    assert all(draft.group("members") is not group for _ in range(5))


def test_paths_with_blanks_are_always_set_off(draft: TaskDraft) -> None:
    assert draft.show("/a b") in {'"/a b"', "'/a b'", "`/a b`"}


def test_the_two_sides_share_no_words() -> None:
    def words(split: str) -> set[str]:
        rng = random.Random(split)
        drawn: set[str] = set()
        for _ in range(400):
            names = Names(split, rng)  # type: ignore[arg-type]
            drawn |= {names.word(), *names.file("").replace("_", "-").split("-")}
        return {word for word in drawn if word.isalpha()}

    assert words("train")
    assert not words("train") & words("heldout")
