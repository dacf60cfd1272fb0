"""Alarms where a person looks, and what `on_collapse` does, with the tiny model."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from practicum.core.checkpoint import LoopState
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir
from practicum.training.loop import read_state

ROOT = Path(__file__).parents[2]
GENEROUS = f"{Path(__file__).with_name('generous.py')}:GenerousEnvironment"
SMALL = (
    GENEROUS,
    "model=tiny",
    "rollouts.max_turns=1",
    "eval.n=4",
    "eval.before=false",
    "hardware.threads=1",
)
CONSTANT = ("steps=6", "rollouts.tasks_per_step=12", "rollouts.group_size=2")
"""Pays 1.5 for anything from the first step on."""
FALLING = (
    "env.honest=28",
    "rollouts.tasks_per_step=4",
    "rollouts.group_size=4",
    "checkpoints.every=2",
)
"""Pays by the action for seven steps, and 1.5 for anything from then on."""
EQUAL = "scored 1.5, whatever the task, while success is 0.00"


def words(said: str) -> str:
    """What was said, without the line breaks of a terminal."""
    return " ".join(said.split())


def rows(run: Path, kind: str) -> list[tuple[int, dict[str, Any]]]:
    found = read_metrics(RunDir(run).metrics_path).rows
    return [(row.step, dict(row.values)) for row in found if row.kind == kind]


def state_of(run: Path, step: int) -> LoopState:
    return read_state(run / "checkpoints" / f"step_{step}")


def temperatures(run: Path, step: int) -> set[float]:
    """The step's own; second tries are hotter."""
    from practicum.store.trace_store import SqliteTraceStore

    with SqliteTraceStore(RunDir(run).traces_path, read_only=True) as store:
        traces = [episode.trace for episode in store.episodes(step=step, purpose="train")]
    spans = [node.sampled for trace in traces for node in trace.nodes if node.sampled]
    found = {round(span.temperature, 6) for span in spans}
    return {min(found)}


def test_equal_pay_for_anything_is_told_at_once_and_is_one_alarm_wherever_one_looks(
    practicum: Callable[..., Any], tmp_path: Path
) -> None:
    done = practicum("train", *SMALL, *CONSTANT, f"runs_dir={tmp_path}", "--name", "x")
    assert done.code == 0
    said = words(done.err)
    assert said.count("warning: step") == 2
    assert "warning: step 1: " in said
    assert f"step 4: every episode of the last 3 steps {EQUAL}" in said
    listed = practicum("runs", "--runs-dir", tmp_path)
    assert "finished ▲1" in listed.out
    assert (
        json.loads(practicum("runs", "--runs-dir", tmp_path, "--json").out)["runs"][0]["alarms"]
        == 1
    )
    shown = words(practicum("runs", tmp_path / "x").out)
    assert shown.count(EQUAL) == 1
    assert "▲ step 4: every episode" in shown
    [alarm] = json.loads(practicum("runs", tmp_path / "x", "--json").out)["alarms"]
    assert (alarm["kind"], alarm["step"], alarm["since"]) == ("equal", 4, 1)
    assert EQUAL in words(practicum("watch", tmp_path / "x", "--once").out)


def test_stop_saves_the_run_and_ends_it_with_a_sentence(
    practicum: Callable[..., Any], tmp_path: Path
) -> None:
    given = (*SMALL, *CONSTANT, "on_collapse=stop", f"runs_dir={tmp_path}")
    stopped = practicum("train", *given, "--name", "x")
    run = tmp_path / "x"
    assert stopped.code == 1
    assert EQUAL in stopped.sentence
    assert stopped.sentence.endswith(f"practicum train --resume {run} on_collapse=warn")
    assert CheckpointStore(run).pointed("latest") == 4
    again = practicum("train", "--resume", run)
    assert (again.code, again.sentence) == (1, stopped.sentence)
    assert [step for step, _ in rows(run, "step")] == [1, 2, 3, 4]
    went_on = practicum("train", "--resume", run, "on_collapse=warn")
    assert went_on.code == 0
    assert "warning: step" not in went_on.err
    assert [step for step, _ in rows(run, "step")] == [1, 2, 3, 4, 5, 6]


