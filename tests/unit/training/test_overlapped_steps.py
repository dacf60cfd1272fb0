"""Overlapped steps with a sampler and a learner of few lines: who waits for whom, and how old."""

import asyncio
import json
import os
import random
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.unit.training.overlapped_cases import GROUP, TASKS, Setup, Talk, Weights

from practicum.core.checkpoint import EvalReport, Interval
from practicum.core.errors import PolicyMismatch
from practicum.core.task import Task
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import read_metrics
from practicum.store.trace_store import SqliteTraceStore
from practicum.training.loop import read_state


def learned(folder: Path) -> list[tuple[int, str]]:
    """Step and task of every episode that counts, as the run has recorded them."""
    with SqliteTraceStore(folder / "traces.sqlite", read_only=True) as store:
        return sorted((int(e.trace.id.split("/")[1]), e.trace.task_id) for e in store.episodes())


def rows(folder: Path) -> list[dict[str, Any]]:
    found = read_metrics(folder / "metrics.jsonl").rows
    return [dict(row.values) for row in found if row.kind == "step"]


def number(task: Task) -> int:
    return int(task.id.removeprefix("task"))


def in_order(steps: int) -> list[tuple[int, str]]:
    """Every step with its own tasks, in the order of the stream, a whole group of each."""
    return sorted(
        (step, f"task{TASKS * (step - 1) + place}")
        for step in range(1, steps + 1)
        for place in range(TASKS)
        for _ in range(GROUP)
    )


@pytest.mark.parametrize("staleness", [1, 2, 4])
def test_no_token_is_older_than_the_staleness_whatever_takes_how_long(
    tmp_path: Path, staleness: int
) -> None:
    chance = random.Random(staleness)
    slow = {n: chance.choice([0.0, 0.001, 0.03]) for n in range(100)}
    setup = Setup(lambda task: slow[number(task)], staleness=staleness, steps=10)
    setup.train(tmp_path)
    found = rows(tmp_path)
    assert [row["staleness_max"] <= staleness for row in found] == [True] * 10
    assert max(row["staleness_max"] for row in found) == staleness
    assert setup.world.most_open <= (staleness + 1) * TASKS * GROUP
    assert learned(tmp_path) == in_order(10)


def test_slow_tasks_are_learned_from_as_often_as_fast_ones(tmp_path: Path) -> None:
    """Every other task takes ten times as long."""
    setup = Setup(lambda task: 0.03 if number(task) % 2 else 0.003, steps=10)
    setup.train(tmp_path)
    kinds = Counter(int(task.removeprefix("task")) % 2 for _, task in learned(tmp_path))
    assert kinds[0] == kinds[1] == 10 * TASKS * GROUP // 2
    assert learned(tmp_path) == in_order(10)


def test_episodes_of_later_steps_go_on_while_the_learner_waits_for_a_slow_one(
    tmp_path: Path,
) -> None:
    """Step 1 has the only slow task: when it is done the two steps behind have long been."""
    setup = Setup(lambda task: 0.15 if task.id == "task0" else 0.001, steps=3)
    setup.train(tmp_path)
    first, *others = rows(tmp_path)
    assert first["rollout_s"] >= 0.14
    assert all(row["rollout_s"] < 0.05 for row in others)
    assert all(row["groups_waited_s"] > 0.08 for row in others)
    finished = [e.trace.task_id for e in setup.episodes]
    assert set(finished[-GROUP:]) == {"task0"}


def test_an_update_does_not_hold_the_event_loop(tmp_path: Path) -> None:
    """Episodes end while an update waits for them in its own thread."""
    setup = Setup(lambda task: 0.001 if number(task) < TASKS else 0.1, steps=4)
    seen: list[int] = []

    def work() -> None:
        before = len(setup.episodes)
        for _ in range(200):
            if seen or len(setup.episodes) > before:
                break
            threading.Event().wait(0.01)
        seen.append(len(setup.episodes) - before)

    setup.learner.work = work
    setup.train(tmp_path)
    assert seen[0] > 0
    assert threading.main_thread().name not in setup.learner.threads


def test_terms_are_marked_with_who_sampled_them(tmp_path: Path) -> None:
    setup = Setup(lambda task: 0.002, steps=5)
    setup.train(tmp_path)
    shares = []
    for batches in setup.learner.seen:
        marks = [b.term_checked for b in batches]
        assert all(m is not None for m in marks)
        shares.append(
            sum(int(m.sum()) for m in marks if m is not None)
            / sum(m.size for m in marks if m is not None)
        )
    assert shares == pytest.approx([row["present_share"] for row in rows(tmp_path)])
    assert shares[0] == 1.0


@pytest.mark.parametrize("stop_at", [1, 3, 6])
def test_an_interrupted_run_goes_on_without_losing_or_repeating_a_group(
    tmp_path: Path, stop_at: int
) -> None:
    slow = random.Random(5)
    delays = {n: slow.choice([0.001, 0.02]) for n in range(100)}
    setup = Setup(lambda task: delays[number(task)])

    def interrupt() -> None:
        if setup.weights.updates + 1 == stop_at:
            os.kill(os.getpid(), signal.SIGINT)

    setup.learner.work = interrupt
    result = setup.train(tmp_path)
    assert result.interrupted
    assert setup.world.open_now == 0  # every session was closed
    assert not setup.source.is_under_way
    newest = CheckpointStore(tmp_path).load_latest().checkpoint
    assert newest is not None
    state = read_state(newest.path)
    assert state.step == result.state.step
    assert stop_at <= state.step < 8  # an update may begin before the signal is seen
    assert json.loads(json.dumps(state.curriculum)) == state.curriculum
    again = Setup(lambda task: delays[number(task)], weights=Weights(updates=state.step))
    again.train(tmp_path, state, attempt=2)
    assert learned(tmp_path) == in_order(8)


def test_an_evaluation_leaves_episodes_under_way_alone(tmp_path: Path) -> None:
    setup = Setup(lambda task: 0.05, steps=4)
    half = Interval(value=0.5, low=0.4, high=0.6, n=4, method="wilson")
    went_on = []

    async def evaluate(step: int) -> EvalReport:
        before = setup.world.open_now
        await asyncio.sleep(0.06)
        went_on.append((step, before, setup.world.open_now))
        return EvalReport(
            policy="p",
            env="e",
            fingerprint=setup.weights.fingerprint,
            seed=0,
            attempts_per_task=1,
            success=half,
            reward=half,
        )

    setup.train(tmp_path, evaluate=evaluate)
    assert [step for step, *_ in went_on] == [2, 4]
    assert went_on[1][1] == 0  # nothing is made for steps that will not come
    assert learned(tmp_path) == in_order(4)


def test_tokens_of_other_weights_stop_the_run_and_everything_under_way(tmp_path: Path) -> None:
    setup = Setup(lambda task: 0.005)
    stranger = Talk(Weights(name="stranger"))
    parts = setup.source.steps.parts
    object.__setattr__(parts, "converse", lambda task, seed: Talk(stranger.weights))
    with pytest.raises(PolicyMismatch, match="was sampled by weights stranger0"):
        setup.train(tmp_path)
    assert setup.learner.seen == []
    assert setup.world.open_now == 0
