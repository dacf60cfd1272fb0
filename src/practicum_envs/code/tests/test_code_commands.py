"""Whole commands of the code environment."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from practicum.cli.main import app
from practicum_envs.code.code_environment import CodeEnvironment, CodeOptions

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
ADD = '{"task_id": "%s", "text": "Write add(a, b).", "code": "def add(a, b):\\n    return a + b", '
ROW = ADD + '"test_list": ["assert add(1, 2) == 3", "assert add(2, 2) == 4"]}'


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_users_file_is_checked(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join(ROW % number for number in range(6)))
    said = run("tasks", "code", "--data", str(tmp_path / "rows.jsonl"), "--check", "all")
    assert "reference 6/6, do-nothing 0/6" in said
    assert "95 %: reference [0.61, 1.00], do-nothing [0.00, 0.39]" in said


def test_a_person_types_a_program_over_several_lines() -> None:
    named = "code-train-L1-count_above-s0-0"
    environment = CodeEnvironment(CodeOptions())
    [written, submitted] = environment.reference(environment.find(named))
    assert len(written.splitlines()) > 2
    typed = f"{written}\n\n{submitted}\n"
    words = ("play", "code", "--policy", "human", "--task", named)
    done = CliRunner().invoke(app, words, input=typed)
    assert done.exit_code == 0, done.output
    assert "solved, total reward 1" in done.output


@pytest.mark.slow
def test_constrained_tasks_are_sound_and_beyond_a_random_policy() -> None:
    said = run("tasks", "code", "actions=constrained", "--level", "1", "--check", "3")
    assert "reference 3/3, do-nothing 0/3, near-miss 0/3, random 0/3" in said
    assert "not sound" not in said


@pytest.mark.slow
def test_a_model_is_trained_on_programs(tmp_path: Path) -> None:
    said = run(
        *("train", "code", "model=tiny", "steps=2", "rollouts.tasks_per_step=2", "eval.n=2"),
        *("rollouts.group_size=2", "rollouts.max_turns=2", f"runs_dir={tmp_path}", "--name", "t"),
    )
    assert "2" in said
    assert (tmp_path / "t" / "run.json").is_file()
