from pathlib import Path

import pytest

from practicum.core.errors import ConfigError
from practicum.core.user_code import load_callable


def test_a_function_of_a_file_is_found_and_the_file_is_run_once(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("VALUE = 7\n")
    (tmp_path / "mine.py").write_text("import beside_it\ndef f():\n    return beside_it.VALUE\n")
    found = load_callable(f"{tmp_path}/mine.py:f", "agent.path")
    assert found() == 7
    assert load_callable(f"{tmp_path}/mine.py:f", "agent.path") is found


def test_files_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(f"def f():\n    return {name!r}\n")
    found = [load_callable(f"{tmp_path}/{name}/mine.py:f", "agent.path")() for name in "ab"]
    assert found == ["a", "b"]


def test_a_function_of_a_module_is_found_where_practicum_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "module_of_mine.py").write_text("def f():\n    return 3\n")
    assert load_callable("module_of_mine:f", "agent.path")() == 3


@pytest.mark.parametrize(
    ("text", "named", "said"),
    [
        ("x = 1", "rollout", "names no function or class; write FILE.py:NAME"),
        ("x = 1", "{file}:rollout", "has no function 'rollout'; it has none"),
        ("def g(): pass", "{file}:rollout", "has no function 'rollout'; it has g"),
        ("import nowhere_at_all", "{file}:rollout", "ModuleNotFoundError"),
        ("def f(:", "{file}:f", "SyntaxError"),
        ("raise SystemExit(2)", "{file}:f", "cannot be loaded: SystemExit: 2"),
        ("", "none.py:f", "there is no file none.py"),
        ("", "no_such_module_here:f", "start practicum in the folder that holds"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(
    tmp_path: Path, text: str, named: str, said: str
) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    with pytest.raises(ConfigError) as wrong:
        load_callable(named.format(file=file), "agent.path")
    assert said in str(wrong.value)
    assert str(wrong.value).startswith("agent.path")
