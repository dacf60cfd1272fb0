"""Every row of `mission_rows`: it works as its guide says it, or is answered with what to type."""

import ast
import asyncio
import inspect
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import TINY, Answer
from tests.integration.mission_row import Row, files, tables

import practicum as pr

ROOT = Path(__file__).parents[2]
LEFT_OUT = {"runs", "build", "dist", "site"}
LEAST_ROWS = 193
"""So many rows were counted when the guides were first read line by line."""
MOST_FAILING = 15
LIMIT_S = 600
SHOWN = 3000
"""Characters of what was seen that a failure shows."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the repository has, the tables' own files, and a run."""
    folder = tmp_path_factory.mktemp("clone")
    for path in ROOT.iterdir():
        if not path.name.startswith(".") and path.name not in LEFT_OUT:
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    for name, text in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    words = (*TINY[1:], f"runs_dir={folder / 'runs'}")
    options: dict[str, Any] = {}
    for word in words:
        key, _, value = word.partition("=")
        options[key] = int(value) if value.isdecimal() else value
    pr.train("math", name="first", quiet=True, **options)
    return folder


@pytest.fixture(scope="module")
def answers() -> dict[str, tuple[bool, str]]:
    """What was answered to each line that was typed: several rows look at the same."""
    return {}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row,
            id=f"{name}: {row.says}",
            marks=[getattr(pytest.mark, row.mark)] if row.mark else [],
        )
        for name, rows in tables().items()
        for row in rows
    ],
)
def test_what_a_guide_names_works_or_is_answered(
    row: Row,
    clone: Path,
    answers: dict[str, tuple[bool, str]],
    practicum: Callable[..., Answer],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(clone)
    if row.file:
        is_refused, seen = False, Path(row.file).read_text(encoding="utf-8")
    elif row.typed:
        if row.typed not in answers:
            answers[row.typed] = _typed(practicum, row.typed)
        is_refused, seen = answers[row.typed]
    elif row.shell:
        is_refused, seen = _shell(row.shell)
    else:
        is_refused, seen = _python(row, capsys)
    does = is_refused == row.is_answered and _has(seen, row.sees)
    told = seen if len(seen) < SHOWN else f"{seen[: SHOWN // 2]} ... {seen[-SHOWN // 2 :]}"
    assert does == (not row.fails), f"refused: {is_refused}; looked for {row.sees!r} in:\n{told}"


def test_at_most_a_few_rows_fail_each_with_a_reason() -> None:
    failing = [
        row.says for rows in tables().values() for row in rows if row.fails and not row.aside
    ]
    assert len(failing) <= MOST_FAILING, failing


def test_the_tables_are_whole() -> None:
    assert sum(len(rows) for rows in tables().values()) >= LEAST_ROWS


def test_no_row_is_there_twice() -> None:
    for name, rows in tables().items():
        said = [row.says for row in rows]
        assert len(said) == len(set(said)), name


def _has(seen: str, pattern: str) -> bool:
    return re.search(pattern.replace(" ", r"\s+"), seen, re.DOTALL) is not None


def _typed(practicum: Callable[..., Answer], words: str) -> tuple[bool, str]:
    answer = practicum(*shlex.split(words))
    return answer.code != 0, answer.out + answer.err


def _shell(command: str) -> tuple[bool, str]:
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    seen = done.stdout + done.stderr
    assert "Traceback" not in seen
    return done.returncode != 0, seen


def _python(row: Row, capsys: pytest.CaptureFixture[str]) -> tuple[bool, str]:
    """A snippet's output; of one that is to be refused, the sentence it was refused with."""
    code = compile(inspect.cleandoc(row.python), "snippet", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    capsys.readouterr()
    try:
        done = eval(code, {"__name__": "snippet"})
        if inspect.iscoroutine(done):
            asyncio.run(done)
    except (pr.PracticumError, AttributeError, ImportError) as error:
        if not row.is_answered:
            raise
        return True, str(error)
    return False, capsys.readouterr().out
