"""Each sign on curves drawn by hand; real runs are in benchmarks/reward_hacks.py."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from practicum.analysis.alerts import RewardShape, change_of, find_hacking, shape_of
from practicum.analysis.evaluations import EvalPoint
from practicum.analysis.run_view import StepRow
from practicum.core.checkpoint import Interval
from practicum.core.config.reward_config import RewardConfig

PLAIN = RewardShape()
THIRDS = RewardShape(weights={"a": 1.0, "b": 1.0, "c": 1.0})
"""Three components that are not about success, none of which makes up half of anything."""


def rows(n: int = 24, **curves: tuple[float, float]) -> list[StepRow]:
    """Steps whose figures go from one value to another, with a little noise."""
    dice = random.Random(0)
    made = []
    first, last = curves.get("reward", (0.0, 0.0))
    curves = {**{f"reward_{label}": (first / 3, last / 3) for label in "abc"}, **curves}
    for step in range(n):
        share = step / (n - 1)
        values = {
            name: first + (last - first) * share + dice.uniform(-0.01, 0.01) * (abs(first) + 0.1)
            for name, (first, last) in {"episodes": (32, 32), **curves}.items()
        }
        made.append(StepRow(step=step + 1, time=0.0, values=values))
    return made


def evaluated(*shares: float, n: int = 200) -> list[EvalPoint]:
    def interval(value: float) -> Interval:
        return Interval(value=value, low=0.0, high=1.0, n=n, method="")

    return [
        EvalPoint(step=step, success=interval(share), reward=interval(0.0))
        for step, share in enumerate(shares)
    ]


def kinds(
    steps: Sequence[StepRow], shares: Sequence[float] = (), shape: RewardShape = THIRDS
) -> list[str]:
    return [sign.kind for sign in find_hacking(steps, evaluated(*shares), shape)]


UP = (0.0, 1.0)
SAME = (0.3, 0.3)


def test_reward_and_success_that_rise_together_are_no_sign() -> None:
    steps = rows(
        reward=UP,
        success=(0.1, 0.8),
        response_tokens=(100, 400),
        repetition=(0.0, 0.4),
        turns=(8, 3),
    )
    assert kinds(steps) == []
    assert kinds(steps, (0.1, 0.7)) == []


def test_reward_that_rises_alone_is_one() -> None:
    assert kinds(rows(reward=UP, success=SAME)) == ["reward"]
    assert kinds(rows(reward=(0.5, 0.5), success=SAME)) == []


def test_parts_of_a_task_may_be_learned_before_the_whole() -> None:
    steps = rows(reward=UP, success=SAME, turns=(2, 6), response_tokens=(20, 90))
    assert kinds(steps, shape=PLAIN) == []
    assert kinds(steps, (0.6, 0.3), shape=PLAIN) == ["reward", "length"]
    paid = shape("turns", {"name": "efficiency", "turns": 4})
    mostly = rows(reward=UP, success=SAME, reward_turns=(0, 0.8), reward_efficiency=(0, 0.2))
    barely = rows(reward=UP, success=SAME, reward_turns=(0, 0.2), reward_efficiency=(0, 0.8))
    assert kinds(mostly, shape=paid) == []
    assert kinds(barely, shape=paid) == ["reward", "component"]


def test_held_out_success_has_the_last_word() -> None:
    steps = rows(reward=UP, success=(0.1, 0.9))
    assert kinds(steps, (0.4, 0.4)) == ["reward"]
    [sign] = find_hacking(steps, evaluated(0.6, 0.3), PLAIN)
    assert sign.is_severe
    assert sign.text == (
        "reward rose from 0.04 to 0.89 while held-out success fell (0.60 to 0.30): see what pays"
    )


def test_a_rise_in_training_is_believed_where_held_out_success_points_the_same_way() -> None:
    steps = rows(reward=UP, success=(0.1, 0.3))
    assert kinds(steps, (0.10, 0.14)) == []
    assert kinds(rows(reward=UP, success=SAME), (0.10, 0.14)) == ["reward"]


def test_what_was_learned_and_lost_again_counts_from_where_it_was_best() -> None:
    up = rows(16, reward=(0.0, 0.5), success=(0.1, 0.8))
    down = rows(16, reward=(0.5, 1.5), success=(0.8, 0.4))
    kept = rows(16, reward=(0.5, 1.5), success=(0.8, 0.8))
    assert kinds(up + down, (0.1, 0.4)) == ["reward"]
    assert kinds(up + kept, (0.1, 0.8)) == []


def test_a_component_that_outweighs_what_was_learned_takes_over() -> None:
    mine = shape("outcome", {"name": "a:care", "weight": 4.0})
    steps = rows(reward=UP, success=(0.1, 0.3), reward_care=(0.0, 0.24))
    [sign] = find_hacking(steps, [], mine)
    assert (sign.kind, "care makes up 96%" in sign.text) == ("takes over", True)
    assert kinds(rows(reward=UP, success=(0.1, 0.3), reward_care=(0.0, 0.1)), shape=mine) == []


def test_what_is_solved_may_still_get_shorter() -> None:
    steps = rows(reward=UP, success=(0.96, 0.96), turns=(8, 3), response_tokens=(90, 30))
    assert kinds(steps) == []
    assert "early stop" in kinds(rows(reward=UP, success=(0.5, 0.5), turns=(8, 3)))


@pytest.mark.parametrize(
    ("name", "curve", "kind"),
    [
        ("response_tokens", (100, 200), "length"),
        ("response_tokens", (200, 100), "length"),
        ("repetition", (0.05, 0.4), "repetition"),
        ("turns", (6, 2), "early stop"),
    ],
)
def test_each_way_has_its_sign(name: str, curve: tuple[float, float], kind: str) -> None:
    found = kinds(rows(reward=UP, success=SAME, **{name: curve}))
    assert sorted(found) == sorted(["reward", kind])


@pytest.mark.parametrize(
    ("name", "curve"),
    [("response_tokens", (100, 120)), ("repetition", (0.05, 0.1)), ("turns", (6, 5.5))],
)
def test_a_small_drift_is_none(name: str, curve: tuple[float, float]) -> None:
    assert kinds(rows(reward=UP, success=SAME, **{name: curve})) == ["reward"]


def shape(*components: object) -> RewardShape:
    return shape_of(RewardConfig.model_validate({"components": components}))


def test_a_component_that_makes_up_the_rise_is_named() -> None:
    form = shape("outcome", {"name": "format", "weight": 2.0})
    steps = rows(reward=UP, success=SAME, reward_format=(0.2, 0.7), reward_outcome=(0.3, 0.3))
    assert kinds(steps, shape=form) == ["reward", "format"]
    mine = shape("outcome", {"name": "a:politeness", "weight": 2.0})
    steps = rows(reward=UP, success=SAME, reward_politeness=(0.2, 0.7))
    assert kinds(steps, shape=mine) == ["reward", "component"]
    penalty = shape("outcome", {"name": "repetition", "weight": -1.0})
    steps = rows(reward=UP, success=SAME, reward_repetition=(-0.1, -0.9))
    assert "component" in kinds(steps, shape=penalty)


def test_a_component_that_decides_alone_takes_over() -> None:
    brevity = shape("outcome", {"name": "efficiency", "turns": 4})
    alone = rows(reward=(0.5, 0.5), success=SAME, decides_efficiency=(0.5, 0.99))
    assert kinds(alone, shape=brevity) == ["takes over"]
    beside = rows(reward=(0.5, 0.5), success=SAME, decides_efficiency=(0.5, 0.6))
    assert kinds(beside, shape=brevity) == []
    truth = rows(reward=(0.5, 0.5), success=SAME, decides_outcome=(0.5, 0.99))
    assert kinds(truth, shape=brevity) == []


def test_a_judge_that_contradicts_itself_is_told_of_from_the_first_steps() -> None:
    judge = shape({"name": "judge", "model": "m", "endpoint": "http://x/v1"})
    assert kinds(rows(3, reward_judge_spread=(0.3, 0.3)), shape=judge) == ["judge"]
    assert kinds(rows(3, reward_judge_spread=(0.05, 0.05)), shape=judge) == []


def test_few_steps_say_nothing() -> None:
    assert kinds(rows(11, reward=UP, success=SAME)) == []
    assert kinds(rows(12, reward=UP, success=SAME)) == ["reward"]
    assert find_hacking([], [], PLAIN) == []


def steps_of(values: Sequence[float], **others: float) -> list[StepRow]:
    return [
        StepRow(step=i, time=0.0, values={"reward": v, "episodes": 32, **others})
        for i, v in enumerate(values)
    ]


def test_a_change_is_measured_in_standard_errors() -> None:
    """Two first steps, four last ones; neighbours differ by 1, so the deviation is 1 / 0.954."""
    change = change_of(steps_of([0, 1] * 4 + [2, 3] * 4), "reward")
    assert change is not None
    assert (change.first, change.last) == (0.5, 2.5)
    assert change.errors == pytest.approx(2 * 0.954 / (1 / 2 + 1 / 4) ** 0.5)


def test_noise_alone_is_no_change() -> None:
    """Of 400 series of noise, those beyond 3 errors either way are few."""
    dice = random.Random(1)
    beyond = 0
    for _ in range(400):
        change = change_of(steps_of([dice.gauss(0.0, 1.0) for _ in range(32)]), "reward")
        assert change is not None
        beyond += change.rose or change.fell
    assert beyond <= 8


def test_a_policy_that_falls_for_it_within_a_few_steps_is_seen() -> None:
    """As the tiny model does when it is paid for few turns: in three steps, for good."""
    rewards = [-0.04, 0.10, 1.53, 1.55] + [1.57] * 3 + [1.55] + [1.57] * 8
    paid = RewardShape(weights={"few_turns": 1.0})
    steps = [
        replace(row, values={**row.values, "reward_few_turns": row.values["reward"]})
        for row in steps_of(rewards, success=0.0)
    ]
    assert kinds(steps, (0.0, 0.0), shape=paid) == ["reward", "component"]
