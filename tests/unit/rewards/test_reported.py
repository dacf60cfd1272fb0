from typing import Any

import pytest

from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace
from practicum.rewards.verifiable import OutcomeReward, ReportedScore

TASK = Task(id="a", env="tasks", split="train")
TRACE = Trace(id="t", task_id="a", env="tasks")


async def score_of(evidence: dict[str, Any]) -> Any:
    reward = ReportedScore(otherwise=OutcomeReward())
    return await reward.score(TASK, TRACE, Outcome(success=True, evidence=evidence))


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ({"components": {"a": 1.0, "b": 2}, "weights": {"b": 0.25}}, 1.5),
        ({"components": {"a": -1}}, -1.0),
        ({"components": {"a": 1.0, "unscored": None}}, None),
        ({"components": {}}, None),
        ({}, None),
    ],
)
async def test_the_reported_score_is_read_from_the_evidence(
    said: dict[str, Any], value: float | None
) -> None:
    assert (await score_of({"reported": said})).value == value


async def test_without_a_report_the_other_reward_is_asked() -> None:
    assert (await score_of({})).components == {"outcome": 1.0}
    assert (await score_of({"reported": "yes"})).components == {"outcome": 1.0}
