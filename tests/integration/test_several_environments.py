"""Runs over several environments: each is paid, measured and compared by itself."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from practicum.store.events import read_metrics

LAMPS = str(Path(__file__).parents[2] / "examples" / "01_own_environment.py:LampEnvironment")
SMALL = (
    "model=tiny",
    "rollouts.tasks_per_step=4",
    "rollouts.group_size=3",
    "rollouts.max_turns=4",
    "warm_start=none",
    "eval.n=6",
    "hardware.threads=1",
)


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_over_two_environments_is_measured_by_each_and_resumes(
    practicum: Callable[..., Any], at: Path
) -> None:
    both = f"[{{name: math, weight: 3}}, {LAMPS}]"
    assert practicum("train", both, *SMALL, "steps=3", "--name", "whole").code == 0
    assert practicum("train", both, *SMALL, "steps=2", "--name", "short").code == 0
    assert practicum("train", "--resume", "runs/short", "steps=3").code == 0
    for name in ("whole", "short"):
        rows = [
            r.values
            for r in read_metrics(at / "runs" / name / "metrics.jsonl")[0]
            if r.kind == "step"
        ]
        assert len(rows) == 3
        for row in rows:
            assert {"math/success", "math/reward", "lamps/success", "lamps/reward"} <= row.keys()
    weights = [
        next((at / "runs" / name / "checkpoints" / "step_3").rglob("adapter_model.safetensors"))
        for name in ("whole", "short")
    ]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    shown = json.loads(practicum("runs", "whole", "--json").out)
    point = shown["evaluations"][-1]["success_by_env"]
    assert {env: found["n"] for env, found in point.items()} == {"math": 5, "lamps": 1}


def test_what_was_learned_in_one_is_measured_in_several(
    practicum: Callable[..., Any], at: Path
) -> None:
    assert practicum("train", "math", *SMALL, "steps=1", "--name", "one").code == 0
    told = practicum(
        *("eval", "one", "--env", f"[math, {LAMPS}]", "--n", "6", "--against", "base", "--json")
    )
    assert told.code == 0
    answer = json.loads(told.out)
    assert list(answer["report"]["success_by_env"]) == ["math", "lamps"]
    assert list(answer["comparison"]["difference_by_env"]) == ["math", "lamps"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("train", "[math, agent_company]"), "repo"),
        (("train", "[math, nosuch]"), "unknown environment 'nosuch'"),
        (("train", "[math, {name: shell, protocol: tools}]"), "protocol: text"),
        (("tasks", "[math, shell]", "--check", "2"), "check each: practicum tasks NAME"),
    ],
)
def test_what_cannot_be_done_with_several_is_told_in_one_line(
    practicum: Callable[..., Any], at: Path, words: tuple[str, ...], told: str
) -> None:
    answer = practicum(*words)
    assert answer.code == 2
    assert told in answer.sentence
    assert not (at / "runs").exists()
