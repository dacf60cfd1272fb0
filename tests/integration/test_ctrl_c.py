"""Ctrl-C at any moment: one sentence, exit code 130; a second one leaves at once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SLOW_IMPORT = "import time\nprint('importing', flush=True)\ntime.sleep(600)\n"


def start(folder: Path, *words: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "practicum", *words],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def assert_stopped(process: "subprocess.Popen[str]", said: str = "") -> None:
    rest = said + process.communicate(timeout=240)[0]
    assert process.returncode == 130, rest
    assert rest.count("practicum: stopped by Ctrl-C") == 1, rest
    assert "Traceback" not in rest


@pytest.mark.parametrize("module", ["typer", "numpy"])
def test_ctrl_c_while_something_is_imported_is_one_sentence(tmp_path: Path, module: str) -> None:
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").write_text(SLOW_IMPORT)
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    process = start(tmp_path, "train", "math", "model=tiny", PYTHONPATH=path)
    assert process.stdout is not None
    said = ""
    while "importing" not in said:
        said += process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert_stopped(process)


def test_ctrl_c_in_an_evaluation_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\ndef score(task, trace, outcome):\n"
        "    print('scoring', flush=True)\n    time.sleep(600)\n"
    )
    process = start(tmp_path, "eval", "random", "--env", "math", "reward=slow.py:score", "--n", "2")
    assert process.stdout is not None
    said = ""
    while "scoring" not in said:
        said += process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert_stopped(process, said)


def test_a_second_ctrl_c_waits_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(
        "import time\ndef score(task, trace, outcome):\n"
        "    while True:\n        try:\n            print('scoring', flush=True)\n"
        "            time.sleep(600)\n        except KeyboardInterrupt:\n            pass\n"
    )
    words = ("eval", "random", "--env", "math", "reward=stubborn.py:score", "--n", "2")
    process = start(tmp_path, *words)
    assert process.stdout is not None
    for _ in range(2):
        while "scoring" not in process.stdout.readline():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=240)
    assert process.returncode == 130
