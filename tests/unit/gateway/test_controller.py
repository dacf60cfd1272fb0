import pytest
from tests.unit.gateway.pieces import say, talk

from practicum.core.conversation import RolloutLimits
from practicum.core.errors import UserError
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


class FullDisk:
    """A store that has no room at first."""

    def __init__(self) -> None:
        self.is_full = True
        self.kept: list[Episode] = []

    def keep(self, episode: Episode) -> None:
        if self.is_full:
            raise UserError("traces.sqlite could not be written: the disk is full")
        self.kept.append(episode)


async def test_a_rollout_that_cannot_be_stored_stays_open_until_it_can() -> None:
    registry, store = OpenRollouts(), FullDisk()
    made = RolloutController(registry, lambda seed: talk()[0], store.keep)
    rollout = made.open(RolloutLimits())
    await rollout.conversation.respond(ChatRequest(messages=(say("user", "q"),)))
    made.reward(rollout.id, {"reward": 1.0})
    with pytest.raises(Refused, match=r"stays open: .* the disk is full; close it again") as caught:
        made.close(rollout.id)
    assert (caught.value.status, caught.value.kind) == (503, "overloaded_error")
    assert registry.find(None, rollout.key).id == rollout.id
    await rollout.conversation.respond(ChatRequest(messages=(say("user", "more"),)))
    store.is_full = False
    assert made.close(rollout.id).score.value == 1.0
    [episode] = store.kept
    assert len(episode.trace.turns) == 2
    with pytest.raises(Refused, match="closed"):
        registry.find(None, rollout.key)


async def test_what_cannot_be_stored_at_the_end_is_put_aside_with_the_reason() -> None:
    registry, store = OpenRollouts(), FullDisk()
    made = RolloutController(registry, lambda seed: talk()[0], store.keep)
    first, second = made.open(RolloutLimits()), made.open(RolloutLimits())
    aside: list[tuple[str, str]] = []

    def put_aside(episode: Episode, why: str) -> None:
        aside.append((episode.trace.id, why))
        store.is_full = False  # from here on there is room

    assert made.close_all(put_aside) == 2
    assert aside == [
        (f"gateway/{first.id}", "traces.sqlite could not be written: the disk is full")
    ]
    assert [episode.trace.id for episode in store.kept] == [f"gateway/{second.id}"]
    assert len(registry) == 0
