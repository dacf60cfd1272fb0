import json
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import UserError
from practicum.core.task import Task
from practicum_envs.shell.plan_of_task import Plan
from practicum_envs.shell.user_data import load_tasks

COUNT: dict[str, Any] = {
    "description": "How many files are there?",
    "create": {"local": "default", "init": {"file": "init/make.sh"}},
    "evaluation": {
        "check": [None, {"language": "python", "file": "check/same.py"}],
        "example": {"code": "ls | wc -l"},
    },
    "labels": ["file"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder laid out as AgentBench's OS data is."""
    for name in ("data/1", "scripts/1/init", "scripts/1/check", "scripts/dev"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "scripts/1/init/make.sh").write_text("touch a b")
    (tmp_path / "scripts/1/check/same.py").write_text("import sys")
    return tmp_path


def load(folder: Path, *rows: dict[str, Any], file: str = "data/1/files.json") -> list[Task]:
    (folder / file).write_text(json.dumps(list(rows)))
    return load_tasks(folder, "shell", 0.5)


def test_an_entry_with_its_scripts_becomes_a_task(folder: Path) -> None:
    (task,) = load(folder, COUNT)
    assert task.id == "ab-1-files-0"
    plan = Plan.of(task)
    assert [one.code for one in plan.setup] == ["touch a b"]
    assert plan.cwd.endswith("root")
    assert plan.takes_answers
    assert [(one.language, one.code) for one in plan.chain()] == [
        ("bash", "ls | wc -l"),
        ("python", "import sys"),
    ]


def test_files_beside_the_folders_are_read_where_they_have_scripts(folder: Path) -> None:
    match = {"description": "?", "start": "sleep 9 &", "evaluation": {"match": "7"}}
    (folder / "data/old.json").write_text(json.dumps([match]))
    load(folder, COUNT)
    tasks = load(folder, match, file="data/dev.json")
    assert [task.id for task in tasks] == ["ab-1-files-0", "ab-dev-0"]
    plan = Plan.of(tasks[1])
    assert [one.code for one in plan.setup] == ["sleep 9 &"]
    assert plan.check == {"kind": "match", "answer": "7", "strip": True}
    assert plan.reference is None


def test_one_file_finds_the_scripts_of_its_folder(folder: Path) -> None:
    whole = load(folder, COUNT)
    assert load_tasks(folder / "data/1/files.json", "shell", 0.5) == whole


def test_a_checkout_is_as_good_as_its_folder(folder: Path, tmp_path: Path) -> None:
    whole = load(folder, COUNT)
    checkout = tmp_path / "AgentBench"
    (checkout / "data").mkdir(parents=True)
    (checkout / "data" / "os_interaction").symlink_to(folder)
    assert load_tasks(checkout, "shell", 0.5) == whole


def test_lines_of_json_are_read_too(folder: Path) -> None:
    whole = load(folder, COUNT)
    (folder / "data/1/files.json").unlink()
    (folder / "data/1/files.jsonl").write_text(json.dumps(COUNT) + "\n\n")
    assert load_tasks(folder, "shell", 0.5) == whole
    (folder / "data/1/files.jsonl").write_text("{\n")
    with pytest.raises(UserError, match="line 1: not valid JSON"):
        load_tasks(folder, "shell", 0.5)


def changed(**evaluation: Any) -> dict[str, Any]:
    return {"description": "?", "evaluation": evaluation}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (changed(), "neither match nor check"),
        (changed(check=[]), "list of checks is empty"),
        (changed(check=[None]), "there is no example"),
        (changed(check={"file": "../../secret"}), "lies outside"),
        (changed(check={"file": "check/none.sh"}), "No such file"),
        (changed(check={"language": "c", "code": "x"}), "scripts in 'c' cannot be run"),
        (changed(match={"size": 3}), "neither a text nor an object"),
        (changed(match={"regex": "("}), "is not a pattern"),
        ({"description": " ", "evaluation": {"match": "x"}}, "'description' is no text"),
    ],
)
def test_a_bad_entry_is_named_with_its_file(row: dict[str, Any], why: str, folder: Path) -> None:
    with pytest.raises(UserError) as refused:
        load(folder, COUNT, row)
    assert f"{folder / 'data/1/files.json'}, entry 1: " in str(refused.value)
    assert why in str(refused.value)


def test_a_list_in_place_of_a_set_up_is_none(folder: Path) -> None:
    (task,) = load(folder, {**COUNT, "create": [None, {"file": "x"}]})
    assert Plan.of(task).setup == ()
