"""Rows that nobody can score are refused before a run, with what to type."""

import json
from pathlib import Path
from typing import Any

import pytest

from practicum.assemble.wired_rewards import REWARDS
from practicum.core.capabilities import default_reward
from practicum.core.config.parse_config import build_config
from practicum.core.config.reward_config import RewardConfig
from practicum.core.errors import UserError
from practicum.environments.registry import build_environment
from practicum.environments.tasks_environment import check_answers
from practicum.rewards.composite import CompositeReward

TESTS = [{"stdin": "1", "stdout": "2"}]


def check(tmp_path: Path, row: dict[str, Any], **config: Any) -> None:
    rows = tmp_path / "rows.jsonl"
    lines = [json.dumps({"id": f"r{n}", "prompt": "write it", **row}) for n in range(20)]
    rows.write_text("\n".join(lines))
    options = {"data": str(rows)}
    built = build_config({"env": {"name": "tasks", **options}, **config}, "test")
    check_answers(built, build_environment("tasks", options))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, r"have no answer, and the run has no reward.*type reward=FILE.py:FUNCTION, or give"),
    ],
)
def test_rows_that_are_worth_the_same_whatever_is_written_are_refused(
    tmp_path: Path, row: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        check(tmp_path, row)


@pytest.mark.parametrize(
    ("row", "config"),
    [
        ({"answer": "4"}, {}),
        ({"tests": TESTS}, {}),
        ({"tests": TESTS}, {"reward": {"components": ["code_execution"]}}),
        ({}, {"reward": {"components": ["repetition"]}}),
        ({}, {"agent": {"name": "function", "path": "mine.py:rollout"}}),
        ({}, {"agent": {"name": "command", "command": ["true"], "score": "exit_code"}}),
        ({}, {"algorithm": {"name": "distill", "teacher": "tiny"}}),
    ],
)
def test_rows_that_something_scores_are_not(
    tmp_path: Path, row: dict[str, Any], config: dict[str, Any]
) -> None:
    check(tmp_path, row, **config)


@pytest.mark.parametrize(
    ("row", "named"),
    [({"tests": TESTS}, "code_execution"), ({"tests": TESTS, "answer": "4"}, "os"), ({}, "os")],
)
def test_rows_with_tests_and_no_answer_are_scored_by_running_the_code(
    tmp_path: Path, row: dict[str, Any], named: str
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"id": "r", "prompt": "write it", "split": "train", **row}))
    environment = build_environment("tasks", {"data": str(rows)})
    assert default_reward(environment) == named
    reward = REWARDS.reward(RewardConfig(), environment)
    labels = [part.label for part in reward.parts] if isinstance(reward, CompositeReward) else []
    assert labels == (["code_execution"] if named != "os" else [])
