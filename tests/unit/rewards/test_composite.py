from typing import Any

import pytest
from tests.unit.rewards.traces import make_group, make_task, make_trace

from practicum.core.score import Score
from practicum.core.task import Outcome
from practicum.rewards.behaviour import Efficiency
from practicum.rewards.composite import CompositeReward, InOrder, NormalisedComponents, RewardPart
from practicum.rewards.verifiable import FunctionReward, OutcomeReward, TurnRewards
from practicum.training.algorithms.grpo import Grpo


def part(label: str, value: Any, weight: float = 1.0) -> RewardPart:
    def give(*_: Any) -> Any:
        return value

    return RewardPart(label=label, reward=FunctionReward(name="any", function=give), weight=weight)


async def composed(*parts: RewardPart, outcome: Outcome | None = None) -> Score:
    trace = make_trace("a", "b")
    reward = CompositeReward(parts=parts)
    return await reward.score(make_task(), trace, outcome or Outcome(success=True))


async def test_components_stay_visible_beside_their_weights() -> None:
    score = await composed(
        RewardPart(label="outcome", reward=OutcomeReward()),
        RewardPart(label="brevity", reward=Efficiency(turns=8), weight=0.2),
    )
    assert score.components == {"outcome": 1.0, "brevity": 0.75}
    assert score.weights == {"outcome": 1.0, "brevity": 0.2}
    assert score.value == pytest.approx(1.15)
    assert score.reason == "outcome: correct; brevity: 2 of 8 turns"


async def test_one_part_without_a_score_leaves_the_whole_without() -> None:
    score = await composed(part("a", 1.0), part("b", "nonsense"))
    assert score.value is None
    assert score.components == {"a": 1.0, "b": None}
    assert "a finite number or a Score is needed" in score.reason


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
async def test_a_part_that_is_not_finite_is_no_score(value: float) -> None:
    assert (await composed(part("a", value))).value is None


async def test_turns_are_paid_by_the_weight_of_their_component() -> None:
    outcome = Outcome(success=True, turn_rewards=(1.0, 3.0))
    score = await composed(
        RewardPart(label="turns", reward=TurnRewards(), weight=0.5),
        part("bonus", 2.0),
        outcome=outcome,
    )
    assert score.turn_values == (0.5, 1.5)
    assert score.value == 4.0


async def test_what_is_judged_later_has_no_value_yet() -> None:
    reward = CompositeReward(parts=(part("a", 1.0),), judged_later=(("judge", 2.0),))
    score = await reward.score(make_task(), make_trace("a"), Outcome(success=True))
    assert score.components == {"a": 1.0, "judge": None}
    assert score.weights["judge"] == 2.0
    assert score.value is None


def scores(*rows: tuple[float, float, float]) -> list[Score]:
    weights = {"a": 1.0, "b": 2.0, "c": 1.0}
    return [Score(components=dict(zip("abc", row, strict=True)), weights=weights) for row in rows]


async def test_each_component_is_divided_by_its_spread() -> None:
    """a: 0, 1, 2 has deviation 1; b: 0, 30, 0 has sqrt(300); c is the same for all."""
    group = make_group(scores((0, 0, 5), (1, 30, 5), (2, 0, 5)))
    found = await NormalisedComponents().rescore(group)
    one = found.episodes[1].score
    assert one.components == {"a": 1, "b": 30, "c": 5}
    assert one.weights == pytest.approx({"a": 1.0, "b": 2 / 300**0.5, "c": 0.0})
    assert found.values == pytest.approx((0, 1 + 60 / 300**0.5, 2))


async def test_the_scale_of_a_component_no_longer_matters() -> None:
    small = make_group(scores((0, 1, 0), (1, 0, 0), (1, 1, 0)))
    large = make_group(scores((0, 100, 0), (1, 0, 0), (1, 100, 0)))
    algorithm = Grpo(credit="episode")
    credits = []
    for group in (small, large):
        found = await NormalisedComponents().rescore(group)
        credits.append([c.advantages for c in algorithm.credit([found], {})[0]])
    assert credits[0] == [pytest.approx(one) for one in credits[1]]


async def test_only_usable_episodes_are_compared() -> None:
    group = make_group([*scores((0, 0, 0), (9, 9, 9), (2, 0, 0)), Score.unscored("x")], masked=[1])
    found = await NormalisedComponents().rescore(group)
    assert found.episodes[0].score.weights["a"] == pytest.approx(1 / 2**0.5)
    assert found.episodes[1] == group.episodes[1]
    assert found.episodes[3].score.value is None


async def test_one_episode_alone_stays_as_it_is() -> None:
    group = make_group(scores((1, 2, 3)))
    assert await NormalisedComponents().rescore(group) is group


async def test_turn_values_keep_to_their_component() -> None:
    rows = [
        Score(components={"turns": t, "x": x}, turn_values=(t,))
        for t, x in ((1.0, 0.0), (5.0, 1.0))
    ]
    found = await NormalisedComponents(turns="turns").rescore(make_group(rows))
    spread = 8**0.5  # of 1 and 5
    assert found.episodes[1].score.turn_values == pytest.approx((5 / spread,))
    plain = await NormalisedComponents().rescore(make_group(rows))
    assert plain.episodes[1].score.turn_values == ()


async def test_group_rewards_in_a_row_each_see_the_last_ones_work() -> None:
    group = make_group(scores((0, 0, 0), (2, 0, 0)))
    twice = InOrder(rewards=(NormalisedComponents(), NormalisedComponents()))
    found = await twice.rescore(group)
    assert found.episodes[0].score.weights["a"] == pytest.approx(1 / 2)
