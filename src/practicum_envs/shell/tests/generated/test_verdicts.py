"""The checker as a program: sent on standard input, answered by one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from practicum.sandboxes.commands import PYTHON
from practicum_envs.shell.generated.assertions import (
    Content,
    Type,
    Verdict,
    checker_input,
    read_verdicts,
)


def run(stdin: bytes, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *PYTHON[1:]]
    done = subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, check=False)
    return subprocess.CompletedProcess(
        command, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def test_the_program_judges_what_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "a b'c").write_text('it\'s "quoted" \\n\n')
    assertions = [
        Content(f"{tmp_path}/a b'c", 'it\'s "quoted" \\n\n').to_json(),
        Type(f"{tmp_path}/a b'c", "folder").to_json(),
    ]
    done = run(checker_input(assertions, "n0nce"), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    right, wrong = read_verdicts(done.stdout, "n0nce", 2)
    assert right == Verdict(ok=True)
    assert not wrong.ok
    assert "is a file" in wrong.why


def test_a_module_beside_it_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('planted')")
    done = run(checker_input([], "n"), tmp_path)
    assert read_verdicts(done.stdout, "n", 0) == ()


def test_an_unknown_kind_ends_without_a_verdict(tmp_path: Path) -> None:
    done = run(checker_input([{"kind": "wish"}], "n"), tmp_path)
    assert done.returncode != 0
    assert done.stdout == ""


@pytest.mark.parametrize(
    "stdout",
    [
        "",
        "n",
        'other [{"ok": true, "why": ""}]',
        '[{"ok": true, "why": ""}]',
        "n []",
        'n [{"ok": 1}]',
        'n [{"why": ""}]',
        'n {"ok": true}',
        'n [{"ok": true}]\nmore',
        'before\nn [{"ok": true}]',
        "n [true]",
        "n not json",
    ],
)
def test_anything_but_the_one_line_is_no_verdict(stdout: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_verdicts(stdout, "n", 1)


def test_the_one_line_is_read() -> None:
    assert read_verdicts('n [{"ok": false, "why": "no"}]\n', "n", 1) == (Verdict(False, "no"),)
