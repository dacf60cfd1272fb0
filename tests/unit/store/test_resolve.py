import shutil
from pathlib import Path

import pytest

from practicum.core.config.run_config import RunConfig
from practicum.core.errors import CheckpointError, UserError
from practicum.store.checkpoints import CheckpointStore, resolve_checkpoint
from practicum.store.run_dir import RunDir


@pytest.fixture
def runs_dir(tmp_path: Path, config: RunConfig) -> Path:
    """A run `x` with steps 5, 10 and 15, the best of them 10."""
    run = RunDir.create(tmp_path / "runs", config, name="x")
    store = CheckpointStore(run.path)
    for step in (5, 10, 15):
        store.save(step, lambda folder: _write(folder / "adapter"), fingerprint=f"f{step}", keep=9)
    store.mark_best(10)
    return tmp_path / "runs"


def _write(path: Path) -> None:
    path.write_text("weights")


@pytest.mark.parametrize(
    ("named", "step"),
    [
        ("x", 15),
        ("latest", 15),
        ("x/latest", 15),
        ("x/best", 10),
        ("latest/best", 10),
        ("x/step_5", 5),
    ],
)
def test_a_name_in_the_runs_folder_finds_its_checkpoint(
    runs_dir: Path, named: str, step: int
) -> None:
    checkpoint, run, damaged = resolve_checkpoint(named, runs_dir)
    assert (checkpoint.step, checkpoint.fingerprint) == (step, f"f{step}")
    assert run is not None
    assert run.name == "x"
    assert damaged == ()


@pytest.mark.parametrize(
    ("path", "step"),
    [
        ("x", 15),
        ("latest", 15),
        ("x/latest", 15),
        ("x/best", 10),
        ("x/step_5", 5),
        ("x/checkpoints/step_5", 5),
        ("x/checkpoints/best", 10),
        ("x/checkpoints/latest", 15),
    ],
)
def test_a_path_finds_its_checkpoint_wherever_runs_are_kept(
    runs_dir: Path, path: str, step: int
) -> None:
    checkpoint, run, _ = resolve_checkpoint(runs_dir / path, Path("elsewhere"))
    assert checkpoint.step == step
    assert run is not None
    assert run.path == runs_dir / "x"


def test_names_work_from_inside_the_run(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs_dir / "x")
    assert resolve_checkpoint("checkpoints/best", Path("runs")).checkpoint.step == 10
    inside = resolve_checkpoint(".", Path("runs"))
    assert inside.checkpoint.step == 15
    assert inside.run is not None
    assert inside.run.name == "x"


def test_a_checkpoint_copied_out_of_its_run_is_used_as_it_is(
    runs_dir: Path, tmp_path: Path
) -> None:
    shutil.copytree(runs_dir / "x" / "checkpoints" / "step_10", tmp_path / "my-adapter")
    checkpoint, run, _ = resolve_checkpoint(tmp_path / "my-adapter", runs_dir)
    assert checkpoint.step == 10
    assert run is None


def test_a_run_whose_newest_is_damaged_gives_the_next_and_names_it(runs_dir: Path) -> None:
    newest = runs_dir / "x" / "checkpoints" / "step_15"
    (newest / "adapter").write_text("")
    checkpoint, _, damaged = resolve_checkpoint("x", runs_dir)
    assert checkpoint.step == 10
    assert [d.path for d in damaged] == [newest]


@pytest.mark.parametrize("file", ["adapter", "manifest.json"])
def test_a_damaged_checkpoint_asked_for_by_name_is_refused(runs_dir: Path, file: str) -> None:
    (runs_dir / "x" / "checkpoints" / "step_10" / file).unlink()
    for named in ("x/best", "x/step_10", runs_dir / "x" / "checkpoints" / "step_10"):
        with pytest.raises(CheckpointError, match=f"step_10 is damaged: {file} is missing"):
            resolve_checkpoint(named, runs_dir)


def test_a_run_without_checkpoints_says_so(runs_dir: Path, config: RunConfig) -> None:
    RunDir.create(runs_dir, config, name="fresh")
    with pytest.raises(CheckpointError, match="fresh has no checkpoint yet"):
        resolve_checkpoint("fresh", runs_dir)


def test_a_run_without_a_best_says_so(runs_dir: Path) -> None:
    (runs_dir / "x" / "checkpoints" / "best").unlink()
    with pytest.raises(CheckpointError, match=r"marked as the best yet; use .*latest"):
        resolve_checkpoint("x/best", runs_dir)


@pytest.mark.parametrize("named", ["y", "y/best", "y/step_5", "y/latest"])
def test_a_run_that_is_not_there_is_one_sentence(runs_dir: Path, named: str) -> None:
    with pytest.raises(UserError, match=r"there (is no run|are no runs)"):
        resolve_checkpoint(named, runs_dir)
