"""What pays, and that nothing else does."""

import random
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import islice

import pytest

from practicum.environments.reference_policies import random_action_text
from practicum_envs.math.equation import parse_equation
from practicum_envs.math.problems import generate
from practicum_envs.math.rules import (
    ACTION_NAMES,
    NAMED_ACTIONS,
    WRITTEN_ACTIONS,
    State,
    full_marks,
    play,
    reference_actions,
    start,
)


def named(text: str, *, in_words: bool = False) -> State:
    return start(parse_equation(text), in_words=in_words, written=False)


def written(text: str, *, in_words: bool = False) -> State:
    return start(parse_equation(text), in_words=in_words, written=True)


def pays(state: State, texts: Sequence[str]) -> list[float]:
    """What each action pays, played one after the other."""
    paid = []
    for text in texts:
        state, pay, _ = play(state, text)
        paid.append(pay)
    return paid


def test_the_reference_for_3x_plus_7_is_16_pays_1_5_then_2_then_2_then_3() -> None:
    for begin in (named("3x + 7 = 16"), written("3x + 7 = 16")):
        paid = pays(begin, reference_actions(begin))
        assert paid == [1.5, 2.0, 2.0, 3.0]
        assert sum(paid) == full_marks(begin) == 8.5


def test_a_problem_in_words_pays_1_more_for_setting_it_up() -> None:
    begin = named("3x + 7 = 16", in_words=True)
    assert reference_actions(begin)[:2] == ("identify_operation", "set_up_equation")
    assert pays(begin, reference_actions(begin)) == [1.5, 1.0, 2.0, 2.0, 3.0]


def test_identifying_pays_once_and_only_before_anything_else_has_paid() -> None:
    begin = named("3x + 7 = 16")
    assert pays(begin, ["identify_operation"] * 3) == [1.5, -0.5, -0.5]
    assert pays(begin, ["subtract_terms", "identify_operation"]) == [2.0, -0.5]
    assert pays(begin, ["add_terms", "identify_operation"]) == [-0.5, 1.5]


def test_setting_up_pays_once_and_only_where_there_is_something_to_set_up() -> None:
    assert pays(named("3x + 7 = 16"), ["set_up_equation"]) == [-0.5]
    in_words = named("3x + 7 = 16", in_words=True)
    assert pays(in_words, ["set_up_equation", "set_up_equation"]) == [1.0, -0.5]


def test_no_algebra_is_valid_before_the_equation_is_set_up() -> None:
    for text in ("subtract_terms", "divide_terms", "simplify"):
        turn = play(named("3x + 7 = 16", in_words=True), text)
        assert (turn.pay, turn.observation) == (-0.5, "not valid: no equation yet")


def test_either_order_of_two_useful_steps_pays_the_same() -> None:
    assert pays(named("3x + 7 = 16"), ["divide_terms", "subtract_terms"]) == [2.0, 2.0]
    assert pays(named("x/4 - 3 = 2"), ["multiply_terms", "add_terms"]) == [2.0, 2.0]


def test_going_round_in_circles_costs() -> None:
    circle = ["subtract_terms 7", "add_terms 7", "subtract_terms 7", "subtract_terms 7"]
    assert pays(written("3x + 7 = 16"), circle) == [2.0, -0.5, -0.5, -0.5]


def test_a_valid_step_that_gets_no_nearer_costs_as_much_as_an_invalid_one() -> None:
    useless = [
        "add_terms 2x",
        "subtract_terms 2x",
        "multiply_terms 6",
        "simplify",
        "divide_terms 6",
    ]
    assert pays(written("3x + 7 = 16"), useless) == [-0.5] * 5
    assert pays(named("3x + 7 = 16"), ["simplify"] * 2) == [-0.5, -0.5]


def test_a_step_in_place_of_a_cheaper_one_earns_no_more_than_the_cheaper_one() -> None:
    begin = written("3x + 4 + 5 = 18")
    assert pays(begin, ["simplify", "subtract_terms 9", "divide_terms 3"]) == [1.0, 2.0, 2.0]
    detour = ["subtract_terms 4", "subtract_terms 5", "divide_terms 3"]
    assert pays(begin, detour) == [1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    "text",
    [
        "state_answer",
        "state_answer x",
        "subtract_terms",
        "subtract_terms seven",
        "subtract_terms 3 + 4",
        "multiply_terms 0",
        "divide_terms 0",
        "divide_terms x",
        "simplify 3",
        "identify_operation 7",
        "set_up_equation",
        "eat_cake",
        "",
        "I would use subtract_terms 7",
        "subtract_terms 7\ndivide_terms 3",
        "subtract_terms 7; state_answer 3",
        "identify_operation subtract_terms divide_terms state_answer",
        "multiply_terms 999999",
    ],
)
def test_anything_unknown_or_not_valid_costs_half_a_point_and_changes_nothing(text: str) -> None:
    begin = written("3x + 7 = 16")
    assert play(begin, text) == (begin, -0.5, "not valid: 3x + 7 = 16")


def test_numbers_cannot_be_made_to_grow_without_bound() -> None:
    state = written("3x + 7 = 16")
    for _ in range(50):
        state, pay, observation = play(state, "multiply_terms 9999")
        assert pay <= 0.0
        assert len(observation) < 60


