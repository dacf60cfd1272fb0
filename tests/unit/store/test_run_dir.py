import os
import re
from pathlib import Path

import pytest

from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError, RunBusy, UserError
from practicum.store.events import EventLog
from practicum.store.run_dir import RunDir, check_name


def test_a_new_run_has_its_config_facts_and_checkpoint_folder(
    tmp_path: Path, config: RunConfig
) -> None:
    run = RunDir.create(tmp_path / "runs", config, name="x", hardware={"cores": 2})
    assert run.path == tmp_path / "runs" / "x"
    assert run.config() == config
    assert run.facts().hardware == {"cores": 2}
    assert run.facts().attempts == ()
    assert run.checkpoints_path.is_dir()
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["x"]


def test_a_run_without_a_name_is_called_after_environment_and_time(
    tmp_path: Path, config: RunConfig
) -> None:
    run = RunDir.create(tmp_path, config)
    assert re.fullmatch(r"math-\d{8}-\d{6}", run.name)


def test_runs_made_in_the_same_second_have_different_names(
    tmp_path: Path, config: RunConfig
) -> None:
    assert len({RunDir.create(tmp_path, config).name for _ in range(3)}) == 3


def test_a_taken_name_is_refused_with_what_to_type(tmp_path: Path, config: RunConfig) -> None:
    run = RunDir.create(tmp_path, config, name="x")
    said = r"exists already; go on with it by --resume .*x, or choose another --name"
    with pytest.raises(UserError, match=rf"{said}; no step of it is done: .*rm -r {run.path}"):
        RunDir.create(tmp_path, config, name="x")
    with EventLog(run.metrics_path, attempt=1, from_step=0) as metrics:
        metrics.append("train", step=1, values={"reward": 1.0})
    with pytest.raises(UserError, match=rf"{said}$"):
        RunDir.create(tmp_path, config, name="x")


def test_a_run_whose_metrics_are_damaged_is_not_called_empty(
    tmp_path: Path, config: RunConfig
) -> None:
    run = RunDir.create(tmp_path, config, name="x")
    run.metrics_path.write_text("torn\n")
    with pytest.raises(UserError, match=r"or choose another --name$"):
        RunDir.create(tmp_path, config, name="x")


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".x", "a/b", "a b", "é", "x" * 101, "latest", "-x"]
)
def test_a_name_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="cannot be a run's name; names have"):
        check_name(name)


@pytest.mark.parametrize("name", ["x", "math-20261115-142233", "A_1.b", "7"])
def test_ordinary_names_are_allowed(name: str) -> None:
    assert check_name(name) == name


def test_each_start_is_recorded(tmp_path: Path, config: RunConfig) -> None:
    run = RunDir.create(tmp_path, config, name="x")
    run.begin_attempt(from_step=0, threads=2, device="cpu")
    attempt = run.begin_attempt(from_step=7, threads=1, device="cuda")
    assert (attempt.attempt, attempt.from_step, attempt.pid) == (2, 7, os.getpid())
    assert [(a.attempt, a.threads, a.device) for a in run.facts().attempts] == [
        (1, 2, "cpu"),
        (2, 1, "cuda"),
    ]


def test_only_one_trainer_is_let_in(tmp_path: Path, config: RunConfig) -> None:
    run = RunDir.create(tmp_path, config, name="x")
    assert run.trainer_pid() is None
    with run.hold():
        assert run.trainer_pid() == os.getpid()
        with pytest.raises(RunBusy, match=str(os.getpid())), RunDir(run.path).hold():
            pytest.fail("two trainers in one run")


def test_a_runs_folder_that_is_a_file_is_one_sentence(tmp_path: Path, config: RunConfig) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(UserError, match="is a file, so it cannot hold runs; choose a folder"):
        RunDir.create(tmp_path / "runs", config, name="x")


def test_a_full_disk_leaves_no_half_of_a_run(small_disk: Path, config: RunConfig) -> None:
    (small_disk / "big").write_bytes(bytes(1024 * 1024 - 3 * 4096))
    with pytest.raises(UserError, match="the disk is full"):
        RunDir.create(small_disk, config, name="x", hardware={"text": "x" * 100_000})
    assert [p.name for p in small_disk.iterdir()] == ["big"]


def test_a_missing_config_is_named(tmp_path: Path, config: RunConfig) -> None:
    run = RunDir.create(tmp_path, config, name="x")
    run.config_path.unlink()
    with pytest.raises(ConfigError, match=r"config\.yaml is missing"):
        run.config()


def test_left_overs_of_a_killed_process_with_the_same_pid_are_no_obstacle(
    tmp_path: Path, config: RunConfig
) -> None:
    (tmp_path / f".x.tmp-{os.getpid()}").mkdir()
    assert RunDir.create(tmp_path, config, name="x").config() == config
