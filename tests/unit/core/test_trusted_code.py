import compileall
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from practicum.cli.typed_code import trust_typed
from practicum.core.errors import UserError
from practicum.core.trusted_code import (
    FOLDER,
    NOT_TYPED,
    VARIABLE,
    NotTrusted,
    forget,
    remember,
    require_command,
    require_secrets,
    trust_command,
    trust_file,
    trusted_lines,
)
from practicum.core.user_code import consents_to, load_callable


@pytest.fixture(autouse=True)
def _nothing_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("PRACTICUM_TRUST_FILE", str(tmp_path / "trusted"))


@pytest.fixture
def planted(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, text: str) -> Path:
        path = tmp_path / "theirs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_a_file_that_nobody_trusts_is_not_run(planted: Callable[[str, str], Path]) -> None:
    file = planted("first.py", "raise SystemExit('it ran')")
    with pytest.raises(NotTrusted, match=f"practicum trust {file}"):
        load_callable(f"{file}:f", "env")


@pytest.mark.parametrize(
    "imports",
    [
        "import lies_beside",
        "from lies_beside import f",
        "import lies_inside.deep",
        "from lies_inside import deep",
        "import importlib; importlib.import_module('lies_beside')",
    ],
)
def test_what_a_trusted_file_imports_beside_it_is_checked_too(
    imports: str, planted: Callable[[str, str], Path]
) -> None:
    file = planted("main.py", f"{imports}\ndef f(): pass\n")
    remember([(trust_file(file)[0])])  # of the file alone, as it was before the others came
    planted("lies_beside.py", "raise SystemExit('it ran')\ndef f(): pass")
    planted("lies_inside/__init__.py", "")
    planted("lies_inside/deep.py", "raise SystemExit('it ran')")
    with pytest.raises(NotTrusted):
        load_callable(f"{file}:f", "env")


def test_a_consent_covers_what_a_file_imports_from_its_folder(
    planted: Callable[[str, str], Path],
) -> None:
    planted("helping/__init__.py", "from . import words\n")
    planted("helping/words.py", "import far_word\nWORD = far_word.WORD\n")
    planted("far_word.py", "WORD = 5\n")
    file = planted("covered.py", "from helping import words\ndef f():\n    return words.WORD\n")
    remember(trust_file(file))
    assert load_callable(f"{file}:f", "env")() == 5