@pytest.mark.parametrize(
    ("path", "ending", "pay"),
    [
        (["subtract_terms 7", "divide_terms 3", "state_answer 3"], "right", 3.0),
        (["subtract_terms 7", "divide_terms 3", "state_answer 6/2"], "right", 3.0),
        (["subtract_terms 7", "divide_terms 3", "state_answer 4"], "wrong", -0.5),
        (["subtract_terms 7", "divide_terms 3", "state_answer -3"], "wrong", -0.5),
        (["subtract_terms 7", "state_answer 3"], None, -0.5),
        (["state_answer 3"], None, -0.5),
    ],
)
def test_an_answer_pays_only_if_right_and_ends_nothing_before_x_is_alone(
    path: list[str], ending: str | None, pay: float
) -> None:
    state = written("3x + 7 = 16")
    for text in path:
        state, paid, _ = play(state, text)
    assert (state.ending, paid) == (ending, pay)


def test_without_arguments_an_answer_states_what_the_equation_shows() -> None:
    early = play(named("3x + 7 = 16"), "state_answer")
    assert (early.state.ending, early.state.stated, early.pay) == (None, None, -0.5)
    done = play(named("x = 3"), "state_answer")
    assert (done.state.ending, done.state.stated, done.pay) == ("right", Fraction(3), 3.0)


def test_an_answer_before_the_equation_is_set_up_is_not_valid() -> None:
    turn = play(written("3x + 7 = 16", in_words=True), "state_answer 3")
    assert (turn.state.ending, turn.pay) == (None, -0.5)


@pytest.mark.parametrize(
    "text",
    ["Subtract_Terms 7", "  subtract_terms  7 ", "subtract_terms 7.", "action: subtract_terms 7",
     "Action: subtract_terms 7.", "`subtract_terms 7`"],
)  # fmt: skip
def test_case_spaces_a_period_and_a_label_do_not_matter(text: str) -> None:
    assert play(written("3x + 7 = 16"), text)[1:] == (2.0, "3x = 9")


@pytest.mark.parametrize(
    ("equation", "said"),
    [
        ("3x + 7 = 16", "plus"),
        ("3x - 7 = 16", "minus"),
        ("3x = 9", "times"),
        ("x/3 = 9", "over"),
        ("5x + 3 = 2x + 9", "x on both sides"),
        ("2x + 3x = 10", "like terms"),
        ("3(x + 3) - 1 = 10", "brackets"),
        ("(2x + 3)/4 = x - 1", "over"),
        ("-x + 5 = 0", "minus"),
        ("x = 10", "solved"),
    ],
)
def test_identifying_names_what_stands_in_the_way_of_x(equation: str, said: str) -> None:
    assert play(written(equation), "identify_operation").observation == f"{said}: {equation}"


def test_an_observation_depends_on_the_state_alone() -> None:
    there = written("3x + 7 = 16")
    for text in ("subtract_terms 7", "add_terms 7"):
        there, _, observation = play(there, text)
    assert observation == "3x + 7 = 16"


@cache
def most_earned(state: State, actions: tuple[str, ...], turns: int) -> float:
    """The most that any play of so many turns can earn from here, by trying all of them."""
    if turns == 0 or state.ending is not None:
        return 0.0
    best = 0.0
    for text in actions:
        after, pay, _ = play(state, text)
        if pay < 0 and after.ending is None:
            continue  # a rejected action changes nothing, so it can only lose
        best = max(best, pay + most_earned(after, actions, turns - 1))
    return best


@pytest.mark.parametrize("in_words", [False, True])
@pytest.mark.parametrize("equation", ["3x + 7 = 16", "x/4 - 3 = 2", "5x - 10 = 0"])
def test_of_all_plays_of_six_turns_none_earns_more_than_the_reference(
    equation: str, in_words: bool
) -> None:
    begin = named(equation, in_words=in_words)
    assert most_earned(begin, ACTION_NAMES, 6) == full_marks(begin)


@pytest.mark.parametrize(
    ("equation", "terms"),
    [
        ("3x + 7 = 16", ["subtract_terms 7", "add_terms 7", "divide_terms 3", "multiply_terms 3"]),
        ("2x + 3x = 10", ["subtract_terms 2x", "add_terms 2x", "divide_terms 5", "simplify"]),
        ("2(x + 3) = 10", ["divide_terms 2", "simplify", "subtract_terms 3", "subtract_terms 6"]),
    ],
)
def test_of_all_written_plays_of_seven_turns_none_earns_more(
    equation: str, terms: list[str]
) -> None:
    begin = written(equation)
    actions = (*terms, "identify_operation", f"state_answer {begin.solution}")
    assert most_earned(begin, actions, 7) == full_marks(begin)


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_random_play_never_earns_more_than_the_reference(level: int) -> None:
    chance = random.Random(level)
    forms = WRITTEN_ACTIONS if level >= 3 else NAMED_ACTIONS
    for problem in islice(generate([level], "train", 9), 25):
        begin = state = problem.start()
        helpful = reference_actions(begin)
        earned, turns = 0.0, 0
        while state.ending is None and turns < 14:
            text = chance.choice(helpful) if chance.random() < 0.6 else ""
            text = text or random_action_text(forms, chance)
            state, pay, _ = play(state, text)
            earned, turns = earned + pay, turns + 1
        assert earned <= full_marks(begin)
        if state.ending != "right":
            assert earned <= full_marks(begin) - 3.0


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_repeating_a_reference_action_never_pays(level: int) -> None:
    for problem in islice(generate([level], "train", 3), 25):
        state = problem.start()
        for text in reference_actions(state)[:-1]:
            state = play(state, text).state
            assert play(state, text).pay <= 0.0


def test_an_equation_without_one_solution_cannot_be_started() -> None:
    equation = parse_equation("3x + 7 = 16")
    broken = type(equation)(left=equation.left, right=equation.left)
    with pytest.raises(ValueError, match="exactly one solution"):
        start(broken, in_words=False, written=True)
