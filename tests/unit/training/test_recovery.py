"""Which checkpoint is gone back to, and how a stage goes on."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.unit.training.overlapped_cases import Setup

from practicum.core.sampling import SamplingParams
from practicum.core.task import JSON
from practicum.engine.learning.learner import LearnerSettings
from practicum.store.events import EventRow
from practicum.training.overlapped_steps import OverlappedSteps
from practicum.training.recovery import (
    RATE_FACTOR,
    RECOVERY,
    RunGuard,
    describe_recovery,
    eased,
    eased_settings,
)
from practicum.training.stages import TrainingStage


def row(step: int, kind: str = "step", **values: JSON) -> EventRow:
    return EventRow(kind=kind, attempt=1, step=step, time=0.0, values=values)


def guard(*successes: float, **more: JSON) -> RunGuard:
    rows = [row(n, success=share, **more) for n, share in enumerate(successes, start=1)]
    return RunGuard(rows, {})


def test_the_checkpoint_with_the_most_success_before_the_first_sign_is_gone_back_to() -> None:
    found = guard(0.1, 0.2, 0.6, 0.6, 0.6, 0.3, 0.3, 0.3, 0.9, 0.9)
    assert found.best_before([2, 4, 6, 8, 10], before=9) == 4
    assert found.best_before([2, 4], before=4) == 2


def test_of_equal_checkpoints_the_newest_is_taken() -> None:
    assert guard(*[0.0] * 10).best_before([2, 4, 6, 8], before=7) == 6


def test_the_weights_before_the_first_step_are_judged_by_its_episodes() -> None:
    assert guard(0.3, 0.0, 0.0, 0.0).best_before([0, 2], before=3) == 0


def test_a_checkpoint_of_which_nothing_is_known_is_not_gone_back_to() -> None:
    rows = [row(n, loss=0.5) for n in range(1, 31)] + [row(31, success=0.4), row(32, success=0.1)]
    found = RunGuard(rows, {})
    assert found.best_before([10, 20, 30], before=31) == 30
    assert found.best_before([10, 20], before=31) is None


def test_what_a_run_went_back_from_is_not_gone_back_to() -> None:
    rows = [row(n, success=0.0) for n in range(1, 13)]
    rows.append(row(8, RECOVERY, since=5, to=4, text="back"))
    assert RunGuard(rows, {}).best_before([4, 6, 8], before=8) == 4
    assert RunGuard(rows, {}).best_before([4, 6, 8], before=10) == 8


def test_a_curriculum_that_moved_on_is_not_sent_back_to_easy_tasks() -> None:
    rows = [row(n, success=1.0, mean_level=1.0) for n in range(1, 7)]
    rows += [row(n, success=0.4 - 0.02 * n, mean_level=3.0) for n in range(7, 16)]
    assert RunGuard(rows, {}).best_before([2, 4, 10, 12, 14], before=15) == 10


def test_whatever_a_later_alarm_may_go_back_to_is_kept() -> None:
    found = guard(*[0.5] * 12, *[0.1] * 28)
    saved = range(0, 41, 4)
    assert found.kept(saved, 40, stage_start=4) == {4, 8, *range(16, 41, 4)}
    for before in range(17, 41):
        everything = found.best_before(saved, before)
        assert found.best_before(found.kept(saved, 40, stage_start=4), before) == everything


SETTINGS = LearnerSettings(lr=1e-3, weight_decay=0.1)


@dataclass
class Talk:
    params: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.8, top_k=5))


def stage(source: Any) -> TrainingStage:
    return TrainingStage(name="grpo", first=1, steps=5, source=source, settings=SETTINGS)


def test_each_recovery_halves_the_rate_and_warms_the_rollouts() -> None:

    steps = Setup(seconds=lambda task: 0.0).source.steps
    parts: Any = replace(steps.parts, converse=lambda task, seed: Talk())
    given = stage(replace(steps, parts=parts))
    assert eased(given, 0) is given
    for count in (1, 2, 3):
        changed: Any = eased(given, count)
        assert changed.settings == replace(SETTINGS, lr=1e-3 * 0.5**count)
        params = changed.source.parts.converse(None, 0).params
        assert params.temperature == pytest.approx(0.8 * 1.15**count)
        assert (params.top_k, params.max_tokens) == (5, 64)


def test_overlapped_steps_go_on_without_what_was_in_flight() -> None:
    source = Setup(seconds=lambda task: 0.0).source
    source._in_flight[3] = None  # type: ignore[assignment]
    changed = eased(stage(source), 1).source
    assert isinstance(changed, OverlappedSteps)
    assert changed._in_flight == {}
    assert changed._weights is None
    assert changed.steps.rollouts == source.steps.rollouts


def test_a_recovery_is_described_in_a_sentence() -> None:
    assert describe_recovery(10, 2) == (
        "back to the weights of step 10, with the rate times 0.25 and the temperature times 1.32 "
        "(recovery 2 of at most 3)"
    )
    assert describe_recovery(10, 4) == "back to the weights of step 10, to stop there"


@pytest.mark.parametrize("value_lr", [None, 3e-4])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_recovery_lowers_every_rate_alike(value_lr: float | None, count: int) -> None:
    found = eased_settings(LearnerSettings(lr=1e-3, value_lr=value_lr), count)
    assert found.lr == 1e-3 * RATE_FACTOR**count
    assert found.value_lr == (None if value_lr is None else value_lr * RATE_FACTOR**count)
