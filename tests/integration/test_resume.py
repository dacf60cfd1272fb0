"""The same seed gives the same bytes, also through kill -9 at any moment."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.crash_runs import RANDOM_KILLS, STAGE_KILLS

from practicum.store.checkpoints import CheckpointStore
from practicum.store.durable import FAILPOINTS
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir
from practicum.store.trace_store import SqliteTraceStore

pytestmark = [pytest.mark.slow, pytest.mark.rare]

IN_MEMORY = Path("/dev/shm")
NEVER_REACHED = frozenset({"folder.displace.before", "folder.displace.after"})
"""A step is saved twice only after a damaged checkpoint, which these runs do not have."""


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    script = Path(__file__).with_name("crash_runs.py")
    where = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="resume-", dir=where) as folder:
        command = [sys.executable, str(script), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        yield Path(folder)


def adapter(run: Path, step: int = 4) -> bytes:
    return (run / "checkpoints" / f"step_{step}" / "adapter_model.safetensors").read_bytes()


def optimizer(run: Path) -> bytes:
    return (run / "checkpoints" / "step_4" / "optimizer.safetensors").read_bytes()


def recorded(run: Path) -> list[tuple[str, int, object, object]]:
    """What counts of the metrics, less what the clock says."""
    rows, damaged = read_metrics(RunDir(run).metrics_path)
    assert damaged == []
    return [(r.kind, r.step, r.values.get("reward"), r.values.get("fingerprint")) for r in rows]


def episodes(run: Path) -> list[tuple[str, object, object]]:
    with SqliteTraceStore(RunDir(run).traces_path, read_only=True) as store:
        return [(e.trace.id, e.trace.nodes, e.score) for e in store.episodes()]


def assert_same_run(run: Path, whole: Path) -> None:
    assert adapter(run) == adapter(whole)
    assert optimizer(run) == optimizer(whole)
    assert sorted(recorded(run), key=str) == sorted(recorded(whole), key=str)
    assert episodes(run) == episodes(whole)
    assert CheckpointStore(run).pointed("best") == CheckpointStore(whole).pointed("best")


def test_training_changes_the_adapter(root: Path) -> None:
    assert adapter(root / "whole" / "x", 3) != adapter(root / "whole" / "x", 4)


def test_two_runs_with_the_same_seed_end_with_the_same_bytes(root: Path) -> None:
    assert_same_run(root / "again" / "x", root / "whole" / "x")


@pytest.mark.parametrize("name", FAILPOINTS)
def test_a_run_killed_at_a_failpoint_resumes_to_the_same_bytes(root: Path, name: str) -> None:
    folder = root / "killed" / name
    expected = 0 if name in NEVER_REACHED else -signal.SIGKILL
    assert int((folder / "code").read_text()) == expected
    assert_same_run(folder / "x", root / "whole" / "x")


@pytest.mark.parametrize("number", range(RANDOM_KILLS))
def test_a_run_killed_at_a_random_moment_resumes_to_the_same_bytes(root: Path, number: int) -> None:
    folder = root / "random" / str(number)
    assert int((folder / "code").read_text()) == -signal.SIGKILL
    assert_same_run(folder / "x", root / "whole" / "x")


def test_a_run_of_two_stages_goes_through_both_with_a_value_head(root: Path) -> None:
    whole = root / "stages" / "whole" / "x"
    rows = read_metrics(RunDir(whole).metrics_path).rows
    steps = [r.values for r in rows if r.kind == "step"]
    assert [values["stage"] for values in steps] == ["sft", "sft", "ppo", "ppo"]
    assert [values["value_loss"] is None for values in steps] == [True, True, False, False]
    assert [r.step for r in rows if r.kind == "eval"] == [0, 2, 4]


@pytest.mark.parametrize("step", STAGE_KILLS)
def test_a_run_killed_inside_or_between_stages_resumes_to_the_same_bytes(
    root: Path, step: int
) -> None:
    folder, whole = root / "stages" / str(step), root / "stages" / "whole" / "x"
    assert int((folder / "code").read_text()) == -signal.SIGKILL
    assert RunDir(folder / "x").facts().attempts[-1].from_step == step
    assert_same_run(folder / "x", whole)
    head = Path("checkpoints") / "step_4" / "value_head.safetensors"
    assert (folder / "x" / head).read_bytes() == (whole / head).read_bytes()
