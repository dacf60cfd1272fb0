from typing import Any

import pytest
from tests.unit.rewards.traces import make_task, make_trace

from practicum.core.interfaces import Reward
from practicum.core.task import Outcome
from practicum.rewards.verifiable import AgentCompanyScore, ProgressScore


async def score_of(checkpoints: Any, reward: Reward | None = None) -> float | None:
    outcome = Outcome(success=None, evidence={"checkpoints": checkpoints})
    scored = await (reward or AgentCompanyScore()).score(make_task(), make_trace("a"), outcome)
    return scored.value


@pytest.mark.parametrize(
    ("checkpoints", "expected"),
    [
        ([{"points": 4, "result": 4}], 1.0),
        ([{"points": 1, "result": 1}, {"points": 3, "result": 0}], 0.125),
        ([{"points": 2, "result": 2}, {"points": 2, "result": 1}], 0.375),
        ([{"total": 2, "result": 1}], 0.25),
        ([{"points": 5, "result": 0}], 0.0),
    ],
)
async def test_half_for_the_points_and_half_for_all_of_them(
    checkpoints: Any, expected: float
) -> None:
    assert await score_of(checkpoints) == pytest.approx(expected)


@pytest.mark.parametrize(
    "checkpoints",
    [
        None,
        [],
        "all",
        [{"points": 2}],
        [{"points": 2, "result": 3}],
        [{"points": 2, "result": -1}],
        [{"points": 0, "result": 0}],
        [{"points": True, "result": True}],
        [{"points": 1, "result": 1}, "x"],
    ],
)
async def test_what_cannot_be_read_is_no_score(checkpoints: Any) -> None:
    assert await score_of(checkpoints) is None
    assert await score_of(checkpoints, ProgressScore()) is None


async def test_progress_is_the_root_of_the_share_of_points() -> None:
    some = [{"points": 1, "result": 1}, {"points": 3, "result": 0}]
    assert await score_of(some, ProgressScore()) == pytest.approx(0.5)
    assert await score_of([{"points": 3, "result": 3}], ProgressScore()) == 1.0
    assert await score_of([{"points": 3, "result": 0}], ProgressScore()) == 0.0
