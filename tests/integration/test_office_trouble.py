"""Graders of the office that hang or raise: typed outcomes, and a run that goes on."""

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.machines import why_no_machine

from practicum.core.errors import EnvironmentFailure
from practicum.core.trace import StopReason
from practicum.environments.reference_policies import ReferenceActor, play_episode
from practicum.environments.registry import build_environment
from practicum.sandboxes.opening import unchecked_sandboxes
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir
from practicum.store.trace_store import SqliteTraceStore
from practicum_envs.office import office_grading
from practicum_envs.office.evidence import Evidence
from practicum_envs.office.families.all_families import families
from practicum_envs.office.office_environment import OfficeEnvironment, task_of
from practicum_envs.office.office_plan import FAMILIES, OfficePlan, Setting

pytestmark = pytest.mark.slow
SOUND = "announce-in-channel"
released = threading.Event()
"""Set at the end of a test: lets threads of graders that hang end."""


@pytest.fixture(autouse=True)
def _machines() -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(reason)


def hangs(seen: Evidence) -> bool:
    return released.wait(600)


def raises(seen: Evidence) -> bool:
    raise KeyError("no such cell")


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Families whose last checkpoint hangs or raises, and little time for graders."""
    sound = families()[SOUND]
    for grade in (hangs, raises):

        def make(setting: Setting, grade: Callable[[Evidence], bool] = grade) -> OfficePlan:
            plan = sound.make(setting)
            last = dataclasses.replace(plan.checkpoints[-1], passes=grade)
            return dataclasses.replace(plan, checkpoints=(*plan.checkpoints[:-1], last))

        name = grade.__name__
        monkeypatch.setitem(FAMILIES, name, dataclasses.replace(sound, name=name, make=make))
    monkeypatch.setattr(office_grading, "GRADING_S", 2.0)
    released.clear()
    yield
    released.set()


@pytest.mark.parametrize(
    ("family", "says"),
    [("hangs", "the grader did not end in 2 s"), ("raises", "KeyError: 'no such cell'")],
)
def test_a_grader_without_a_result_is_typed_and_holds_nothing_up(
    spoiled: None, family: str, says: str
) -> None:
    async def played() -> None:
        made = build_environment("office", {})
        assert isinstance(made, OfficeEnvironment)
        made.use_sandboxes(lambda kind: unchecked_sandboxes("bubblewrap", print))
        try:
            spoilt, sound = (task_of(FAMILIES[one], "train", 0, 0) for one in (family, SOUND))
            with pytest.raises(EnvironmentFailure, match=says):
                await play_episode(made, spoilt, ReferenceActor(made), 3)
            after = await play_episode(made, sound, ReferenceActor(made), 3)
            assert after.outcome.success is True
        finally:
            await made.close()

    # The loop ends though the grader's thread has not: `asyncio.run` waits for pooled ones.
    ended = threading.Event()
    threading.Thread(target=lambda: (asyncio.run(played()), ended.set()), daemon=True).start()
    assert ended.wait(240)


def test_a_run_goes_on_beside_graders_that_hang_or_raise(
    spoiled: None, practicum: Callable[..., Any], runs_dir: Path
) -> None:
    words = (
        *("office", f"env.families=[{SOUND}, hangs, raises]", "env.heldout=names", "model=tiny"),
        *("steps=2", "hardware.threads=1", "rollouts.tasks_per_step=3", "rollouts.group_size=2"),
        *("rollouts.max_turns=1", "rollouts.max_tokens=8", "rollouts.replace_flat_groups=0"),
        *("eval.n=6", "agent.retries=0", "curriculum=none"),
    )
    answer = practicum("train", *words, f"runs_dir={runs_dir}", "--name", "run")
    assert answer.code == 0, answer.err
    run = RunDir(runs_dir / "run")
    steps = [row for row in read_metrics(run.metrics_path).rows if row.kind == "step"]
    assert [row.values["masked_episodes"] for row in steps] == [4, 4]
    with SqliteTraceStore(run.traces_path, read_only=True) as traces:
        episodes = list(traces.episodes(purpose="train"))
    for episode in episodes:
        is_sound = SOUND in episode.trace.task_id
        assert episode.trace.is_masked is not is_sound
        assert (episode.score.value is None) is not is_sound
    lost = [one.trace for one in episodes if one.trace.is_masked]
    assert {one.stop for one in lost} == {StopReason.ENVIRONMENT_FAILED}
    assert {one.failure.kind for one in lost if one.failure} == {"EnvironmentFailure"}
