"""Composition: the right number of skills, in the order of a draft, wrong in one part at a time."""

import random
import subprocess
from collections.abc import Callable

import pytest

from practicum.core.task import Split
from practicum_envs.shell.generated.step import SKILLS, Step, Template
from practicum_envs.shell.generated.task_draft import TaskDraft
from practicum_envs.shell.generated.task_generator import (
    TEMPLATES,
    choose_templates,
    compose,
    near_misses_of,
)

USUAL = (
    "addgroup awk cat cd chage chgrp chmod chown chsh cp echo exit find gpasswd grep groupadd ln "
    "ls mkdir mv rm sed sleep tee touch useradd usermod vi wc"
)


def each_template() -> Callable[[Callable[..., None]], Callable[..., None]]:
    return pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t.name)


def made(template: Template, seed: int) -> tuple[TaskDraft, Step]:
    draft = TaskDraft(template.split, random.Random(seed))
    return draft, template.make(draft)


def test_the_skills_are_the_usual_ones_and_archives_and_processes() -> None:
    assert sorted(SKILLS) == sorted([*USUAL.split(), "tar", "gzip", "zip", "kill"])


def test_names_of_templates_are_unique() -> None:
    assert len({template.name for template in TEMPLATES}) == len(TEMPLATES)


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_each_skill_has_a_template_of_its_own_on_each_side(split: Split) -> None:
    alone = {t.skills[0] for t in TEMPLATES if t.split == split and len(t.skills) == 1}
    assert alone == set(SKILLS)


@pytest.mark.parametrize("count", range(1, 9))
def test_chosen_templates_use_each_skill_once_and_keep_the_order(count: int) -> None:
    for seed in range(50):
        chosen = choose_templates("train", count, random.Random(seed))
        skills = [skill for template in chosen for skill in template.skills]
        assert len(skills) == len(set(skills)) == count
        assert [t.stage for t in chosen] == sorted(t.stage for t in chosen)


@each_template()
def test_a_template_has_several_wordings_and_at_least_two_wrong_ways(template: Template) -> None:
    steps = [made(template, seed)[1] for seed in range(30)]
    openings = {" ".join(step.instruction.split()[:2]) for step in steps}
    assert len(openings) > 1
    for step in steps:
        assert len(step.near_misses) >= 2
        assert step.assertions
        assert step.reference not in step.near_misses


@each_template()
def test_every_script_of_a_template_can_be_parsed(template: Template) -> None:
    draft, step = made(template, 1)
    for script in ("\n".join(draft.setup), step.reference, *step.near_misses):
        done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


def step(name: str) -> Step:
    wrong = (f"{name} wrong 1", f"{name} wrong 2")
    return Step(instruction="", reference=name, near_misses=wrong, assertions=())


@pytest.mark.parametrize("seed", range(10))
def test_a_wrong_way_changes_or_leaves_out_one_step(seed: int) -> None:
    names = ["a", "b", "c"]
    found = near_misses_of([step(name) for name in names], random.Random(seed))
    touched = []
    for script in found:
        lines = script.splitlines()
        [wrong] = [name for name in names if name not in lines]
        touched.append(wrong)
        assert [line for line in lines if line in names] == [n for n in names if n != wrong]
        assert len(lines) in {2, 3}
    assert len(found) == 5
    assert sorted(touched[:3]) == names


def test_a_task_of_one_step_is_never_left_undone_as_a_wrong_way() -> None:
    assert set(near_misses_of([step("a")], random.Random(0))) == {"a wrong 1\n", "a wrong 2\n"}


@pytest.mark.parametrize("wrong", [("a",), ("a", "b"), ("b", "b")])
def test_a_step_needs_two_wrong_ways_besides_the_right_one(wrong: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="two wrong ways"):
        Step(instruction="", reference="a", near_misses=wrong, assertions=())


def test_assertions_are_not_repeated() -> None:
    for seed in range(60):
        assertions = compose("train", 8, random.Random(seed)).assertions
        assert all(a not in assertions[:at] for at, a in enumerate(assertions))
