import pytest
from tests.unit.gateway.pieces import say, talk

from practicum.core.conversation import RolloutLimits
from practicum.core.sample import Episode
from practicum.gateway.requests import ChatRequest, Refused
from practicum.gateway.rollouts import OpenRollouts, RolloutController


def controller() -> tuple[RolloutController, OpenRollouts, list[Episode], list[int]]:
    registry, kept, seeds = OpenRollouts(), list[Episode](), list[int]()

    def converse(seed: int):  # type: ignore[no-untyped-def]
        seeds.append(seed)
        return talk()[0]

    return RolloutController(registry, converse, kept.append, model="m"), registry, kept, seeds


async def test_a_closed_rollout_is_kept_with_its_reward_and_its_tokens() -> None:
    made, registry, kept, _ = controller()
    rollout = made.open(RolloutLimits(max_turns=2), "task 1")
    await rollout.conversation.respond(ChatRequest(messages=(say("user", "q"),)))
    assert made.reward(rollout.id, {"solved": 1.0, "brevity": 0.5}).value == 1.5
    made.reward(rollout.id, {"solved": 0.25})
    made.close(rollout.id)
    [episode] = kept
    assert (episode.trace.task_id, episode.trace.env, episode.trace.model) == (
        "task 1",
        "gateway",
        "m",
    )
    assert episode.score.value == 0.25
    assert len(episode.trace.turns) == 1
    with pytest.raises(Refused, match="closed"):
        registry.find(None, rollout.key)


def test_a_rollout_without_a_reward_is_unscored() -> None:
    made, _, kept, _ = controller()
    made.open(RolloutLimits())
    assert made.close_all() == 1
    assert kept[0].score.value is None


def test_every_rollout_has_a_seed_of_its_own() -> None:
    made, _, _, seeds = controller()
    for _ in range(5):
        made.open(RolloutLimits())
    assert len(set(seeds)) == 5


def test_what_is_not_open_or_not_a_number_is_refused() -> None:
    made, _, _, _ = controller()
    rollout = made.open(RolloutLimits())
    for value in (float("nan"), float("inf")):
        with pytest.raises(Refused, match="must be a number"):
            made.reward(rollout.id, {"reward": value})
    made.close(rollout.id)
    for ask in (lambda: made.close(rollout.id), lambda: made.reward(rollout.id, {"r": 1.0})):
        with pytest.raises(Refused, match="no open rollout"):
            ask()
