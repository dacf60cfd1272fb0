"""A run goes on from one of its checkpoints as a run of its own; the old one stays as it was."""

import hashlib
from pathlib import Path

import pytest

from practicum import train
from practicum.core.errors import UserError
from practicum.store.checkpoints import CheckpointStore
from practicum.store.forking import find_resumed, names_checkpoint
from practicum.store.run_dir import find_run

SMALL = {
    "model": "tiny",
    "rollouts": {"tasks_per_step": 1, "group_size": 2, "max_turns": 2},
    "eval": {"n": 2, "every": 1},
    "checkpoints": {"every": 1, "keep": 9},
    "hardware": {"threads": 1},
}


def digest(folder: Path) -> dict[str, str]:
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "lock"]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_only_names_of_checkpoints_are_taken_for_checkpoints() -> None:
    assert names_checkpoint("runs/a/step_3")
    assert names_checkpoint("runs/a/checkpoints/epoch_10")
    assert names_checkpoint("a/best")
    assert not names_checkpoint("runs/a")
    assert not names_checkpoint("step_3")


@pytest.mark.slow
def test_a_new_run_from_a_checkpoint_ends_as_the_old_one_did(tmp_path: Path) -> None:
    old = train("math", steps=3, runs_dir=str(tmp_path), name="old", quiet=True, **SMALL)
    before = digest(old.path)
    new = train(resume=old.path / "step_1", name="new", quiet=True)
    assert digest(old.path) == before
    assert new.path == tmp_path / "new"
    assert new.folder.facts().name == "new"
    assert [row["step"] for row in new.metrics] == [1, 2, 3]
    assert new.folder.facts().attempts[-1].from_step == 1
    weights = "checkpoints/step_3/adapter_model.safetensors"
    assert (new.path / weights).read_bytes() == (old.path / weights).read_bytes()
    further = train(resume=old.path / "checkpoints" / "step_2", steps=2, quiet=True)
    assert further.path == tmp_path / "old-from-2"
    assert CheckpointStore(further.path).steps() == [1, 2]
    assert sorted(further.evaluations) == [0, 1, 2]
    with pytest.raises(UserError, match="new exists already"):
        train(resume=old.path / "step_1", name="new", quiet=True)
    with pytest.raises(UserError, match="steps=1 is less than the 2"):
        train(resume=old.path / "step_2", steps=1, name="short", quiet=True)
    assert not (tmp_path / "short").exists()
    with pytest.raises(UserError, match="unless it goes on from a checkpoint"):
        find_resumed(old.path, tmp_path, "other")
    assert find_run("new", tmp_path).path == new.path
