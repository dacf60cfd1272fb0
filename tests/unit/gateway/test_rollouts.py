import asyncio
from contextlib import suppress

import pytest
from tests.unit.gateway.pieces import talk

from practicum.core.conversation import RolloutLimits
from practicum.gateway.requests import Refused
from practicum.gateway.rollouts import OpenRollouts, Rollout


def opened(**limits: float) -> tuple[OpenRollouts, Rollout]:
    registry = OpenRollouts()
    return registry, registry.open(talk()[0], RolloutLimits(**limits))  # type: ignore[arg-type]


def refusal(registry: OpenRollouts, name: str | None, key: str) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        registry.find(name, key)
    return caught.value.status, caught.value.kind


def test_a_key_opens_its_own_rollout_by_address_or_alone() -> None:
    registry, rollout = opened()
    for name in (rollout.id, None):
        assert registry.find(name, rollout.key).conversation is rollout.conversation


def test_the_registry_keeps_no_key() -> None:
    registry, rollout = opened()
    assert rollout.key.rpartition("_")[2] not in repr(vars(registry))
    assert registry.find(None, rollout.key).key == ""
    assert len(rollout.key.rpartition("_")[2]) == 32  # 128 bits


def test_a_wrong_key_is_no_key() -> None:
    registry, rollout = opened()
    wrong = rollout.key[:-1] + ("0" if rollout.key[-1] != "0" else "1")
    for key in ("", "rk", wrong, rollout.key + "0", rollout.key.upper(), "rk_é_" + "0" * 32):
        assert refusal(registry, rollout.id, key) == (401, "authentication_error")
    unknown = f"rk_{'0' * 12}_{'0' * 32}"
    assert refusal(registry, None, unknown)[0] == 401


def test_a_key_does_not_open_another_rollout() -> None:
    registry, rollout = opened()
    other = registry.open(talk()[0])
    assert refusal(registry, other.id, rollout.key) == (403, "permission_error")


def test_a_closed_rollout_says_so_to_its_own_key_only() -> None:
    registry, rollout = opened()
    registry.close(rollout.id)
    registry.close(rollout.id)
    assert refusal(registry, rollout.id, rollout.key) == (409, "conflict_error")
    assert refusal(registry, rollout.id, rollout.key[:-4] + "0000")[0] == 401
    assert len(registry) == 0


def admitted(registry: OpenRollouts, rollout: Rollout, turns: int = 1, tokens: int = 10) -> int:
    with registry.admit(rollout, turns=turns, max_tokens=tokens) as admission:
        admission.turns = turns
        admission.charge(turns * admission.max_tokens)
        return admission.max_tokens


def kind_of(registry: OpenRollouts, rollout: Rollout, turns: int = 1) -> str:
    with pytest.raises(Refused) as caught:
        admitted(registry, rollout, turns)
    return caught.value.kind


def test_turns_are_counted_and_limited() -> None:
    registry, rollout = opened(max_turns=3)
    admitted(registry, rollout, turns=2)
    assert kind_of(registry, rollout, turns=2) == "turn_limit"
    admitted(registry, rollout)
    assert kind_of(registry, rollout) == "turn_limit"
    assert rollout.use.turns == 3


def test_a_request_that_fails_uses_no_turn() -> None:
    registry, rollout = opened(max_turns=1, max_tokens=10)
    with pytest.raises(ValueError, match="broke"), registry.admit(rollout, turns=1, max_tokens=5):
        raise ValueError("broke")
    assert (rollout.use.turns, rollout.use.reserved, rollout.use.under_way) == (0, 0, 0)
    admitted(registry, rollout)


def test_what_was_sampled_is_used_however_the_request_ends() -> None:
    registry, rollout = opened(max_tokens=25)
    with suppress(ValueError), registry.admit(rollout, turns=1, max_tokens=20) as late:
        late.charge(7)
        assert (rollout.use.tokens, rollout.use.reserved) == (7, 13)
        raise ValueError("broke")
    late.charge(1)  # the sampler notices a cancellation a step later
    assert (rollout.use.tokens, rollout.use.reserved, rollout.use.turns) == (8, 0, 0)
    assert [admitted(registry, rollout) for _ in range(2)] == [10, 7]
    assert kind_of(registry, rollout) == "token_limit"


