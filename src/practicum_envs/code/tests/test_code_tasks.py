"""The generator: what tasks are, which are held out, and that their answers are right."""

import random
from itertools import islice

import pytest

from practicum.core.errors import UserError
from practicum.environments.reference_policies import is_writable, random_action_text
from practicum_envs.code.code_environment import CodeEnvironment, CodeOptions, problem_in
from practicum_envs.code.code_problem import content_hash, own_results, read_tests, value_in
from practicum_envs.code.code_turns import FORMS
from practicum_envs.code.families.all_code_families import code_families
from practicum_envs.code.inside_program import same


def tasks(split: str, count: int, seed: int = 0, **options: object) -> list[object]:
    env = CodeEnvironment(CodeOptions(**options))  # type: ignore[arg-type]
    return list(islice(env.tasks(split, seed), count))  # type: ignore[arg-type]


def test_there_are_at_least_thirty_families_of_nine_domains() -> None:
    families = code_families().values()
    assert len(families) >= 50
    assert len({one.domain for one in families}) == 9
    held = {one.domain for one in families if one.heldout}
    assert held == {one.domain for one in families}


@pytest.mark.parametrize("level", [1, 2, 3])
def test_held_out_families_are_never_trained_on(level: int) -> None:
    train = {one.data["family"] for one in tasks("train", 90, level=level)}  # type: ignore[attr-defined]
    held = {one.data["family"] for one in tasks("heldout", 30, level=level)}  # type: ignore[attr-defined]
    assert train
    assert held
    assert not train & held


def test_held_out_names_ask_nothing_that_training_asks() -> None:
    train, held = (
        {content_hash(problem_in(one)) for one in tasks(split, 120, heldout="names")}  # type: ignore[arg-type]
        for split in ("train", "heldout")
    )
    assert not train & held


@pytest.mark.parametrize("level", [1, 2, 3])
def test_programs_agree_with_the_independent_answers(level: int) -> None:
    for split in ("train", "heldout"):
        for task in tasks(split, 54, seed=7, level=level):
            problem = problem_in(task)  # type: ignore[arg-type]
            cases = [*problem.visible, *problem.hidden, *problem.pool, *problem.large]
            found = own_results(problem, problem.program, [one.args for one in cases], 10**6)
            for case, result in zip(cases, found, strict=True):
                assert same(value_in(result), case.expected), (problem.program, case, result)


def test_own_tests_of_the_solution_hold_and_catch_every_mutant() -> None:
    for task in tasks("train", 42, seed=1, level=2):
        problem = problem_in(task)  # type: ignore[arg-type]
        cases = [one.case for one in read_tests("\n".join(problem.own_tests), problem)]  # type: ignore[union-attr]
        args = [one.args for one in cases]
        for source, is_right in ((problem.program, True), *((m, False) for m in problem.mutants)):
            found = own_results(problem, source, args)
            met = [same(value_in(a), b.expected) for a, b in zip(found, cases, strict=True)]
            assert all(met) == is_right, (source, problem.own_tests)


def test_an_id_opens_its_task_again() -> None:
    env = CodeEnvironment(CodeOptions(level=[1, 3]))
    for task in islice(env.tasks("heldout", 3), 30):
        assert env.find(task.id) == task


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"families": ["count_abov"]}, "there is no family 'count_abov' of code tasks"),
        ({"domains": ["cooking"]}, "there is no domain 'cooking' of code tasks"),
    ],
)
def test_options_that_name_nothing_are_told_so(options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        CodeEnvironment(CodeOptions(**options))  # type: ignore[arg-type]


def test_an_unknown_task_is_told_so() -> None:
    with pytest.raises(UserError, match="there is no task 'code-train-L1-nothing-s0-0'"):
        CodeEnvironment(CodeOptions()).find("code-train-L1-nothing-s0-0")
    with pytest.raises(UserError, match="is trained on; write code-train-L1-count_above-s0-0"):
        CodeEnvironment(CodeOptions()).find("code-kinds-L1-count_above-s0-0")


def test_a_choice_without_held_out_families_is_told_what_to_write() -> None:
    with pytest.raises(UserError, match=r"env\.heldout=names"):
        tasks("heldout", 1, families=["count_above"])


@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_solution_can_be_written_with_constrained_actions(level: int) -> None:
    env = CodeEnvironment(CodeOptions(level=level, actions="constrained"))
    for split in ("train", "heldout"):
        for task in islice(env.tasks(split, 5), 42):  # type: ignore[arg-type]
            for turn in env.reference(task):
                assert is_writable(FORMS, turn), turn


def test_random_arguments_end_by_themselves() -> None:
    rng = random.Random(0)
    texts = [random_action_text(FORMS, rng) for _ in range(300)]
    assert max(map(len, texts)) < 250
