"""What every family of office tasks keeps to, without playing it."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from practicum_envs.office.families.all_families import families
from practicum_envs.office.generated_company import generate_company
from practicum_envs.office.office_environment import OfficeOptions
from practicum_envs.office.office_plan import Family, Setting

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
        assert 1 <= len(plan.checkpoints) <= 4
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


@pytest.mark.parametrize("family", FAMILIES, ids=names(FAMILIES))
def test_a_family_tells_its_task_in_five_wordings_with_the_same_facts_that_its_seed_draws(
    family: Family,
) -> None:
    told: list[tuple[str, ...]] = []

    class Watched(Setting):
        def told(self, wordings: Sequence[str], **facts: object) -> str:
            told.append(tuple(wordings))
            return super().told(wordings, **facts)

    drawn = set()
    for n in range(60):
        rng = random.Random(n)
        base = generate_company(rng, family.split)
        words = random.Random(f"words {n}")
        text = family.make(Watched(rng=rng, base=base, split=family.split, words=words)).instruction
        drawn.add(shape_of(text, told[-1]))
    assert len(drawn) == len(set(told[0])) >= 5
    facts = [set(re.findall(r"{(\w+)", one)) for one in told[0]]
    assert all(one == facts[0] for one in facts)


def shape_of(text: str, wordings: Sequence[str]) -> int:
    """Which of the wordings it is: that of which it has the most pieces."""
    found = [re.split(r"{[\w.]+}", one) for one in wordings]
    shares = [sum(piece in text for piece in pieces) / len(pieces) for pieces in found]
    return shares.index(max(shares))


@pytest.mark.parametrize("family", LONG, ids=names(LONG))
def test_wordings_differ_in_their_structure(family: Family) -> None:
    texts = [family.plan(str(n), family.split).instruction for n in range(40)]
    openings = {text.partition(" ")[0] for text in texts}
    assert len(openings) >= 4
    assert len({text.count("\n") for text in texts}) >= 2


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


@pytest.mark.parametrize("family", FAMILIES, ids=names(FAMILIES))
def test_from_level_three_on_a_company_has_more_than_the_task_is_about(family: Family) -> None:
    company = family.plan("0", family.split).company
    has = {
        "rocketchat": sum(len(one.posts) for one in company.channels) >= 20,
        "owncloud": sum(len(text) > 1000 for text in company.files.values()) >= 8,
        "gitlab": len(company.projects) > 1,
        "plane": len(company.boards) > 1,
    }
    if family.level < 3:
        assert not any(has.values())
    else:
        assert all(has[one] for one in family.services)