def test_tokens_are_cut_to_what_is_left_and_then_refused() -> None:
    registry, rollout = opened(max_tokens=25)
    assert [admitted(registry, rollout) for _ in range(3)] == [10, 10, 5]
    assert kind_of(registry, rollout) == "token_limit"
    assert rollout.use.tokens == 25


def test_requests_under_way_share_what_is_left() -> None:
    registry, rollout = opened(max_tokens=25)
    with registry.admit(rollout, turns=2, max_tokens=10):
        assert admitted(registry, rollout) == 5
    assert admitted(registry, rollout, turns=2) == 10


def test_only_so_many_requests_are_under_way_at_once() -> None:
    registry, rollout = opened(concurrency=2)
    with registry.admit(rollout, turns=1, max_tokens=1):
        with registry.admit(rollout, turns=1, max_tokens=1):
            assert kind_of(registry, rollout) == "rate_limit_error"
        admitted(registry, rollout)


async def test_more_requests_wait_for_a_place_and_each_gets_one() -> None:
    registry, rollout = opened(concurrency=2)
    most = 0

    async def request(number: int) -> int:
        nonlocal most
        await registry.wait_for_place(rollout, 300.0)
        with registry.admit(rollout, turns=1, max_tokens=1):
            most = max(most, rollout.use.under_way)
            await asyncio.sleep(0.001 * (number % 3))
        return number

    assert await asyncio.gather(*map(request, range(12))) == list(range(12))
    assert most == 2
    assert (rollout.use.under_way, len(rollout.use.waiting)) == (0, 0)


async def test_a_client_that_goes_away_while_it_waits_leaves_its_place_to_the_next() -> None:
    registry, rollout = opened(concurrency=1)
    with registry.admit(rollout, turns=1, max_tokens=1):
        first, second = (
            asyncio.create_task(registry.wait_for_place(rollout, 300.0)) for _ in range(2)
        )
        await asyncio.sleep(0)
    first.cancel()  # in the moment in which it was woken
    await asyncio.wait([first, second], timeout=120)
    assert first.cancelled()
    assert second.done()
    assert not rollout.use.waiting


async def test_waiting_has_an_end() -> None:
    registry, rollout = opened(concurrency=1)
    with registry.admit(rollout, turns=1, max_tokens=1), pytest.raises(Refused) as refused:
        await registry.wait_for_place(rollout, 0.01)
    assert (refused.value.status, refused.value.kind) == (429, "rate_limit_error")
    assert not rollout.use.waiting


async def test_who_waits_for_a_place_in_a_rollout_that_is_closed_is_told_so() -> None:
    registry, rollout = opened(concurrency=1)
    with registry.admit(rollout, turns=1, max_tokens=1):
        waiting = asyncio.create_task(registry.wait_for_place(rollout, 300.0))
        await asyncio.sleep(0)
        registry.close(rollout.id)
        await asyncio.wait_for(waiting, 120)
        assert kind_of(registry, rollout) == "conflict_error"


async def test_after_its_deadline_a_rollout_answers_nothing() -> None:
    registry, rollout = opened(deadline_s=3600)
    admitted(registry, rollout)
    rollout.use.opened -= 3600
    assert kind_of(registry, rollout) == "deadline"


def test_a_rollout_found_before_it_was_closed_is_refused_too() -> None:
    registry, rollout = opened()
    found = registry.find(None, rollout.key)
    registry.close(rollout.id)
    assert kind_of(registry, found) == "conflict_error"


def test_answers_are_kept_for_later_requests_but_not_without_end() -> None:
    _, rollout = opened()
    for number in range(300):
        rollout.keep_answer(str(number), ())
    assert len(rollout.use.answers) == 256
    assert "299" in rollout.use.answers
