"""Tasks of which nobody can say whether they were done: a run finishes and reports its reward."""

import json
from pathlib import Path

import pytest

import practicum as pr
from practicum.evaluation.compare import compare_reports

TINY = (
    *("model=tiny", "steps=2", "rollouts.tasks_per_step=2", "rollouts.group_size=3"),
    *("eval.n=4", "hardware.threads=1", "checkpoints.every=1"),
)

CALL = {"call": "1 + 1", "expect": 2}
REWARD = """\
def short(task, trace, outcome):
    return float(len(list(trace.messages())[-1].content) % 2)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"t{n}", "prompt": f"Say {n}.", "tests": [CALL]} for n in range(40)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "mine.py").write_text(REWARD)
    return tmp_path


def test_an_own_reward_on_tasks_without_an_answer_is_trained_and_reported(
    practicum, folder: Path
) -> None:
    words = ("tasks", "env.data=rows.jsonl", *TINY, "reward=mine.py:short", "--name", "x")
    answer = practicum("train", *words)
    assert answer.code == 0, answer.err
    assert "mean reward" in answer.out
    report = pr.load("x").report
    assert report is not None
    assert report.success is None
    assert 0.0 <= report.reward.low <= report.reward.high <= 1.0
    assert practicum("runs").code == 0
    assert "unknown" in practicum("runs", "x").out
    assert practicum("watch", "x", "--once").code == 0
    shown = practicum("eval", "runs/x", "--n", 4, "--against", "base")
    assert shown.code == 0, shown.err
    assert "reward.success_at=SCORE" in shown.out
    assert (
        json.loads(practicum("eval", "runs/x", "--n", 4, "--json").out)["report"]["success"] is None
    )


def test_success_at_says_what_counts(practicum, folder: Path) -> None:
    words = ("tasks", "env.data=rows.jsonl", *TINY, "reward=mine.py:short", "reward.success_at=1")
    assert practicum("train", *words, "--name", "x").code == 0
    report = pr.load("x").report
    assert report is not None
    assert report.success is not None
    assert report.success.value == report.reward.value


def test_a_run_may_go_without_evaluations(practicum, folder: Path) -> None:
    answer = practicum("train", "math", *TINY, "eval.n=0", "--name", "x")
    assert answer.code == 0, answer.err
    assert pr.load("x").evaluations == {}
    assert practicum("runs", "x").code == 0


def test_rows_with_tests_and_the_code_reward_finish(practicum, folder: Path) -> None:
    reward = "reward={components: [{name: code_execution}]}"
    answer = practicum("train", "tasks", "env.data=rows.jsonl", *TINY, reward, "--name", "x")
    if "sandbox" in answer.err and answer.code == 2:
        pytest.skip(answer.sentence)
    assert answer.code == 0, answer.err


def result(rewards: list[float]) -> pr.EvalReport:
    from practicum.core.checkpoint import TaskResult
    from practicum.evaluation.report import build_report

    tasks = [
        TaskResult(task_id=f"t{n}", level=1, successes=(None,), rewards=(r,))
        for n, r in enumerate(rewards)
    ]
    return build_report(tasks, policy="p", env="e", fingerprint="f", seed=0)


def test_bounds_of_a_reward_of_0_and_1_stay_between_them() -> None:
    before, after = result([0.0, 0.0, 0.0, 1.0]), result([1.0, 1.0, 1.0, 0.0])
    for report in (before, after):
        assert 0.0 <= report.reward.low < report.reward.high <= 1.0
    gain = compare_reports(after, before).decisive[1]
    assert -1.0 <= gain.low < gain.value == 0.5 < gain.high <= 1.0
