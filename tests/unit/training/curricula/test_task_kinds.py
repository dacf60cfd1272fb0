"""Jump starts: how many turns are given, when they are fewer, and what a checkpoint keeps."""

import json
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.agents.counting import CountingEnvironment
from tests.unit.training.curricula.simulated_groups import Learner, make_group, make_task

from practicum.core.sample import GIVEN_TURNS, Group
from practicum.core.task import Outcome, Task
from practicum.training.curricula.build_curriculum import by_kind
from practicum.training.curricula.mastery import read_result
from practicum.training.curricula.task_kinds import PATIENCE, Kind, TaskKinds
from practicum.training.curriculum import StepTasks, TaskLedger


class Turns(CountingEnvironment):
    """Tasks whose references have as many turns as their data say."""

    def reference(self, task: Task) -> Sequence[str]:
        return ("next",) * int(str(task.data.get("turns", 6)))


def kinds(*, max_turns: int = 8) -> TaskKinds:
    tasks = [make_task(f"t{n}", family="files") for n in range(4)]
    return by_kind(TaskLedger(lambda: iter(tasks)), Turns(), max_turns)


def group(task: Task, solved: Sequence[bool], given_turns: int = 0) -> Group:
    made = make_group(task, solved)
    return Group(
        task=task,
        episodes=tuple(
            replace(e, outcome=Outcome(success=one, evidence={GIVEN_TURNS: given_turns}))
            for e, one in zip(made.episodes, solved, strict=True)
        ),
    )


TASK = make_task("files-1", family="files", turns="6")
FAILED, MIXED, SOLVED = [False] * 4, [True, False, False, False], [True] * 4


def play(curriculum: TaskKinds, solved: Sequence[bool], task: Task = TASK) -> int:
    """A group of the task as the curriculum starts it; the turns given afterwards."""
    curriculum.observe(group(task, solved, curriculum.given_turns(task)))
    return curriculum.given_turns(task)


def test_a_kind_is_helped_once_it_has_failed_twice_and_less_as_it_succeeds() -> None:
    curriculum = kinds()
    curriculum.next_tasks(9)
    told = [play(curriculum, solved) for solved in (FAILED, FAILED, MIXED, FAILED, FAILED)]
    assert told == [0, 3, 3, 3, 5]  # of six turns: all, three, one are left to the policy
    assert [play(curriculum, SOLVED) for _ in range(6)] == [4, 3, 2, 1, 0, 0]


def test_only_success_from_the_beginning_solves_a_kind() -> None:
    curriculum = kinds()
    for _ in range(PATIENCE):
        play(curriculum, FAILED)
    play(curriculum, MIXED)
    assert curriculum.metrics()["unsolved_kinds"] == ["level_1_family_files"]
    assert curriculum.metrics()["helped_kinds"] == 1
    for _ in range(4):
        play(curriculum, SOLVED)
    assert curriculum.metrics()["unsolved_kinds"] == []


def test_each_level_of_each_family_is_a_kind_of_its_own() -> None:
    curriculum = kinds()
    for _ in range(PATIENCE):
        play(curriculum, FAILED)
    assert curriculum.given_turns(replace(TASK, id="other", level=2)) == 0
    assert curriculum.given_turns(make_task("m", family="mail")) == 0
    assert curriculum.given_turns(replace(TASK, id="another")) == 3


def test_a_reference_that_cannot_be_finished_is_not_begun() -> None:
    curriculum = kinds(max_turns=5)
    assert [play(curriculum, FAILED) for _ in range(4)] == [0, 0, 0, 0]


def test_without_jump_starts_it_only_takes_note() -> None:
    curriculum = kinds(max_turns=0)
    assert [play(curriculum, FAILED) for _ in range(4)] == [0, 0, 0, 0]
    assert curriculum.metrics() == {"kinds": 1, "unsolved_kinds": ["level_1_family_files"]}


def test_groups_of_a_step_in_flight_count_when_it_is_handed_over() -> None:
    curriculum = kinds()
    step = StepTasks(curriculum, 1)
    (task,) = step.next_tasks(1)
    step.observe(group(task, FAILED))
    step.observe(group(task, FAILED))
    assert step.given_turns(task) == 0
    curriculum.hand_over(1)
    assert step.given_turns(task) == 3


def test_a_checkpoint_keeps_how_far_each_kind_is() -> None:
    curriculum = kinds()
    for _ in range(PATIENCE):
        play(curriculum, FAILED)
    kept = json.loads(json.dumps(curriculum.state()))
    resumed = kinds()
    resumed.restore(kept)
    assert resumed.state() == curriculum.state()
    assert resumed.given_turns(TASK) == 3


def test_the_state_of_a_run_without_kinds_is_taken() -> None:
    resumed = kinds()
    resumed.restore({"drawn": 2})
    assert [task.id for task in resumed.next_tasks(1)] == ["t2"]


def test_what_is_done_after_a_jump_start_is_no_success_at_the_task() -> None:
    result = read_result(group(TASK, MIXED, 3))
    assert (result.success, result.episodes, result.worth) == (None, 0, 1.0)
    assert not result.says_success


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(1, 9))))
def test_some_of_every_reference_is_left_to_the_policy(groups: list[tuple[float, int]]) -> None:
    kind = Kind()
    for success, turns in groups:
        given_turns = max(0, turns - kind.left) if kind.left else 0
        assert 0 <= given_turns < turns
        kind = kind.after(success, given_turns, turns)
        assert kind.left >= 0


def test_what_never_succeeds_from_the_beginning_is_learned_from_the_end() -> None:
    """A chain of six turns, each right by chance 0.2 at first: success by luck is 6 in 100,000."""

    def share_solved(max_turns: int) -> float:
        learner = Learner(seed=1, skill={f"turn {n}": -1.4 for n in range(6)}, rate=0.4)
        curriculum = kinds(max_turns=max_turns)
        curriculum.next_tasks(400)
        solved = 0.0
        for number in range(400):
            first = curriculum.given_turns(TASK)
            turns = [f"turn {n}" for n in range(first, 6)]
            chances = [learner.chance(turn) for turn in turns]
            made = [all(learner.rng.random() < c for c in chances) for _ in range(8)]
            if any(made) and not all(made):
                for turn in turns:
                    learner.skill[turn] += learner.rate
            curriculum.observe(group(TASK, made, first))
            solved += sum(made) / 8 if not first and number >= 300 else 0.0
        return solved / 100

    assert share_solved(0) == 0.0
    assert share_solved(8) > 0.5
