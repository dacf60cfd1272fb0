import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import MissingExtra, UserError
from practicum_envs.shell.user_data import load_tasks


def command(script: str, name: str = "bash") -> dict[str, str]:
    return {"command_name": name, "script": script}


def make_row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "sample_index": number,
        "instruction": f"Make /a/{number}.",
        "initialization_command_item": command("mkdir /a"),
        "evaluation_info": {
            "evaluation_command_item": command(f"test -e /a/{number}"),
            "ground_truth_command_item": command(f"touch /a/{number}"),
        },
        "skill_list": ["touch"],
        "raw_entry_hash": 1,
        **changes,
    }


def write(folder: Path, rows: dict[str, Any]) -> Path:
    path = folder / "entry_dict.json"
    path.write_text(json.dumps(rows))
    return path


def test_entries_become_tasks(tmp_path: Path) -> None:
    path = write(tmp_path, {"0": make_row(0), "7": make_row(7)})
    tasks = load_tasks(path, "shell", 0.5)
    assert [task.id for task in tasks] == ["lab-0", "lab-7"]
    assert tasks[1].instruction == "Make /a/7."
    assert tasks[1].data == {
        "source": "lifelong",
        "setup": "mkdir /a",
        "reference": "touch /a/7",
        "check": {"kind": "script", "script": "test -e /a/7"},
        "skills": ["touch"],
    }
    assert load_tasks(tmp_path, "shell", 0.5) == tasks


def test_a_script_in_python_stays_python(tmp_path: Path) -> None:
    row = make_row(0, initialization_command_item=command("print()", "python"))
    (task,) = load_tasks(write(tmp_path, {"0": row}), "shell", 0.5)
    assert task.data["setup"] == {"language": "python", "code": "print()"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"instruction": ""}, "its 'instruction' is no text"),
        ({"evaluation_info": {}}, "it has no 'evaluation_command_item'"),
        ({"evaluation_info": None}, "NoneType stands where an object is expected"),
        ({"initialization_command_item": command("x", "cpp")}, "scripts in 'cpp' cannot be run"),
        (
            {"initialization_command_item": {"command_name": "bash", "script": 3}},
            "a script has no code",
        ),
        ({"skill_list": 3}, "skill_list is not a list"),
    ],
)
def test_a_bad_entry_is_named_with_its_file(
    changes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    path = write(tmp_path, {"0": make_row(0), "1": make_row(1, **changes)})
    with pytest.raises(UserError) as refused:
        load_tasks(path, "shell", 0.5)
    assert f"{path}, entry 1: {why}" in str(refused.value)


@pytest.mark.parametrize("nested", [True, False], ids=["objects", "json-text"])
def test_parquet_says_the_same(nested: bool, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    from pyarrow import parquet

    rows = [make_row(0), make_row(1)]
    if not nested:
        kept = (str, int)
        rows = [
            {k: v if isinstance(v, kept) else json.dumps(v) for k, v in row.items()} for row in rows
        ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    expected = load_tasks(write(tmp_path, {"0": make_row(0), "1": make_row(1)}), "shell", 0.5)
    assert load_tasks(tmp_path / "train.parquet", "shell", 0.5) == expected


def test_what_is_no_parquet_is_said_in_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(UserError, match=r"x\.parquet is not a Parquet file"):
        load_tasks(tmp_path / "x.parquet", "shell", 0.5)


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.parquet").touch()
    plain_import = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return plain_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"practicum\[parquet\]"):
        load_tasks(tmp_path / "x.parquet", "shell", 0.5)
