"""A curriculum that measures, shared by steps in flight and reported with each step."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.unit.training.curricula.simulated_groups import level_tasks, make_group
from tests.unit.training.overlapped_cases import Setup

from practicum.core.capabilities import ReportsMastery
from practicum.core.checkpoint import LoopState
from practicum.core.config.curriculum_config import AdaptiveConfig
from practicum.store.events import read_metrics
from practicum.training.curricula.adaptive import AdaptivePicker
from practicum.training.curricula.measured_tasks import MeasuredTasks
from practicum.training.curricula.task_sources import LevelStreams
from practicum.training.curriculum import StepTasks


def curriculum() -> MeasuredTasks:
    source = LevelStreams({level: partial(level_tasks, level) for level in (1, 2, 3)})
    return MeasuredTasks(source, AdaptivePicker(AdaptiveConfig(), seed=0))


def test_a_resumed_run_first_does_what_was_under_way_and_observes_nothing_twice() -> None:
    ledger = curriculum()
    one, two, three = (StepTasks(ledger, step) for step in (1, 2, 3))
    first, second, third = one.next_tasks(2), two.next_tasks(2), three.next_tasks(3)
    for step, tasks in ((two, second), (one, first)):  # step 2 happens to be done before step 1
        for task in tasks:
            step.observe(make_group(task, [True, False]))
    ledger.hand_over(1)
    state: Any = json.loads(json.dumps(ledger.state()))
    assert state["picker"]["observed"] == 2  # step 2 is not trained on yet
    resumed = curriculum()
    resumed.restore(state)
    assert resumed.state() == state
    assert resumed.draw(2, 2) == second
    assert resumed.draw(3, 3) == third
    for task in second:
        resumed.observe_in(2, make_group(task, [True, False]))
    resumed.hand_over(2)
    ledger.hand_over(2)
    assert resumed.state() == ledger.state()
    assert resumed.draw(4, 5) == ledger.draw(4, 5)


def test_masked_groups_count_as_flat_and_say_nothing_of_success() -> None:
    ledger = curriculum()
    (task,) = ledger.next_tasks(1)
    ledger.observe(make_group(task, []))
    metrics = ledger.metrics()
    assert metrics[f"mastery_level_{task.level}"] is None
    assert metrics["uniform_flat_share"] == 1.0


@pytest.mark.parametrize("staleness", [1, 2])
def test_steps_in_flight_train_with_it_and_report_mastery(tmp_path: Path, staleness: int) -> None:
    setup = Setup(seconds=lambda task: 0.0, staleness=staleness)
    ledger = curriculum()
    assert isinstance(ledger, ReportsMastery)
    fresh: Any = ledger.state()
    setup.ledger = ledger  # type: ignore[assignment]
    setup.source.ledger = ledger
    object.__setattr__(setup.source.steps, "curriculum", ledger)
    result = setup.train(tmp_path, LoopState(step=0, curriculum=fresh))
    assert result.state.step == 8
    steps = [r.values for r in read_metrics(tmp_path / "metrics.jsonl").rows if r.kind == "step"]
    assert [row["buckets"] for row in steps] == [3] * 8
    shares = [steps[-1].get(f"draws_level_{level}", 0.0) for level in (1, 2, 3)]
    assert sum(map(float, map(str, shares))) == pytest.approx(1.0)
    assert "mastery_level_1" in steps[-1]
    assert steps[-1]["uniform_flat_share"] == 0.0
