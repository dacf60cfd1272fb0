"""Generated problems: sound, endless, and never in both splits."""

from itertools import islice

import pytest

from practicum.core.errors import UserError
from practicum.core.task import Split
from practicum_envs.math.equation import parse_equation
from practicum_envs.math.problems import (
    LEVELS,
    LONGEST_REFERENCE,
    Problem,
    find_problem,
    generate,
    problem_of,
)
from practicum_envs.math.rules import full_marks, play, reference_actions

ALL_LEVELS = tuple(LEVELS)


def some(level: int, split: Split, seed: int, n: int) -> list[Problem]:
    return list(islice(generate([level], split, seed), n))


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_the_reference_earns_full_marks_on_200_tasks_of_every_level(level: int) -> None:
    for problem in some(level, "heldout", 1, 200):
        begin = state = problem.start()
        earned = 0.0
        actions = reference_actions(begin)
        for text in actions:
            state, pay, _ = play(state, text)
            assert pay > 0.0
            earned += pay
        assert state.ending == "right"
        assert earned == full_marks(begin)
        assert len(actions) <= LONGEST_REFERENCE


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_no_equation_is_both_in_training_and_held_out_whatever_the_seeds(level: int) -> None:
    sides: dict[Split, set[tuple[object, ...]]] = {"train": set(), "heldout": set()}
    for split, found in sides.items():
        for seed in (0, 1, 2):
            found |= {p.equation.coefficients for p in some(level, split, seed, 80)}
    assert sides["train"]
    assert sides["heldout"]
    assert not sides["train"] & sides["heldout"]


def test_a_rewritten_equation_stays_in_its_split() -> None:
    for problem in some(1, "heldout", 0, 50):
        left, right = str(problem.equation).split(" = ")
        turned = " + ".join(str(t) for t in reversed(problem.equation.left))
        for level, text in ((3, f"{left} = {right}"), (4, f"({left})*2/2 = {right}")):
            assert Problem(level=level, equation=parse_equation(text)).split == "heldout"
        assert Problem(level=2, equation=problem.equation, in_words=True).split == "heldout"
        if "+ -" not in turned:
            other = Problem(level=3, equation=parse_equation(f"{turned} = {right}"))
            assert other.split == "heldout"


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_500_held_out_problems_differ_from_each_other(level: int) -> None:
    problems = some(level, "heldout", 0, 500)
    assert len({p.id for p in problems}) == 500
    assert len({p.statement for p in problems}) == 500


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_the_seed_alone_decides_the_order(level: int) -> None:
    first = [p.id for p in some(level, "train", 4, 30)]
    assert first == [p.id for p in some(level, "train", 4, 30)]
    assert first != [p.id for p in some(level, "train", 5, 30)]


@pytest.fixture(scope="module")
def training_lap() -> tuple[list[str], list[str]]:
    """Ids of level 1's training side up to the first repeat, and the 50 from there on."""
    stream = generate([1], "train", 0)
    first: dict[str, None] = {}
    for problem in stream:
        if problem.id in first:
            return list(first), [problem.id, *(p.id for p in islice(stream, 49))]
        first[problem.id] = None
    raise AssertionError("the training side ended")


def test_training_begins_again_in_another_order_when_all_have_been_given(
    training_lap: tuple[list[str], list[str]],
) -> None:
    first, again = training_lap
    assert set(again) < set(first)
    assert len(set(again)) == 50
    assert again != first[:50]
    assert set(first) == {p.id for p in some(1, "train", 1, len(first))}


def test_held_out_ends_when_all_have_been_given_and_is_about_one_in_five(
    training_lap: tuple[list[str], list[str]],
) -> None:
    ids = [p.id for p in generate([1], "heldout", 0)]
    assert len(set(ids)) == len(ids) >= 500
    assert not set(ids) & set(training_lap[0])
    assert 0.17 < len(ids) / (len(ids) + len(training_lap[0])) < 0.23


