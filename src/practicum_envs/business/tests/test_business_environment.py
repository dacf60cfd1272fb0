import json
from itertools import islice

import pytest

from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.interfaces import Environment
from practicum.core.sampling import action_problems
from practicum.core.task import Task
from practicum.environments.registry import build_environment
from practicum_envs.business.business_environment import (
    BusinessEnvironment,
    BusinessOptions,
    case_of_task,
    task_of,
)
from practicum_envs.business.business_session import BusinessSession
from practicum_envs.business.case_families import FAMILIES
from practicum_envs.business.case_generator import LEVELS, split_of, split_of_key


def environment(**options: object) -> BusinessEnvironment:
    return BusinessEnvironment(BusinessOptions.model_validate(options))


def families_of(split: str, n: int, **options: object) -> set[object]:
    return {one.data["family"] for one in islice(environment(**options).tasks(split, 0), n)}


def test_it_is_an_environment_that_is_found_by_its_name() -> None:
    accepted: Environment = environment()
    assert build_environment("business", {"level": 2}).name == accepted.name


def test_there_are_two_training_families_and_a_held_out_one_of_each_kind() -> None:
    kinds = {one.kind for one in FAMILIES.values()}
    assert kinds == {"pricing", "stock", "hiring", "make_or_buy", "project", "cash_flow"}
    for kind in kinds:
        assert sorted(f.is_heldout for f in FAMILIES.values() if f.kind == kind) == [0, 0, 1]


@pytest.mark.parametrize("level", LEVELS)
def test_held_out_families_are_trained_on_at_no_level(level: int) -> None:
    trained = families_of("train", 24, level=level)
    assert trained == families_of("heldout", 24, level=level, heldout="names")
    held = families_of("heldout", 12, level=level)
    assert len(trained) == 12
    assert len(held) == 6
    assert not trained & held


@pytest.mark.parametrize("heldout", ["kinds", "names"])
def test_a_case_is_in_one_split_by_what_it_holds(heldout: str) -> None:
    one = environment(heldout=heldout)
    for split in ("train", "heldout"):
        for task in islice(one.tasks(split, 3), 12):
            assert (
                task.split == split == split_of(dict(task.data)) == split_of_key(task.data["key"])
            )


def test_the_split_looks_at_the_case_and_not_at_its_words() -> None:
    data = dict(task_of("price", 1, 1).data)
    assert split_of(data) == split_of({**data, "key": 9, "story": "x", "looks": []})
    others = [split_of({**data, "bound": n}) for n in range(100)]
    assert 5 < others.count("heldout") < 40


def test_an_id_stands_for_one_task_whatever_the_seed() -> None:
    one = environment(level=[1, 2])
    for task in [*islice(one.tasks("train", 0), 6), *islice(one.tasks("heldout", 5), 6)]:
        assert one.find(task.id) == task
        assert json.loads(json.dumps(dict(task.data))) == task.data


def test_no_task_comes_twice_in_a_row_of_many() -> None:
    tasks = list(islice(environment(families=["order"]).tasks("train", 0), 60))
    assert len({task.id for task in tasks}) == 60
    assert len({json.dumps(dict(t.data) | {"key": 0}) for t in tasks}) == 60


def test_tasks_come_from_the_levels_and_families_asked_for() -> None:
    tasks = islice(environment(level=[1, 3], families=["loan", "crew"]).tasks("train", 0), 8)
    assert sorted({(t.level, t.data["family"]) for t in tasks}) == [
        *((1, "crew"), (1, "loan")),
        *((3, "crew"), (3, "loan")),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"families": ["prize"]}, "did you mean 'price'"),
        ({"families": ["price"]}, "write env.heldout=names"),
    ],
)
def test_a_family_that_is_not_there_is_told_in_a_sentence(
    options: dict[str, object], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        next(environment(**options).tasks("heldout", 0))


@pytest.mark.parametrize("text", ["business-4-price-1", "business-1-nothing-1", "x", "business-1"])
def test_an_id_that_is_none_is_told_with_one_that_is(text: str) -> None:
    with pytest.raises(UserError, match="such as business-1-price-7"):
        environment().find(text)


async def test_a_task_of_an_unknown_family_is_the_environments_failure() -> None:
    task = Task(id="x", env="business", split="train", data={"family": "astrology"})
    with pytest.raises(EnvironmentFailure, match="astrology"):
        async with environment().open(task):
            pass


@pytest.mark.parametrize("level", LEVELS)
def test_a_solution_fits_the_turns_of_a_rollout_and_the_prompt_names_the_actions(
    level: int,
) -> None:
    one = environment(level=level)
    for task in islice(one.tasks("train", 0), 12):
        session = BusinessSession(case_of_task(task))
        rules, case = session.prompt()
        assert len(one.reference(task)) <= 8
        assert list(action_problems(session.actions())) == []
        assert {form.name.split()[0] for form in session.actions()} <= set(
            rules.content.split()
        ) | {word.rstrip(":") for word in rules.content.split()}
        assert all(item in case.content for item in case_of_task(task).looks)
        assert len(rules.content + case.content) < (1400 if level == 1 else 2200)


async def test_free_actions_are_read_from_what_is_written() -> None:
    one = environment(actions="free")
    task = next(one.tasks("train", 0))
    async with one.open(task) as session:
        assert session.actions() == ()
        assert (await session.act("Well, let me think.")).reward == -0.5
        for turn in one.reference(task):
            await session.act(f"  {turn.replace(' ', '   ')}\n")
        assert (await session.outcome()).success is True


def test_every_family_is_among_the_tasks_to_check() -> None:
    checked = environment(families=["price", "machine"]).tasks_to_check()
    assert {task.data["family"] for task in checked} == {"price", "machine"}
    assert {task.split for task in checked} == {"train", "heldout"}
