import json
from itertools import islice

import pytest

from practicum_envs.writing.brief import Brief
from practicum_envs.writing.brief_generator import (
    FAMILIES,
    LEVELS,
    SHAPES,
    draw_task,
    draw_tasks,
    plan_task,
)
from practicum_envs.writing.community_families import COMMUNITY_FAMILIES
from practicum_envs.writing.heldout_families import HELDOUT_FAMILIES
from practicum_envs.writing.trade_families import TRADE_FAMILIES
from practicum_envs.writing.typed_values import mentions
from practicum_envs.writing.value_places import IN_WORDS, canonical

TRAINING_FAMILIES = (*COMMUNITY_FAMILIES, *TRADE_FAMILIES)


def test_there_are_enough_families_and_none_is_on_both_sides() -> None:
    assert len(TRAINING_FAMILIES) >= 12
    assert {one.split for one in TRAINING_FAMILIES} == {"train"}
    assert {one.split for one in HELDOUT_FAMILIES} == {"heldout"}
    assert len(FAMILIES) == len(TRAINING_FAMILIES) + len(HELDOUT_FAMILIES)


def test_topics_of_training_are_never_held_out() -> None:
    train = {topic for one in FAMILIES.values() for topic in one.topics["train"]}
    heldout = {topic for one in FAMILIES.values() for topic in one.topics["heldout"]}
    assert not train & heldout


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_can_fill_its_briefs_and_says_where_two_facts_are_of_one_kind(name: str) -> None:
    family = FAMILIES[name]
    assert len(family.slots) >= SHAPES[4].facts
    assert len(family.private) >= SHAPES[4].private
    assert len({slot.label for slot in (*family.slots, *family.private)}) == 9
    for slot in family.slots:
        rivals = [one for one in family.slots if one.kind == slot.kind]
        assert slot.kind in ("phrase", "email") or len(rivals) < 2 or slot.cues, slot.key
    for pair, wording in family.joined.items():
        assert set(pair) <= {slot.key for slot in family.slots}
        assert "{a}" in wording
        assert "{b}" in wording


@pytest.mark.parametrize("name", FAMILIES)
def test_values_of_briefs_can_be_read(name: str) -> None:
    for number in range(10):
        for fact in plan_task(4, FAMILIES[name], "train", number).brief.all_facts:
            assert fact.kind in IN_WORDS or len(mentions(fact.value)) == 1
            assert (canonical(fact) is None) == (fact.kind in IN_WORDS)


@pytest.mark.parametrize("level", LEVELS)
def test_a_brief_survives_json(level: int) -> None:
    for task in islice(draw_tasks((level,), "train", "train", 3), 5):
        kept = json.loads(json.dumps(dict(task.data)))
        assert Brief.of(kept["brief"]).as_json() == task.data["brief"]
        assert Brief.of(kept["brief"]) == Brief.of(task.data["brief"])  # type: ignore[arg-type]


def test_a_number_stands_for_one_task_and_seeds_give_others() -> None:
    family = FAMILIES["notice"]
    assert draw_task(2, family, "train", 7) == draw_task(2, family, "train", 7)
    ids = {
        task.id
        for seed in range(3)
        for task in islice(draw_tasks(LEVELS, "train", "train", seed), 40)
    }
    assert len(ids) == 120


def test_families_and_levels_are_evenly_mixed() -> None:
    some = list(islice(draw_tasks((1, 3), "heldout", "heldout", 0), 2 * len(HELDOUT_FAMILIES)))
    assert {(task.level, task.data["family"]) for task in some} == {
        (level, one.name) for level in (1, 3) for one in HELDOUT_FAMILIES
    }
