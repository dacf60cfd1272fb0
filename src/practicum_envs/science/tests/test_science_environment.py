import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from practicum.core.errors import ConfigError, UserError
from practicum.core.interfaces import Environment
from practicum.core.task import Task
from practicum.environments.checker import check_environment
from practicum.environments.reference_policies import is_writable
from practicum.environments.registry import build_environment, build_level
from practicum_envs.science.law_spaces import LEVELS
from practicum_envs.science.science_environment import ScienceEnvironment, ScienceOptions
from practicum_envs.science.science_problems import world_of
from practicum_envs.science.subjects import SUBJECTS
from practicum_envs.science.worlds import draw_world

EVERY_LEVEL = sorted(LEVELS)


def environment(**options: object) -> ScienceEnvironment:
    return ScienceEnvironment(ScienceOptions.model_validate(options))


def some(science: ScienceEnvironment, split: str, n: int, seed: int = 0) -> list[Task]:
    return list(islice(science.tasks(split, seed), n))  # type: ignore[arg-type]


def family_of(task: Task) -> str:
    return str(task.data["family"])


async def test_the_check_tries_every_near_miss_and_acts_at_random() -> None:
    found = await check_environment(lambda at: build_level("science", at), levels=[1], n=8)
    assert found.is_sound
    assert (found.levels[0].near_misses, found.levels[0].near_miss_solved) == (8 * 16, 0)
    assert found.levels[0].random_solved == 0


async def test_free_actions_keep_the_contract() -> None:
    free = environment(level=2, actions="free")
    found = await check_environment(lambda at: free, levels=[2], n=8)
    assert found.is_sound
    async with free.open(some(free, "train", 1)[0]) as session:
        assert session.actions() == ()


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_there_are_at_least_ten_families_of_which_some_are_never_trained_on(level: int) -> None:
    science = environment(level=level)
    trained = {family_of(task) for task in some(science, "train", 60)}
    held = {family_of(task) for task in some(science, "heldout", 60)}
    assert len(trained) >= 10
    assert len(held) >= 3
    assert not trained & held
    assert trained | held == set(SUBJECTS)


@pytest.mark.parametrize("level", [1, 3])
def test_held_out_names_are_other_worlds_of_the_same_families(level: int) -> None:
    science = environment(level=level, heldout="names")
    train, held = some(science, "train", 150), some(science, "heldout", 75)
    assert {family_of(task) for task in train} == {family_of(task) for task in held}

    def content(task: Task) -> str:
        data = {**task.data, "seed": "", "scatter": 0, "records": []}
        return json.dumps({**data, "factors": sorted(map(str, task.data["factors"]))})  # type: ignore[arg-type]

    assert not {content(task) for task in train} & {content(task) for task in held}
    assert all(world_of(task).split == task.split for task in (*train, *held))


def test_a_world_is_in_one_split_whatever_its_noise_and_the_order_of_its_factors() -> None:
    splits = set()
    for number in range(40):
        world = draw_world(1, "plants", str(number))
        brief = replace(world.brief, scatter=3, factors=world.brief.factors[::-1])
        law = tuple(replace(one, factors=(2 - one.factors[0],)) for one in world.law)
        assert replace(world, brief=brief, law=law, seed="other").split == world.split
        splits.add(world.split)
    assert splits == {"train", "heldout"}


def test_an_id_finds_its_task_whatever_the_seed_and_the_options() -> None:
    for task in some(environment(level=[1, 4]), "train", 8, seed=-3):
        assert environment(level=2).find(task.id) == task
    for task in some(environment(heldout="names"), "heldout", 4):
        assert environment().find(task.id) == task


def test_levels_are_evenly_mixed() -> None:
    tasks = some(environment(level=[1, 2, 5]), "train", 3 * 12 * 3)
    assert [sum(task.level == level for task in tasks) for level in (1, 2, 5)] == [36, 36, 36]


def test_only_the_families_that_are_asked_for_are_there() -> None:
    assert {family_of(t) for t in some(environment(families=["soap"]), "train", 5)} == {"soap"}
    with pytest.raises(UserError, match=r"env\.heldout=names"):
        environment(families=["soap"]).tasks("heldout", 0)
    with pytest.raises(UserError, match="families that are trained on are plants"):
        environment(families=["glue"]).tasks("train", 0)
    with pytest.raises(UserError, match="there is no family 'plant'"):
        environment(families=["plant"])


@pytest.mark.parametrize(
    "text",
    ["", "science", "science-train-plants-L9-s0-0", "science-train-glue-L1-s0-0", "3x + 7 = 16"],
)
def test_what_is_no_task_is_said_in_a_sentence(text: str) -> None:
    with pytest.raises(UserError, match="there is no task"):
        environment().find(text)


def test_a_level_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="level"):
        build_environment("science", {"level": 6})


async def test_what_an_episode_leaves_is_enough_to_judge_it_again() -> None:
    science = environment(level=2)
    task = some(science, "train", 1)[0]
    async with science.open(task) as session:
        assert "law" not in session.prompt()[1].content
        for turn in science.reference(task):
            assert is_writable(session.actions(), turn)
            seen = await session.act(turn)
        outcome = await session.outcome()
        with pytest.raises(RuntimeError, match="over"):
            await session.act("analyze_data")
    assert (seen.terminated, outcome.success) == (True, True)
    assert sum(outcome.turn_rewards) == pytest.approx(science.full_marks(task))
    evidence = outcome.evidence
    assert json.loads(json.dumps(dict(evidence))) == evidence
    assert evidence["conclusion"] == evidence["law"] == task.data["law"]
    assert evidence["brier"] == pytest.approx((float(str(evidence["sure"])) - 1) ** 2)
    assert science.solution(outcome).startswith(str(task.data["law"]))


async def test_doing_nothing_earns_nothing() -> None:
    science: Environment = environment()
    async with science.open(next(science.tasks("train", 0))) as session:
        outcome = await session.outcome()
    assert (outcome.success, outcome.turn_rewards) == (False, ())


@pytest.mark.rare
def test_the_tiny_model_is_trained_on_it(tmp_path: Path) -> None:
    import practicum as pr

    run = pr.train(
        "science",
        model="tiny",
        steps=2,
        warm_start={"name": "reference", "steps": 1},
        rollouts={"tasks_per_step": 2, "group_size": 2},
        eval={"n": 2},
        runs_dir=str(tmp_path),
    )
    assert isinstance(run, pr.Run)
    assert pr.evaluate(run, n=2, quiet=True).report.attempts == 2
