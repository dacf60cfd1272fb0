"""A run killed at any durable step is whole, and resumes to what it would have been."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from practicum.store.checkpoints import CheckpointStore
from practicum.store.durable import FAILPOINTS
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir, lock_holder
from practicum.store.trace_store import SqliteTraceStore

pytestmark = pytest.mark.slow

IN_MEMORY = Path("/dev/shm")
"""A killed process loses nothing it wrote to a file system in memory, which is quicker to flush."""


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    script = Path(__file__).with_name("crash_scenario.py")
    where = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="crash-", dir=where) as folder:
        command = [sys.executable, str(script), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        yield Path(folder)


def what_counts(run: RunDir) -> dict[str, object]:
    """Everything a reader of the run is told, less times and attempts."""
    store = CheckpointStore(run.path)
    rows, damaged = read_metrics(run.metrics_path)
    with SqliteTraceStore(run.traces_path) as traces:
        episodes = list(traces.episodes())
    return {
        "steps": store.steps(),
        "weights": [
            (store.load(s).path / "adapter_model.safetensors").read_text() for s in store.steps()
        ],
        "fingerprints": [store.load(s).fingerprint for s in store.steps()],
        "pointers": (store.pointed("latest"), store.pointed("best")),
        "metrics": [(row.kind, row.step, dict(row.values)) for row in rows],
        "damaged": damaged,
        "episodes": episodes,
        "hidden": [path.name for path in run.path.rglob(".*")],
    }


def folders(root: Path, state: str, name: str) -> list[Path]:
    found = sorted((root / state / name).glob("*"))
    assert found, f"the scenario never reaches {name}"
    return found


def test_the_run_that_nothing_killed_is_as_it_should_be(root: Path) -> None:
    counted = what_counts(RunDir(root / "whole" / "x"))
    assert counted["steps"] == [1, 3]
    assert counted["pointers"] == (3, 1)
    assert counted["metrics"] == [("step", s, {"loss": 1 / s}) for s in (1, 2, 3)]
    assert counted["hidden"] == []


@pytest.mark.parametrize("name", FAILPOINTS)
def test_no_saved_checkpoint_is_lost_by_a_kill(root: Path, name: str) -> None:
    for folder in folders(root, "killed", name):
        saved = folder / "saved"
        at_least = max(map(int, saved.read_text().split())) if saved.exists() else 0
        if not RunDir.is_run(folder / "x"):
            assert at_least == 0
            assert list(folder.glob("[!.]*")) == []
            continue
        found = CheckpointStore(folder / "x").load_latest()
        assert found.damaged == ()
        step = found.checkpoint.step if found.checkpoint else 0
        assert step in (at_least, at_least + 1), folder
        assert lock_holder(folder / "x" / "lock") is None
        assert read_metrics(folder / "x" / "metrics.jsonl").damaged == []


@pytest.mark.parametrize("name", FAILPOINTS)
def test_a_killed_and_resumed_run_ends_as_if_it_was_never_killed(root: Path, name: str) -> None:
    whole = what_counts(RunDir(root / "whole" / "x"))
    for folder in folders(root, "resumed", name):
        assert what_counts(RunDir(folder / "x")) == whole, folder