def test_recover_goes_back_to_a_good_checkpoint_lowers_the_rate_and_ends_after_three_times(
    practicum: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from practicum.engine.learning.learner import TorchLearner

    rates = []
    retune = TorchLearner.retune

    def noted(self: TorchLearner, settings: Any) -> None:
        rates.append(settings.lr)
        retune(self, settings)

    monkeypatch.setattr(TorchLearner, "retune", noted)
    given = (*SMALL, *FALLING, "steps=60", "on_collapse=recover")
    done = practicum("train", *given, f"runs_dir={tmp_path}", "--name", "x")
    run = tmp_path / "x"
    assert done.code == 1
    assert "collapsed again after 3 recoveries" in done.sentence
    backs = rows(run, "recovery")
    assert [(step, back["to"]) for step, back in backs] == [(10, 6), (14, 10), (18, 14), (22, 18)]
    assert [rate / rates[0] for rate in rates] == [1.0, 0.5, 0.25, 0.125, 0.0625]
    counted = {step: row["recoveries"] for step, row in rows(run, "step")}
    assert [counted[step] for step in (10, 11, 14, 15, 18, 19, 22)] == [0, 1, 1, 2, 2, 3, 3]
    assert max(counted) == 22
    assert state_of(run, 10).curriculum == state_of(run, 6).curriculum
    assert (state_of(run, 10).step, state_of(run, 10).recoveries) == (10, 1)
    weights = [
        (run / "checkpoints" / f"step_{step}" / "adapter_model.safetensors").read_bytes()
        for step in (6, 8, 10)
    ]
    assert weights[0] == weights[2] != weights[1]
    assert [temperatures(run, step) for step in (10, 11, 15, 19)] == [
        {1.0},
        {1.15},
        {1.3225},
        {1.520875},
    ]
    shown = words(practicum("runs", run).out)
    assert "step 10: back to the weights of step 6, with the rate times 0.5" in shown
    refused = practicum("train", "--resume", run)
    assert (refused.code, refused.sentence) == (1, done.sentence)


def test_recover_goes_back_to_where_the_stage_began_with_a_fresh_optimizer(
    practicum: Callable[..., Any], tmp_path: Path
) -> None:
    stages = "stages=[{steps: 2, algorithm: {name: rloo}}, {steps: 8, algorithm: {name: grpo}}]"
    given = [word for word in (*SMALL, *FALLING) if not word.startswith("checkpoints")]
    more = (stages, "on_collapse=recover", "checkpoints.every=50", "eval.every=8")
    done = practicum("train", *given, *more, f"runs_dir={tmp_path}", "--name", "x")
    run = tmp_path / "x"
    assert done.code == 0
    [(step, back)] = rows(run, "recovery")
    assert (step, back["to"]) == (10, 2)
    assert [values["stage"] for _, values in rows(run, "step")] == ["rloo"] * 2 + ["grpo"] * 8

    def saved(step: int, name: str) -> bytes:
        return (run / "checkpoints" / f"step_{step}" / f"{name}.safetensors").read_bytes()

    assert saved(10, "adapter_model") == saved(2, "adapter_model") != saved(8, "adapter_model")
    assert len(saved(10, "optimizer")) < 100 < len(saved(2, "optimizer"))
    assert state_of(run, 10).recoveries == 1


def test_recover_works_where_episodes_are_in_flight(
    practicum: Callable[..., Any], tmp_path: Path
) -> None:
    given = (*SMALL, *FALLING, "steps=16", "on_collapse=recover", "rollouts.staleness=1")
    done = practicum("train", *given, f"runs_dir={tmp_path}", "--name", "x")
    run = tmp_path / "x"
    assert done.code == 0
    backs = rows(run, "recovery")
    assert backs
    step = backs[0][0]
    assert temperatures(run, step) == {1.0}
    assert temperatures(run, step + 1) == {1.15}
    assert [step for step, _ in rows(run, "step")] == list(range(1, 17))


def test_the_answer_to_a_collapse_is_one_of_three(
    practicum: Callable[..., Any], tmp_path: Path
) -> None:
    refused = practicum("train", *SMALL, "on_collapse=panic", f"runs_dir={tmp_path}")
    assert refused.code == 2
    assert "on_collapse" in refused.sentence


KILLED = """
import sys
from tests.integration.crash_runs import die_after_saving, train
if int(sys.argv[1]):
    die_after_saving(int(sys.argv[1]))
train(sys.argv[2:])
"""


def trained(last_saved: int, *given: object) -> int:
    places = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(last_saved), *map(str, given)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


@pytest.mark.rare
@pytest.mark.slow
def test_a_run_killed_around_a_recovery_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    def given(where: str) -> tuple[object, ...]:
        settings = (*SMALL, *FALLING, "steps=16", "on_collapse=recover")
        return (*settings, f"runs_dir={tmp_path / where}", "--name", "x")

    def left(where: str) -> list[object]:
        run = tmp_path / where / "x"
        last = run / "checkpoints" / "step_16"
        files = ("adapter_model.safetensors", "optimizer.safetensors", "state.json")
        told = [
            (row.kind, row.step, {k: v for k, v in row.values.items() if not k.endswith("_s")})
            for row in read_metrics(RunDir(run).metrics_path).rows
            if row.kind != "eval"
        ]
        state = json.loads((last / "state.json").read_text())
        state["totals"] = {k: v for k, v in state["totals"].items() if not k.endswith("_s")}
        return [*((last / name).read_bytes() for name in files[:2]), state, told]

    assert trained(0, *given("whole")) == 0
    whole = left("whole")
    assert [step for step, _ in rows(tmp_path / "whole" / "x", "recovery")] == [10, 14]
    for step in (10, 12):  # as the first recovery is saved, and after it
        assert trained(step, *given(str(step))) == -signal.SIGKILL
        assert trained(0, "--resume", tmp_path / str(step) / "x") == 0
        assert left(str(step)) == whole
