"""Which groups a step rolls out: informative ones, and hotter ones where everybody failed."""

from dataclasses import replace
from itertools import count

import pytest
from tests.unit.training.algorithms.cases import make_episode, whole

from practicum.core.sample import GIVEN_TURNS, Episode, EpisodeSeconds, Group
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, Trace
from practicum.training.algorithms.grpo import Grpo
from practicum.training.curriculum import TaskLedger
from practicum.training.rollout_steps import (
    HOTTER,
    CollectedStep,
    collect_step,
    is_unsolved,
    rollout_metrics,
    unreadable_turns,
)


def chosen(episode: Episode) -> Episode:
    """The same, with every token chosen among two."""
    nodes = tuple(
        node
        if node.sampled is None
        else replace(node, sampled=replace(node.sampled, choices=((1, 2),) * len(node.token_ids)))
        for node in episode.trace.nodes
    )
    return replace(episode, trace=replace(episode.trace, nodes=nodes))


def episodes(
    task: Task, scores: tuple[float, ...], success: bool | None, *, free: bool = False
) -> Group:
    made = [
        make_episode((1, 2), score=whole(s), name=f"{task.id}/{n}") for n, s in enumerate(scores)
    ]
    made = made if free else [chosen(one) for one in made]
    outcome = Outcome(success=success)
    return Group(task=task, episodes=tuple(replace(e, outcome=outcome) for e in made))


class World:
    """Tasks whose groups come out as told: `mixed`, `solved` or `failed` by their number's rest."""

    def __init__(self, kinds: tuple[str, ...], hot: str = "mixed", *, free: bool = False) -> None:
        self.kinds, self.hot, self.free = kinds, hot, free
        self.rounds: list[tuple[list[str], int, float]] = []

    async def roll_out(self, tasks: list[Task], number: int, heat: float) -> list[Group]:
        self.rounds.append(([task.id for task in tasks], number, heat))
        return [self.group(task, heat) for task in tasks]

    def group(self, task: Task, heat: float) -> Group:
        kind = self.hot if heat > 1.0 else self.kinds[int(task.id) % len(self.kinds)]
        scores = (1.0, 0.0) if kind == "mixed" else (1.0, 1.0)
        return episodes(task, scores, kind != "failed", free=self.free)


async def collect(world: World, wanted: int, share: float) -> CollectedStep:
    tasks = (Task(id=str(n), env="e", split="train") for n in count())
    ledger = TaskLedger(lambda: tasks)
    return await collect_step(
        world.roll_out, ledger, Grpo(), tasks_per_step=wanted, replace_share=share
    )


async def test_informative_groups_are_enough() -> None:
    world = World(("mixed",))
    found = await collect(world, 3, 1.0)
    assert world.rounds == [(["0", "1", "2"], 0, 1.0)]
    assert (len(found.trained), found.hotter, found.flat_share) == (3, (), 0.0)


async def test_a_solved_group_is_replaced_by_one_of_another_task() -> None:
    world = World(("mixed", "solved"))
    found = await collect(world, 2, 1.0)
    assert [names for names, *_ in world.rounds] == [["0", "1"], ["2"]]
    assert found.hotter == ()


async def test_a_task_that_a_whole_group_failed_is_tried_again_hotter() -> None:
    world = World(("mixed", "failed"))
    found = await collect(world, 2, 1.0)
    assert world.rounds == [(["0", "1"], 0, 1.0), (["1"], 3, HOTTER)]
    assert [group.task.id for group in found.trained] == ["0", "1"]
    assert len(found.everything) == 3
    assert found.flat_share == pytest.approx(1 / 3)
    assert rollout_metrics(found)["hotter_groups"] == 1
    assert rollout_metrics(found)["success"] == 0.5


def recorded(*said: str) -> Trace:
    """An episode in which the policy said this, turn by turn."""
    trace = make_episode(*[(1, 2)] * len(said), score=whole(1.0)).trace
    turns = dict(zip(trace.turns, said, strict=True))
    nodes = [
        replace(node, messages=(Message(role="assistant", content=turns[at]),))
        if at in turns
        else node
        for at, node in enumerate(trace.nodes)
    ]
    return replace(trace, nodes=tuple(nodes))


