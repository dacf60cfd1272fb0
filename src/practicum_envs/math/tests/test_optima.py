"""What the rewards make worth doing, by exact dynamic programming over the states of episodes."""

from functools import cache
from itertools import combinations, islice
from statistics import fmean

import pytest

from practicum_envs.math.problems import generate
from practicum_envs.math.rules import (
    ACTION_NAMES,
    State,
    full_marks,
    play,
    reference_actions,
    remaining_steps,
)

TURNS = 8
"""The default turn limit of a rollout."""
NEVER = float("-inf")


def begins(level: int, count: int) -> list[State]:
    return [p.start() for p in islice(generate((level,), "train", 0), count)]


def choices(state: State) -> tuple[str, ...]:
    """All actions without arguments; with arguments the useful ones, detours and wrong answers."""
    if not state.written:
        return ACTION_NAMES
    steps = [str(s) for s in remaining_steps(state.equation, written=True)[:1]]
    detours = ["multiply_terms 2", "subtract_terms x", "simplify"]
    answers = [f"state_answer {state.solution}", "state_answer 77"]
    return (*steps, *detours, *answers, "identify_operation", "set_up_equation")


@cache
def best(state: State, turns: int) -> tuple[float, float]:
    """The most that can be earned by solving in so many turns, and the most without solving."""
    if state.ending is not None:
        return (0.0, NEVER) if state.ending == "right" else (NEVER, 0.0)
    if not turns:
        return NEVER, 0.0
    solved, unsolved = NEVER, NEVER
    for text in choices(state):
        after, pay, _ = play(state, text)
        ways = best(after, turns - 1)
        solved, unsolved = max(solved, pay + ways[0]), max(unsolved, pay + ways[1])
    return solved, unsolved


def reachable(state: State, turns: int, seen: set[tuple[State, int]]) -> None:
    if (state, turns) in seen or state.ending is not None or not turns:
        return
    seen.add((state, turns))
    for text in choices(state):
        reachable(play(state, text).state, turns - 1, seen)


@pytest.mark.parametrize(("level", "count"), [(1, 12), (2, 12), (3, 3), (4, 2), (5, 1)])
def test_from_every_state_solving_is_worth_more_than_anything_else(level: int, count: int) -> None:
    best.cache_clear()
    margins = []
    for begin in begins(level, count):
        turns = TURNS if level < 3 else len(reference_actions(begin)) + 1
        assert best(begin, turns)[0] == full_marks(begin)
        states: set[tuple[State, int]] = set()
        reachable(begin, turns, states)
        for state, left in states:
            solved, unsolved = best(state, left)
            if solved > NEVER:
                margins.append(solved - unsolved)
    # The least where turns are just enough to solve, and are used to identify instead.
    assert min(margins) >= 1.5


def expected(state: State, turns: int, pair: tuple[str, str], share: float) -> float:
    """What a policy earns that takes the first of two actions with this probability, whatever."""

    @cache
    def from_here(at: State, left: int) -> float:
        if at.ending is not None or not left:
            return 0.0
        total = 0.0
        for text, chance in zip(pair, (share, 1.0 - share), strict=True):
            after, pay, _ = play(at, text)
            total += chance * (pay + from_here(after, left - 1))
        return total

    return from_here(state, turns)


@pytest.mark.parametrize("level", [1, 2])
def test_no_two_actions_repeated_earn_a_fifth_of_full_marks(level: int) -> None:
    states = begins(level, 12)
    marks = fmean(full_marks(state) for state in states)
    for pair in combinations(ACTION_NAMES, 2):
        for share in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
            earned = fmean(expected(state, TURNS, pair, share) for state in states)
            assert earned < 0.2 * marks, (pair, share)
