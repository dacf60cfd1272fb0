"""Generated tasks as a whole: reproducible, no duplicates, splits do not overlap, every skill."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from itertools import islice

import pytest

from practicum.core.errors import UserError
from practicum.core.task import Split, Task
from practicum_envs.shell.generated.assertions import KINDS
from practicum_envs.shell.generated.step import SKILLS
from practicum_envs.shell.generated.task_generator import (
    LEVELS,
    TEMPLATES,
    generate,
    task_from_id,
)

SPLITS: tuple[Split, ...] = ("train", "heldout")
EACH = 200
"""Tasks looked at of each split and level."""


def some(split: Split, level: int, seed: int = 0, n: int = EACH) -> list[Task]:
    return list(islice(generate(split, seed, level), n))


@pytest.fixture(scope="module")
def supply() -> dict[Split, list[Task]]:
    return {split: [t for level in LEVELS for t in some(split, level)] for split in SPLITS}


def content(task: Task) -> str:
    return json.dumps([task.data["setup"], task.data["check"]])


def test_the_same_seed_gives_the_same_tasks() -> None:
    assert some("train", 3, seed=5, n=40) == some("train", 3, seed=5, n=40)
    assert some("train", 3, seed=5, n=40) != some("train", 3, seed=6, n=40)


def test_tasks_do_not_depend_on_the_interpreters_hashing() -> None:
    program = (
        "from itertools import islice\n"
        "from practicum_envs.shell.generated.task_generator import generate\n"
        "print([t for l in (1, 4, 8) for t in islice(generate('heldout', 3, l), 15)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_ids_and_contents_are_all_different(supply: dict[Split, list[Task]]) -> None:
    tasks = [task for split in SPLITS for task in supply[split]]
    assert len(tasks) == len(SPLITS) * len(LEVELS) * EACH
    assert len({task.id for task in tasks}) == len(tasks)
    assert len({content(task) for task in tasks}) == len(tasks)


def test_other_seeds_give_other_tasks(supply: dict[Split, list[Task]]) -> None:
    known = {content(task) for task in supply["train"]}
    again = [task for level in LEVELS for task in some("train", level, seed=1, n=100)]
    assert not known.intersection(content(task) for task in again)


def test_a_task_is_made_again_from_its_id(supply: dict[Split, list[Task]]) -> None:
    for split in SPLITS:
        for task in random.Random(0).sample(supply[split], 100):
            assert task_from_id(task.id) == task


def test_no_template_and_no_composition_is_on_both_sides(supply: dict[Split, list[Task]]) -> None:
    used = {
        split: {name for task in supply[split] for name in str(task.data["template"]).split("+")}
        for split in SPLITS
    }
    assert not used["train"] & used["heldout"]
    assert used["train"] | used["heldout"] == {template.name for template in TEMPLATES}


def test_a_level_is_the_number_of_skills(supply: dict[Split, list[Task]]) -> None:
    for split in SPLITS:
        for task in supply[split]:
            skills = task.data["skills"]
            assert isinstance(skills, list)
            assert len(set(map(str, skills))) == len(skills) == task.level
            assert (task.env, task.split) == ("shell", split)


@pytest.mark.parametrize("split", SPLITS)
def test_every_skill_occurs_about_as_often_as_the_others(
    split: Split, supply: dict[Split, list[Task]]
) -> None:
    by_level: dict[int, Counter[str]] = {level: Counter() for level in LEVELS}
    for task in supply[split]:
        by_level[task.level].update(map(str, task.data["skills"]))  # type: ignore[arg-type]
    assert all(set(counts) == set(SKILLS) for counts in by_level.values())
    counts = sum(by_level.values(), Counter())
    assert min(counts.values()) > counts.total() / len(SKILLS) / 2


def test_data_is_json_of_the_agreed_shape(supply: dict[Split, list[Task]]) -> None:
    for task in supply["train"][::7] + supply["heldout"][::7]:
        data = json.loads(json.dumps(dict(task.data)))
        assert data == task.data
        assert data["source"] == "generated"
        assert data["check"]["kind"] == "state"
        assert len(data["near_misses"]) >= 2
        assert len(set(data["near_misses"])) == len(data["near_misses"])
        assert data["reference"] not in data["near_misses"]
        records = data["check"]["assertions"]
        assert all(
            record.keys() == {"kind", *KINDS[record["kind"]].__annotations__} for record in records
        )
        assert data["difficulty"]["skills"] == task.level


def test_higher_levels_look_harder(supply: dict[Split, list[Task]]) -> None:
    for split in SPLITS:
        means = []
        for level in LEVELS:
            scores = [
                float(task.data["difficulty"]["score"])  # type: ignore[index, call-overload, arg-type]
                for task in supply[split]
                if task.level == level
            ]
            means.append(sum(scores) / len(scores))
        assert means == sorted(means)


def test_instructions_can_be_shown_in_the_text_protocol(supply: dict[Split, list[Task]]) -> None:
    for split in SPLITS:
        for task in supply[split]:
            assert task.instruction.strip() == task.instruction
            assert "  " not in task.instruction
            for script in (task.data["reference"], *task.data["near_misses"]):  # type: ignore[misc]
                assert "```" not in str(script)


@pytest.mark.parametrize("level", [0, 9, -1])
def test_an_unknown_level_is_refused(level: int) -> None:
    with pytest.raises(UserError, match="levels are 1 to 8"):
        next(generate("train", 0, level))


@pytest.mark.parametrize(
    "task_id", ["", "gen-train-L2-s0", "gen-test-L2-s0-1", "math-1", "gen-train-L2-s0-" + "9" * 40]
)
def test_an_unknown_id_is_refused_with_an_example(task_id: str) -> None:
    with pytest.raises(UserError, match="write one such as 'gen-train-L2-s0-17'"):
        task_from_id(task_id)


def test_an_id_of_an_unknown_level_is_refused() -> None:
    with pytest.raises(UserError, match="level 9"):
        task_from_id("gen-train-L9-s0-1")


def test_familiar_tasks_are_of_the_training_kinds_with_names_of_their_own() -> None:
    """No training task says what a familiar one says, though the work is of the same templates."""
    familiar = [t for level in (1, 2) for t in islice(generate("familiar", 0, level), EACH)]
    trained = [t for level in (1, 2) for t in some("train", level)]
    of_split = {s: {t.name for t in TEMPLATES if t.split == s} for s in SPLITS}
    used = {name for task in familiar for name in str(task.data["template"]).split("+")}
    assert used
    assert used <= of_split["train"]
    assert not used & of_split["heldout"]
    assert {task.split for task in familiar} == {"heldout"}
    assert not {content(t) for t in familiar} & {content(t) for t in trained}
    assert task_from_id(familiar[7].id) == familiar[7]
