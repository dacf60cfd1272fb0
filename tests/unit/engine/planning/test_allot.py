"""What is chosen for how much memory."""

from dataclasses import replace

import pytest

from practicum.core.config.parse_config import apply_overrides, build_config
from practicum.core.config.run_config import RunConfig
from practicum.engine.planning.memory import Allotment, conversation_tokens, rollout_tokens
from practicum.engine.planning.memory_plan import PlannedRun, allot, explain_allotment
from practicum.engine.planning.model_shapes import KNOWN_SHAPES

GIB = 1 << 30
BIG = KNOWN_SHAPES["Qwen/Qwen2.5-7B-Instruct"]
SMALL = KNOWN_SHAPES["smollm2-135m"]


def make_config(*words: str) -> RunConfig:
    return build_config(apply_overrides({"env": "math"}, words))


def card(gib: float, *words: str, free_gib: float | None = None) -> PlannedRun:
    free = gib if free_gib is None else free_gib
    return PlannedRun(
        shape=BIG,
        config=make_config(*words),
        device="cuda",
        dtype="bfloat16",
        compact_heap=False,
        memory_bytes=int(gib * GIB),
        free_bytes=int(free * GIB),
    )


def processor(gib: float, *words: str) -> PlannedRun:
    case = card(gib, *words)
    return replace(case, shape=SMALL, device="cpu", dtype="float32")


def test_with_room_a_batch_keeps_the_device_busy_and_everything() -> None:
    assert allot(processor(16)).batch_tokens == 2048
    assert allot(card(40)).batch_tokens == 4096
    assert not allot(processor(16)).checkpointed
    assert not allot(card(40)).checkpointed


def test_a_card_with_more_room_learns_from_a_whole_step_at_once() -> None:
    case = card(139)

    assert allot(case).batch_tokens == rollout_tokens(case.config)


def test_less_memory_makes_the_batch_smaller_before_layers_are_computed_again() -> None:
    found = [allot(card(gib)) for gib in (40, 30, 24, 20)]
    batches = [one.batch_tokens for one in found]

    assert batches == sorted(batches, reverse=True)
    assert batches[0] > batches[1] > batches[2] > batches[3]
    assert not any(one.checkpointed for one in found)


def test_layers_are_computed_again_where_one_conversation_would_not_fit() -> None:
    case = card(24, "rollouts.max_turns=100")
    longest = conversation_tokens(case.config)
    whole = Allotment(batch_tokens=longest, checkpointed=False, kv_slots=2048)
    assert case.total(whole) > case.usable_bytes

    chosen = allot(case)

    assert chosen.checkpointed
    assert chosen.batch_tokens >= longest
    assert case.total(chosen) <= case.usable_bytes


@pytest.mark.parametrize("gib", [20, 24, 32, 48, 80])
@pytest.mark.parametrize("turns", [2, 8, 40])
def test_what_is_chosen_fits_and_the_next_larger_batch_would_not(gib: int, turns: int) -> None:
    case = card(gib, f"rollouts.max_turns={turns}")
    chosen = allot(case)
    roomy = max(4096, conversation_tokens(case.config))

    assert case.total(chosen) <= case.usable_bytes
    if chosen.batch_tokens < roomy and not chosen.checkpointed:
        larger = replace(chosen, batch_tokens=min(roomy, chosen.batch_tokens + 512))
        assert case.total(larger) > case.usable_bytes


def test_a_batch_named_in_the_config_is_kept() -> None:
    for gib in (17, 24, 139):
        assert allot(card(gib, "algorithm.micro_batch_tokens=777")).batch_tokens == 777


def test_what_is_free_decides_on_checkpointing_alone() -> None:
    """So that a run resumed beside other programs ends with the same bytes."""
    alone, crowded = allot(card(24)), allot(card(24, free_gib=19))

    assert (alone.checkpointed, crowded.checkpointed) == (False, True)
    assert replace(crowded, checkpointed=False) == alone


def test_the_cache_holds_a_step_and_where_there_is_room_an_evaluation() -> None:
    tight, roomy = (allot(card(gib, "rollouts.tasks_per_step=4")) for gib in (24, 40))

    assert tight.kv_slots == 16_384  # 8,704 tokens of rollouts
    assert roomy.kv_slots == 32_768  # 24,576 tokens of an evaluation


def test_the_cache_is_made_smaller_rather_than_the_run_refused() -> None:
    case = card(21, "rollouts.tasks_per_step=64", "rollouts.max_turns=40")
    chosen = allot(case)

    assert chosen.kv_slots < rollout_tokens(case.config)
    assert case.total(chosen) <= case.usable_bytes


def test_nothing_is_given_up_in_vain_when_nothing_fits() -> None:
    """Sampling needs the most here, so a smaller batch would save nothing."""
    case = replace(processor(20), shape=BIG)
    chosen = allot(case)

    assert case.total(chosen) > case.memory_bytes
    assert chosen.batch_tokens == 2048


def test_every_choice_says_why() -> None:
    case = card(24, "rollouts.tasks_per_step=4")
    batch, checkpointing, cache = explain_allotment(case, allot(case))

    assert batch.value == "1,536 tokens"
    assert batch.reason.startswith("4,096 would need 30.")
    assert (checkpointing.value, cache.value) == ("off", "16,384 slots")
    assert "8,704 tokens" in cache.reason
