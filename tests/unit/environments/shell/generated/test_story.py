"""What steps share: nothing asserted is changed again, nothing is named twice."""

import random

import pytest

from practicum.environments.shell.generated.assertions import Content, Unchanged
from practicum.environments.shell.generated.names import Names
from practicum.environments.shell.generated.story import Story, Thing


@pytest.fixture(params=range(20))
def story(request: pytest.FixtureRequest) -> Story:
    return Story("train", random.Random(request.param))


def test_a_locked_aspect_is_not_given_out_again(story: Story) -> None:
    first = story.file("mode")
    assert "mode" in first.locked
    assert all(story.file("mode") is not first for _ in range(5))


def test_what_was_asserted_is_not_moved_away(story: Story) -> None:
    made = story.add(Thing("/a", "text\n", locked={"content"}))
    assert all(story.file("place") is not made for _ in range(5))


def test_what_is_gone_is_not_given_out(story: Story) -> None:
    gone = story.file("place")
    story.forget(gone)
    assert all(story.file() is not gone for _ in range(5))


def test_later_steps_work_on_what_earlier_ones_made() -> None:
    reused = 0
    for seed in range(100):
        story = Story("train", random.Random(seed))
        made = story.add(Thing("/a", "text\n", locked={"content"}))
        reused += story.file("mode") is made
    assert reused > 50


def test_given_files_must_stay_and_made_ones_may_lack_a_line_end(story: Story) -> None:
    assert isinstance(story.give_file("a\n").kept, Unchanged)
    assert isinstance(Thing("/a", "a\n").kept, Content)


def test_a_users_locked_aspect_is_not_given_out_again(story: Story) -> None:
    first = story.user("shell")
    assert all(story.user("shell") is not first for _ in range(5))
    group = story.group("members")
    assert all(story.group("members") is not group for _ in range(5))


def test_paths_with_blanks_are_always_set_off(story: Story) -> None:
    assert story.show("/a b") in {'"/a b"', "'/a b'", "`/a b`"}


def test_the_two_sides_share_no_words() -> None:
    def words(split: str) -> set[str]:
        chance = random.Random(split)
        drawn: set[str] = set()
        for _ in range(400):
            names = Names(split, chance)  # type: ignore[arg-type]
            drawn |= {names.word(), *names.file("").replace("_", "-").split("-")}
        return {word for word in drawn if word.isalpha()}

    assert words("train")
    assert not words("train") & words("heldout")
