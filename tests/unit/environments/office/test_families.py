"""What every family of office tasks keeps to, without playing it."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from practicum.environments.office.families.all_families import families
from practicum.environments.office.office_environment import OfficeOptions
from practicum.environments.office.office_plan import Family

FAMILIES = sorted(families().values(), key=lambda one: (one.domain, one.level, one.name))
DOCS = Path(__file__).parents[4] / "docs" / "office.md"
HEAD = ("| domain | level | family | services | split |", "| --- | --- | --- | --- | --- |")
LONG = [one for one in FAMILIES if not one.make.__module__.endswith("first_steps")]


def names(found: list[Family]) -> list[str]:
    return [one.name for one in found]


def test_there_are_forty_families_of_ten_domains_on_four_levels_in_both_splits() -> None:
    for split, least in (("train", 30), ("heldout", 10)):
        found = [one for one in FAMILIES if one.split == split]
        assert len(found) >= least
        assert len({one.domain for one in found}) == 10
        assert {one.level for one in found} == {1, 2, 3, 4}


def test_a_level_says_how_many_services_are_needed() -> None:
    for one in FAMILIES:
        assert len(one.services) == (1 if one.level <= 2 else 2), one.name
    asks = {one.name for one in FAMILIES if one.plan("0", one.split).company.colleagues}
    assert asks == {one.name for one in FAMILIES if one.level == 4}


@pytest.mark.parametrize("family", FAMILIES, ids=names(FAMILIES))
def test_a_hundred_seeds_give_a_hundred_tasks_with_their_own_solutions(family: Family) -> None:
    plans = [family.plan(str(n), family.split) for n in range(100)]
    asked = [(plan.instruction, plan.company.fingerprint()) for plan in plans]
    assert len(set(asked)) == 100
    most = Counter(plan.reference for plan in plans).most_common(1)[0][1]
    assert most <= 5, "an answer that fits so many tasks can be guessed"


@pytest.mark.parametrize("family", FAMILIES, ids=names(FAMILIES))
def test_the_same_seed_gives_the_same_task(family: Family) -> None:
    one, two = (family.plan("4", family.split) for _ in range(2))
    assert (one.instruction, one.reference, one.near_misses) == (
        two.instruction,
        two.reference,
        two.near_misses,
    )
    assert one.company.fingerprint() == two.company.fingerprint()


@pytest.mark.parametrize("family", FAMILIES, ids=names(FAMILIES))
def test_checkpoints_and_solutions_have_the_size_they_should(family: Family) -> None:
    for n in range(20):
        plan = family.plan(str(n), family.split)
        assert (1 if family.level == 1 else 2) <= len(plan.checkpoints) <= 5
        assert plan.near_misses
        assert plan.reference not in plan.near_misses
        assert len(plan.reference) < OfficeOptions().rounds


@pytest.mark.parametrize("family", LONG, ids=names(LONG))
def test_a_task_is_told_in_400_to_1200_characters_with_nothing_left_to_fill_in(
    family: Family,
) -> None:
    for n in range(20):
        text = family.plan(str(n), family.split).instruction
        assert 400 <= len(text) <= 1200
        assert "{" not in text


def test_the_families_of_training_and_those_held_out_have_no_text_in_common() -> None:
    texts = sorted((one.plan("1", one.split).instruction[:120], one.split) for one in LONG)
    assert all(first != second for first, second in pairwise(texts))


def test_the_guide_lists_every_family() -> None:
    rows = [
        f"| {one.domain} | {one.level} | `{one.name}`: {(one.make.__doc__ or '').strip()} | "
        f"{', '.join(one.services)} | {'held out' if one.split == 'heldout' else 'train'} |"
        for one in FAMILIES
    ]
    table = "\n".join((*HEAD, *rows))
    assert table in DOCS.read_text(), f"docs/office.md needs this table:\n{table}"
