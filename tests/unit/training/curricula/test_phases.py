"""Phases: entered and left by the ends of an interval."""

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.unit.training.curricula.simulated_groups import level_tasks, make_group

from practicum.core.config.curriculum_config import PhasesConfig
from practicum.core.errors import UserError
from practicum.core.sample import GIVEN_TURNS
from practicum.core.task import Outcome
from practicum.training.curricula.measured_tasks import MeasuredTasks
from practicum.training.curricula.phases import PhasePicker, spread_levels
from practicum.training.curricula.task_sources import LevelStreams


def curriculum(phases: tuple[tuple[int, ...], ...] = ((1,), (2,), (3, 4)), **options: Any) -> Any:
    named = [level for phase in phases for level in phase]
    source = LevelStreams({level: partial(level_tasks, level) for level in named})
    config = PhasesConfig.model_validate({"min_episodes": 8, "memory": 1e12, **options})
    return MeasuredTasks(source, PhasePicker(config, phases, seed=0))


def play(tasks: MeasuredTasks, groups: int, success: dict[int, bool]) -> Counter[int]:
    """Groups that are all solved or all failed, by level."""
    drawn: Counter[int] = Counter()
    for _ in range(groups):
        (task,) = tasks.next_tasks(1)
        drawn[task.level] += 1
        tasks.observe(make_group(task, [success[task.level]] * 8))
    return drawn


def phase(tasks: MeasuredTasks) -> object:
    return tasks.metrics()["phase"]


@pytest.mark.parametrize(
    ("levels", "phases"),
    [
        ((1, 2), ((1,), (2,))),
        ((1, 2, 3, 4), ((1,), (2,), (3,), (4,))),
        ((5, 4, 3, 2, 1), ((1,), (2,), (3,), (4, 5))),
        (tuple(range(1, 9)), ((1, 2), (3, 4), (5, 6), (7, 8))),
    ],
)
def test_levels_are_spread_evenly_over_at_most_four_phases(
    levels: tuple[int, ...], phases: tuple[tuple[int, ...], ...]
) -> None:
    assert spread_levels(levels) == phases


def test_a_phase_is_passed_by_the_lower_end_of_its_interval() -> None:
    """By hand: n solved groups have the lower end n / (n + 3.84): 0.676 for 8, 0.701 for 9."""
    tasks = curriculum(replay=0.0)
    assert play(tasks, 8, {1: True}) == {1: 8}
    assert tasks.metrics()["phase_name"] == "warm-up"
    play(tasks, 1, {1: True})
    assert tasks.metrics()["phase_name"] == "intermediate"
    assert phase(tasks) == 2


def test_every_level_of_a_phase_must_be_mastered() -> None:
    tasks = curriculum(phases=((1, 2), (3,)), replay=0.0)
    assert play(tasks, 40, {1: True, 2: False}) == {1: 20, 2: 20}
    assert phase(tasks) == 1


def test_later_phases_are_never_drawn_and_earlier_ones_keep_their_share() -> None:
    tasks = curriculum(replay=0.2)
    play(tasks, 9, {1: True})
    drawn = play(tasks, 500, {1: True, 2: False})
    assert set(drawn) == {1, 2}
    assert 0.15 < drawn[1] / 500 < 0.25
    assert phase(tasks) == 2


def test_a_forgotten_phase_is_gone_back_to_and_passed_again() -> None:
    tasks = curriculum(replay=0.5, memory=8.0)
    solved = {1: True, 2: True, 3: True, 4: True}
    play(tasks, 100, solved)
    assert phase(tasks) == 3
    forgot = 0
    while phase(tasks) == 3:
        play(tasks, 1, {**solved, 1: False})
        forgot += 1
        assert forgot < 100
    assert phase(tasks) == 1
    metrics = tasks.metrics()
    assert metrics["forgotten"] == 1
    assert metrics["mastery_level_1"] < 0.7
    assert set(play(tasks, 1, {1: True})) == {1}
    play(tasks, 60, solved)
    assert phase(tasks) == 3  # the second phase has stayed mastered meanwhile


def test_a_resumed_run_is_in_the_same_phase_and_draws_the_same() -> None:
    tasks = curriculum()
    play(tasks, 13, {1: True, 2: True, 3: False, 4: False})
    saved = json.dumps(tasks.state())
    expected = [task.id for task in tasks.next_tasks(30)]
    resumed = curriculum()
    resumed.restore(json.loads(saved))
    assert json.dumps(resumed.state()) == saved
    assert [task.id for task in resumed.next_tasks(30)] == expected


def test_unknown_success_is_said_rather_than_waited_for() -> None:
    tasks = curriculum()
    (task,) = tasks.next_tasks(1)
    with pytest.raises(UserError, match=r"goes by success.*curriculum: adaptive"):
        tasks.observe(make_group(task, [None, None], [1.0, 0.0]))


def test_groups_that_were_given_a_part_or_lost_move_no_phase_and_stop_nothing() -> None:
    tasks = curriculum()
    for _ in range(20):
        (task,) = tasks.next_tasks(1)
        group = make_group(task, [True, True])
        started = Outcome(success=True, evidence={GIVEN_TURNS: 2})
        given = tuple(replace(episode, outcome=started) for episode in group.episodes)
        tasks.observe(replace(group, episodes=given))
        (task,) = tasks.next_tasks(1)
        tasks.observe(make_group(task, []))
    assert tasks.metrics()["phase"] == 1
