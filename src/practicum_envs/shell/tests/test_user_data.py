import json
from itertools import islice
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.core.task import Task
from practicum.environments.selection import shuffled
from practicum_envs.shell.tests.test_lifelong import make_row, write
from practicum_envs.shell.user_data import load_tasks


@pytest.fixture
def tasks(tmp_path: Path) -> list[Task]:
    path = write(tmp_path, {str(n): make_row(n) for n in range(200)})
    return load_tasks(path, "shell", 0.3)


def test_about_the_share_asked_for_is_held_out(tasks: list[Task]) -> None:
    assert 40 <= sum(task.split == "heldout" for task in tasks) <= 80


def test_a_task_stays_on_its_side_when_others_come_and_go(
    tasks: list[Task], tmp_path: Path
) -> None:
    path = write(tmp_path, {f"x{n}": make_row(n) for n in range(150, 250)})
    before = {task.instruction: task.split for task in tasks}
    after = {task.instruction: task.split for task in load_tasks(path, "shell", 0.3)}
    shared = before.keys() & after.keys()
    assert len(shared) == 50
    assert {one: before[one] for one in shared} == {one: after[one] for one in shared}


def test_training_tasks_come_again_in_another_order(tasks: list[Task]) -> None:
    train = [task for task in tasks if task.split == "train"]
    drawn = list(islice(shuffled(tasks, "train", 0), 2 * len(train)))
    first, second = drawn[: len(train)], drawn[len(train) :]
    assert (
        sorted(t.id for t in first) == sorted(t.id for t in second) == sorted(t.id for t in train)
    )
    assert first != second
    assert list(islice(shuffled(tasks, "train", 0), 9)) == drawn[:9]
    assert list(islice(shuffled(tasks, "train", 1), 9)) != drawn[:9]


def test_held_out_tasks_come_once(tasks: list[Task]) -> None:
    drawn = list(shuffled(tasks, "heldout", 0))
    assert len({t.id for t in drawn}) == len(drawn) == sum(t.split == "heldout" for t in tasks)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "is not valid JSON"),
        ("{}", "holds entries of neither kind"),
        ("[]", "holds entries of neither kind"),
        ('{"a": 1}', "holds entries of neither kind"),
        ("3", "holds entries of neither kind"),
    ],
)
def test_a_file_without_entries_is_said_in_a_sentence(
    content: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(UserError) as refused:
        load_tasks(path, "shell", 0.3)
    assert str(path) in str(refused.value)
    assert why in str(refused.value)


def test_bytes_that_are_no_text_and_empty_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="cannot be read"):
        load_tasks(tmp_path / "x.json", "shell", 0.3)
    with pytest.raises(UserError, match="there are no tasks in"):
        load_tasks(tmp_path, "shell", 0.3)


def test_two_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        (tmp_path / "scripts" / name).mkdir(parents=True)
    row = {"description": "?", "evaluation": {"match": "x"}}
    (tmp_path / "data" / "a" / "x.json").write_text(json.dumps([row]))
    (tmp_path / "data" / "a" / "x.jsonl").write_text(json.dumps(row))
    with pytest.raises(UserError, match="two entries that are called ab-a-x-0"):
        load_tasks(tmp_path, "shell", 0.3)
