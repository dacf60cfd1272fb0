"""Every mistake in `bad_inputs.BAD`: one sentence, exit code 2, nothing left, nothing loaded."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integration import bad_inputs
from tests.integration.bad_inputs import BAD


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bad")
    bad_inputs.prepare(folder)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PRACTICUM")}
    done = subprocess.run(
        [sys.executable, bad_inputs.__file__],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_there_are_sixty_of_them() -> None:
    assert len(BAD) >= 60


@pytest.mark.parametrize("wrong", BAD)
def test_a_mistake_is_one_sentence_and_leaves_nothing(answers: dict[str, Any], wrong: str) -> None:
    answer, (_, parts) = answers[wrong], BAD[wrong]
    assert answer["code"] == 2, answer["err"]
    assert "Traceback" not in answer["err"]
    told = [line for line in answer["err"].splitlines() if line.strip()]
    sentences = [line for line in told if line.startswith(("practicum: ", "Error: "))]
    assert len(sentences) == 1, told
    for part in parts:
        assert part in sentences[0]
    assert answer["left"] == []
    assert answer["heavy"] == []


@pytest.mark.parametrize("wrong", ["environment misspelt", "reward with another signature"])
def test_a_process_of_its_own_answers_the_same(wrong: str, tmp_path: Path) -> None:
    words, parts = BAD[wrong]
    bad_inputs.prepare(tmp_path)
    command = [sys.executable, "-m", "practicum", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert all(part in done.stderr for part in parts)
    assert not (tmp_path / "runs").exists()