@pytest.mark.parametrize(
    ("said", "share"),
    [
        (["take key", "take key"], 0.0),
        (["caf\u00e9\tau lait", "\u201cyes\u201d\n"], 0.0),
        (["\ufffd\x03q", "take key"], 0.5),
        (["\x00", "k\ufffd\ufffd"], 1.0),
    ],
)
def test_turns_that_are_no_text_are_counted(said: list[str], share: float) -> None:
    assert unreadable_turns([recorded(*said)]) == share


def test_calls_that_could_not_be_read_are_counted() -> None:
    trace = recorded("call?", "call!")
    refused = Message(role="tool", content="Error: no call.", is_error=True)
    heard = replace(trace.nodes[-1], parent=len(trace.nodes) - 1, messages=(refused,), sampled=None)
    assert unreadable_turns([replace(trace, nodes=(*trace.nodes, heard))]) == 0.5


async def test_free_text_is_never_made_hotter() -> None:
    world = World(("mixed", "failed"), free=True)
    found = await collect(world, 2, 1.0)
    assert world.rounds == [(["0", "1"], 0, 1.0), (["2"], 2, 1.0)]
    assert found.hotter == ()


async def test_it_gets_hotter_each_time_and_extra_groups_are_bounded() -> None:
    world = World(("failed",), hot="failed")
    found = await collect(world, 2, 2.0)
    assert [heat for *_, heat in world.rounds] == [1.0, HOTTER, HOTTER**2]
    assert len(found.everything) == 2 + 4
    assert found.trained == ()


async def test_nothing_is_replaced_where_that_is_not_wanted() -> None:
    world = World(("failed",))
    await collect(world, 2, 0.0)
    assert len(world.rounds) == 1


@pytest.mark.parametrize(("success", "unsolved"), [(False, True), (True, False), (None, False)])
def test_only_known_failures_are_unsolved(success: bool | None, unsolved: bool) -> None:
    group = episodes(Task(id="0", env="e", split="train"), (1.0, 1.0), success)
    assert is_unsolved(group) is unsolved


def test_a_step_says_what_its_episodes_waited_for() -> None:
    task = Task(id="0", env="e", split="train")
    spent = [EpisodeSeconds(1.0, 0.5, 0.5), EpisodeSeconds(2.0, 5.5, 0.5)]
    made = episodes(task, (1.0, 0.0), None).episodes
    timed = tuple(replace(e, seconds=one) for e, one in zip(made, spent, strict=True))
    groups = (Group(task=task, episodes=timed),)
    metrics = rollout_metrics(CollectedStep(trained=groups, groups=groups))
    assert (metrics["median_episode_s"], metrics["slowest_episode_s"]) == (5.0, 8.0)
    spent = [metrics[f"{word}_s"] for word in ("sampling", "environment", "judging")]
    assert spent == [3.0, 6.0, 1.0]
    untimed = (Group(task=task, episodes=made),)
    assert "median_episode_s" not in rollout_metrics(CollectedStep(trained=(), groups=untimed))


def test_what_was_begun_with_help_is_not_in_a_steps_success() -> None:
    task = Task(id="0", env="e", split="train")
    alone = episodes(task, (1.0, 0.0), False)
    helped = Group(
        task=task,
        episodes=tuple(
            replace(e, outcome=Outcome(success=True, evidence={GIVEN_TURNS: 2}))
            for e in episodes(task, (5.0, 5.0), True).episodes
        ),
    )
    metrics = rollout_metrics(CollectedStep(trained=(), groups=(alone, helped)))
    assert (metrics["reward"], metrics["success"], metrics["episodes"]) == (0.5, 0.0, 4)
    assert (metrics["jump_started_groups"], metrics["jump_start_success"]) == (1, 1.0)
    assert metrics["given_turns"] == 2
