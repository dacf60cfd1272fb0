"""The office's tools: scripts of what was asked, whatever the arguments hold."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.errors import ConfigError
from practicum.environments.registry import build_environment
from practicum_envs.office.office_tools import BY_NAME, TOOLS_OF, script_of, specs_of


def test_every_tool_has_a_schema_and_every_set_has_tools() -> None:
    assert set(TOOLS_OF) == {
        *("edit", "http", "browse", "chat", "rocketchat", "gitlab", "plane", "owncloud")
    }
    for tool in BY_NAME.values():
        fields: Any = tool.spec.parameters["properties"]
        required: Any = tool.spec.parameters["required"]
        assert set(required) <= set(fields)
        assert tool.spec.description
        every = {name: ["x"] if one["type"] == "array" else "x" for name, one in fields.items()}
        for arguments in (every, {name: every[name] for name in required}):
            assert shlex.split(script_of(tool.spec.name, arguments))


def test_tools_that_two_words_ask_for_are_offered_once() -> None:
    names = [spec.name for spec in specs_of(("bash", "chat", "rocketchat"))]
    assert names[:2] == ["send_message", "read_messages"]
    assert len(set(names)) == len(names)


def test_lists_are_sent_as_json_and_names_in_routes_are_quoted() -> None:
    made = script_of("create_channel", {"name": "a b", "members": ["x", "y z"]})
    assert shlex.split(made)[4:] == ["name=a b", 'members:=["x", "y z"]']
    made = script_of(
        "gitlab_update_file",
        {
            **{"project": "root/shop", "file": "src/a b.py", "branch": "main"},
            **{"content": "x = 1\n", "commit_message": "m"},
        },
    )
    assert shlex.split(made)[3] == "projects/root%2Fshop/repository/files/src%2Fa%20b.py"


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")))
def test_no_text_leaves_its_argument(text: str) -> None:
    words = shlex.split(script_of("send_message", {"channel": "#general", "text": text}))
    assert words[-1] == f"text={text}"
    assert len(words) == 6


def run(name: str, arguments: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    made = script_of(name, arguments)
    return subprocess.run(
        ["bash", "-c", made], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_file_is_created_viewed_changed_and_added_to(tmp_path: Path) -> None:
    path = {"path": "notes/a.txt"}
    assert run("edit", {"command": "create", **path, "new": "one\ntwo\n"}, tmp_path).returncode == 0
    run("edit", {"command": "replace", **path, "old": "two", "new": "2"}, tmp_path)
    run("edit", {"command": "insert", **path, "lines": "1", "new": "between"}, tmp_path)
    assert (tmp_path / "notes/a.txt").read_text() == "one\nbetween\n2\n"
    shown = run("edit", {"command": "view", **path, "lines": "2-3"}, tmp_path).stdout
    assert [line.split() for line in shown.splitlines()] == [["2", "between"], ["3", "2"]]
    twice = run("edit", {"command": "replace", **path, "old": "e", "new": "E"}, tmp_path)
    assert twice.returncode == 1
    assert "4 times; it must be there once" in twice.stderr


def test_tools_need_the_protocol_of_tools() -> None:
    with pytest.raises(ConfigError, match="protocol: tools"):
        build_environment("office", {"tools": ["chat"]})
    with pytest.raises(ConfigError, match="tools"):
        build_environment("office", {"protocol": "tools", "tools": ["telephone"]})


def test_the_guide_lists_every_tool() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "office.md").read_text()
    rows = {
        line.split("|")[1].strip(" `"): line
        for line in guide.partition("\n## Tools\n")[2].splitlines()
        if line.startswith("| `")
    }
    for name, tools in TOOLS_OF.items():
        for tool in tools:
            assert tool.spec.name in rows[name] or tool in TOOLS_OF["chat"], tool.spec.name