def test_several_levels_are_mixed_evenly() -> None:
    levels = [p.level for p in islice(generate([1, 3], "train", 0), 400)]
    assert set(levels) == {1, 3}
    assert 150 < levels.count(1) < 250


@pytest.mark.parametrize(
    ("level", "marks"),
    [
        (1, {"3x +", "x - "}),
        (2, {"x/", "A number is", "x + "}),
        (3, {"-", " + 2x =", "x/", "A number is"}),
        (4, {"(x ", "x = ", "x + "}),
        (5, {")/", "(x ", "x/"}),
    ],
)
def test_every_level_has_the_shapes_it_promises(level: int, marks: set[str]) -> None:
    text = "\n".join(p.statement for p in some(level, "train", 0, 250))
    assert {mark for mark in marks if mark in text} == marks


def test_level_1_and_2_have_whole_positive_answers_and_level_4_also_fractions() -> None:
    for level in (1, 2):
        solutions = [p.equation.solution for p in some(level, "train", 0, 100)]
        assert all(s is not None and s > 0 and s.denominator == 1 for s in solutions)
    rational = [p.equation.solution for p in some(4, "train", 0, 100)]
    assert any(s is not None and s.denominator > 1 for s in rational)


def test_level_5_has_a_bracket_a_fraction_and_x_on_both_sides_in_every_problem() -> None:
    for problem in some(5, "train", 0, 200):
        left, right = problem.equation.coefficients
        assert left.x
        assert right.x
        assert "(" in problem.statement
        assert "/" in problem.statement


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_a_task_holds_all_that_its_problem_needs_and_its_id_finds_it(level: int) -> None:
    for problem in some(level, "train", 2, 40):
        task = problem.task()
        assert problem_of(task) == problem
        assert find_problem(task.id) == problem
        assert (task.split, task.level) == ("train", level)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("3x + 7 = 16", 1),
        ("3x+7=16", 1),
        ("x + 7 = 16", 1),
        ("x = 5", 1),
        ("x/4 - 3 = 2", 2),
        ("-3x + 7 = 16", 3),
        ("7 + 3x = 16", 3),
        ("3x/4 = 6", 3),
        ("16 = 3x + 7", 3),
        ("5x + 3 = 2x + 9", 4),
        ("2(x + 3) = 10", 4),
        ("2x + 3x = 10", 4),
        ("(2x + 3)/4 = x - 1", 5),
    ],
)
def test_an_equation_of_ones_own_gets_the_lowest_level_that_suits_it(text: str, level: int) -> None:
    problem = find_problem(text)
    assert problem.level == level
    assert problem.equation == parse_equation(text)


@pytest.mark.parametrize(
    "text",
    [
        "123456x = 1",
        "-12345x = 1",
        "3x + 123456 = 16",
        "math-9-3x+7=16",
        "math-1-2(x+3)=10",
        "math-1-words-3x+7=16",
        "math-4-words-2(x+3)=10",
        "hello",
        "x = x",
    ],
)
def test_what_the_actions_cannot_solve_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(UserError, match="'3x \\+ 7 = 16'") as caught:
        find_problem(text)
    assert "\n" not in str(caught.value)


REQUESTS = (
    "Solve for x: {}",
    "solve for x: {}.",
    "Solve: {}",
    "Solve {}",
    "Solve the equation {} for x.",
    "Please solve for x,  {}",
    "Find x: {}",
    "Find x if {}",
    "What is x in {}?",
    "  SOLVE FOR X:{} ",
)


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_a_request_around_an_equation_names_the_same_problem(level: int) -> None:
    for problem in some(level, "train", 0, 20):
        plain = find_problem(str(problem.equation))
        for request in REQUESTS:
            assert find_problem(request.format(problem.equation)) == plain


@pytest.mark.parametrize("text", ["Solve for y: 3x = 6", "Solve", "Solve for x:", "Find x: 3x + 7"])
def test_a_request_without_an_equation_in_x_is_refused_with_its_words(text: str) -> None:
    with pytest.raises(UserError, match="write one such as '3x"):
        find_problem(text)