def test_a_compiled_file_that_says_otherwise_is_not_run(
    planted: Callable[[str, str], Path],
) -> None:
    """A stranger may send a __pycache__ whose content is not that of the file one reads."""
    file = planted("shown.py", "def f():\n    return 'as it is written'\n")
    text = file.read_text()
    file.write_text("def f():\n    return 'something else'\n")
    hashed = compileall.compile_file  # compiled so that Python would not compare it
    import py_compile

    hashed(str(file), quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    file.write_text(text)
    remember(trust_file(file))
    assert load_callable(f"{file}:f", "env")() == "as it is written"


def test_a_function_of_an_installed_module_needs_consent_too() -> None:
    with pytest.raises(NotTrusted, match="practicum trust os:getpid"):
        load_callable("os:getpid", "data")
    remember(consents_to({"data": "os:getpid"}))
    assert load_callable("os:getpid", "data")() == os.getpid()
    assert forget("os:getpid")
    with pytest.raises(NotTrusted):
        load_callable("os:getpid", "data")


def test_a_command_is_trusted_with_the_files_it_names(
    planted: Callable[[str, str], Path],
) -> None:
    words = [sys.executable, str(planted("agent.py", "print(1)"))]
    remember(trust_command(words))
    require_command(words, "agent.command")
    planted("agent.py", "print(2)")
    with pytest.raises(NotTrusted, match="practicum trust CONFIG"):
        require_command(words, "agent.command")


def test_a_command_is_trusted_with_what_its_program_imports_from_its_folder(
    planted: Callable[[str, str], Path],
) -> None:
    words = [sys.executable, str(planted("steps.py", "import its_part\n"))]
    planted("its_part.py", "print(1)")
    remember(trust_command(words))
    require_command(words, "agent.command")
    planted("its_part.py", "print(2)")
    with pytest.raises(NotTrusted, match="practicum trust CONFIG"):
        require_command(words, "agent.command")


def test_a_command_is_trusted_in_its_folder_and_with_its_variables(
    planted: Callable[[str, str], Path],
) -> None:
    """`npm start` is what the folder says, and the same words of a stranger are another command."""
    mine = planted("mine/run.sh", "echo 1").parent
    theirs = planted("theirs/run.sh", "echo 1").parent
    own = {"command": ["sh", "run.sh"], "workdir": str(mine), "inherit": ["EDITOR"]}
    remember(consents_to({"agent": own}))
    require_command(["sh", "run.sh"], "agent.command", str(mine), ["EDITOR"])
    for workdir, inherit in (("new", ["EDITOR"]), (str(theirs), ["EDITOR"]), (str(mine), ["KEY"])):
        with pytest.raises(NotTrusted):
            require_command(["sh", "run.sh"], "agent.command", workdir, inherit)
    planted("mine/run.sh", "echo 2")
    with pytest.raises(NotTrusted):
        require_command(["sh", "run.sh"], "agent.command", str(mine), ["EDITOR"])


SECTIONS: list[tuple[dict[str, object], str, str]] = [
    ({"endpoint": "http://a/v1", "key_variable": "X_KEY"}, "X_KEY", "http://a/v1"),
    ({"colleague_endpoint": "http://a/v1"}, "OPENAI_API_KEY", "http://a/v1"),
    ({"colleague_endpoint": "http://a", "colleague_key_env": "X_KEY"}, "X_KEY", "http://a"),
    ({"judge_endpoint": "http://a/", "judge_key_env": "X_KEY"}, "X_KEY", "http://a"),
    ({"url": "http://a"}, "PRACTICUM_ENV_KEY", "http://a"),
    ({"url": "http://a", "key_file": "/etc/shadow"}, "file /etc/shadow", "http://a"),
    ({"urls": ["http://a"]}, "PRACTICUM_SAMPLER_KEY", "http://a"),
    ({"urls": ["http://a"], "key_file": "/etc/shadow"}, "file /etc/shadow", "http://a"),
    ({"teacher": "http://a"}, "PRACTICUM_TEACHER_KEY", "http://a"),
]


@pytest.mark.parametrize(("section", "secret", "address"), SECTIONS)
def test_a_secret_is_sent_where_the_user_agreed_and_nowhere_else(
    section: dict[str, object], secret: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(secret.replace("file /", "FILE_"), "s3cret")
    with pytest.raises(NotTrusted, match=f"{secret} to {address}"):
        require_secrets(section, "here")
    remember(consents_to({"env": section}))
    require_secrets(section, "here")
    elsewhere = json.loads(json.dumps(section).replace("http://a", "http://b"))
    with pytest.raises(NotTrusted, match="http://b"):
        require_secrets(elsewhere, "here")


def test_a_variable_that_is_not_set_is_sent_nowhere() -> None:
    require_secrets({"colleague_endpoint": "http://a", "colleague_key_env": "NOT_SET"}, "env")


def test_a_folder_of_ones_own_is_trusted_with_later_changes(
    planted: Callable[[str, str], Path],
) -> None:
    file = planted("own.py", "def f(): return 1\n")
    remember([(FOLDER, str(file.parent))])
    file.write_text("def f(): return 2\n")
    assert load_callable(f"{file}:f", "env")() == 2
    assert forget(str(file.parent))
    assert trusted_lines() == []


@pytest.mark.parametrize(
    "word", ["{}:f", "agent={}:f", "reward={{components: [{{name: '{}:f'}}]}}", "--env={}:f"]
)
def test_a_name_that_is_typed_is_consent(word: str, planted: Callable[[str, str], Path]) -> None:
    file = planted("typed.py", "def f(): pass\n")
    trust_typed(["train", word.format(file)])
    assert [line.split(" ", 1)[1] for line in trusted_lines()] == [str(file)]


def test_words_that_a_config_gave_a_process_are_no_consent(
    planted: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NOT_TYPED, "1")
    trust_typed(["env", "serve", f"{planted('given.py', '')}:f"])
    assert trusted_lines() == []


def test_a_record_that_cannot_be_written_holds_for_this_process(
    planted: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "no_folder").write_text("")
    monkeypatch.setenv("PRACTICUM_TRUST_FILE", str(tmp_path / "no_folder" / "trusted"))
    monkeypatch.setenv(VARIABLE, "")
    file = planted("held.py", "def f(): return 3\n")
    with pytest.raises(UserError, match="no consent can be kept; set PRACTICUM_TRUST_FILE"):
        remember(trust_file(file), must=True)
    remember(trust_file(file))
    assert load_callable(f"{file}:f", "env")() == 3
