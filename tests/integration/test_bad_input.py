"""Every user's mistake is one sentence and exit code 2, and nothing is lost."""

import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from practicum.store.checkpoints import CheckpointStore

Call = Callable[..., object]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def assert_refused(answer, *parts: str) -> None:
    assert answer.code == 2, answer.err
    for part in parts:
        assert part in answer.sentence


def test_an_unknown_key_names_the_nearest_one(practicum, tmp_path: Path) -> None:
    config = write(tmp_path / "c.yaml", "env: math\nalgorithm: {learning_rate: 1}\nmodel: tiny\n")
    assert_refused(
        practicum("train", config), "algorithm.learning_rate", "not an option of grpo", "lr,"
    )


def test_a_key_given_twice_is_refused_with_its_line(practicum, tmp_path: Path) -> None:
    config = write(tmp_path / "c.yaml", "env: math\nsteps: 3\nsteps: 4\n")
    assert_refused(practicum("train", config), "line 3", "'steps'", "twice")


def test_a_number_yaml_reads_as_text_is_the_number_it_is(practicum, tmp_path: Path) -> None:
    config = write(tmp_path / "c.yaml", "env: math\nmodel: tiny\nalgorithm: {lr: 1e-5}\n")
    answer = practicum("train", config, "--dry-run")
    assert answer.code == 0
    assert "lr: 1.0e-05" in answer.out


def test_a_missing_config_is_named(practicum, tmp_path: Path) -> None:
    assert_refused(practicum("train", tmp_path / "no.yaml"), "no.yaml", "environment")


def test_an_unknown_environment_is_named(practicum) -> None:
    assert_refused(practicum("train", "maths"), "'maths'", "math")


def test_an_unknown_option_of_the_environment_is_named(practicum) -> None:
    assert_refused(practicum("train", "math", "env.levle=2"), "env.levle", "env.level")


def test_a_model_that_does_not_exist_is_named(practicum, runs_dir: Path, tiny_run) -> None:
    answer = practicum("train", *tiny_run, "model=smollm3-135m", f"runs_dir={runs_dir}")
    assert_refused(answer, "smollm3-135m", "smollm2-135m")
    assert list(runs_dir.iterdir()) == []


@pytest.mark.parametrize("verb", ["watch", "runs"])
def test_a_run_that_does_not_exist_is_named(practicum, tmp_path: Path, verb: str) -> None:
    assert_refused(practicum(verb, tmp_path / "no-run"), "no-run")


def test_resuming_a_run_that_does_not_exist_is_refused(practicum, tmp_path: Path) -> None:
    assert_refused(practicum("train", "--resume", tmp_path / "no-run"), "no-run")


def test_no_memory_for_the_plan_is_said_before_anything_is_loaded(
    practicum, runs_dir: Path
) -> None:
    words = ("math", "model=Qwen/Qwen2.5-32B-Instruct", "model.dtype=float32")
    answer = practicum("train", *words, f"runs_dir={runs_dir}")
    assert_refused(answer, "GiB")
    assert list(runs_dir.iterdir()) == []


@pytest.fixture
def finished(practicum, runs_dir: Path, tiny_run) -> Path:
    words = (*tiny_run, "checkpoints.every=1", f"runs_dir={runs_dir}", "--name", "x")
    assert practicum("train", *words).code == 0
    return runs_dir / "x"


def test_evaluating_a_run_that_does_not_exist_names_those_that_do(
    practicum, finished: Path
) -> None:
    answer = practicum("eval", finished.parent / "nope", "--env", "math")
    assert_refused(answer, "there is no run", "nope", "x")


def test_a_changed_config_is_refused_by_its_keys(practicum, finished: Path) -> None:
    answer = practicum("train", "--resume", finished, "algorithm.lr=1e-5", "seed=3")
    assert_refused(answer, "algorithm.lr (0.0002 -> 1e-05)", "seed (0 -> 3)")


def test_more_steps_may_be_asked_of_a_finished_run(practicum, finished: Path) -> None:
    assert practicum("train", "--resume", finished, "steps=3").code == 0
    assert CheckpointStore(finished).pointed("latest") == 3


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
    practicum, finished: Path
) -> None:
    whole = (finished / "checkpoints/step_2/adapter_model.safetensors").read_bytes()
    damage(finished, 2)
    answer = practicum("train", "--resume", finished)
    assert answer.code == 0
    assert "step_2" in answer.err
    assert "damaged" in answer.err
    assert (finished / "checkpoints/step_2/adapter_model.safetensors").read_bytes() == whole


def test_a_run_whose_checkpoints_are_all_damaged_is_not_started_again(
    practicum, finished: Path
) -> None:
    damage(finished, 1)
    damage(finished, 2)
    assert_refused(practicum("train", "--resume", finished), "step_1", "step_2")
    assert_refused(practicum("eval", finished, "--n", 2), "damaged")


def test_an_evaluation_says_what_it_took_and_what_it_passed_over(practicum, finished: Path) -> None:
    damage(finished, 2)
    answer = practicum("eval", finished, "--n", 2)
    assert answer.code == 0
    assert f"taking {finished}/checkpoints/step_1" in answer.err
    assert "warning: passed over: " in answer.err


def test_a_run_that_fails_before_it_began_leaves_no_folder(
    practicum, runs_dir: Path, tmp_path: Path
) -> None:
    path = write(tmp_path / "mine.py", "def rows():\n    return [1 / 0]\n")
    words = ("env=none", "model=tiny", "algorithm=sft", f"data={path}:rows", f"runs_dir={runs_dir}")
    assert_refused(practicum("train", *words), "ZeroDivisionError", "(mine.py, line 2, in rows)")
    assert list(runs_dir.iterdir()) == []


def damage(run: Path, step: int) -> None:
    path = run / f"checkpoints/step_{step}/adapter_model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_an_adapter_for_another_model_is_refused(practicum, finished: Path) -> None:
    facts = finished / "checkpoints/step_2/adapter_config.json"
    values = json.loads(facts.read_text())
    facts.write_text(json.dumps(values | {"base_model_name_or_path": "gone"}))
    assert practicum("eval", finished / "step_2", "--n", 2).code == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("a small disk needs root to be mounted")
    made = subprocess.run([mount, "-t", "tmpfs", "-o", "size=900k", "tmpfs", str(folder)])
    if made.returncode != 0:
        pytest.skip("this machine does not let a small disk be mounted")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_while_saving_keeps_the_checkpoint_before(
    practicum, small_disk: Path, tiny_run
) -> None:
    words = (*tiny_run, "steps=40", "checkpoints.every=1", "checkpoints.keep=40", "eval.n=1")
    words = (*words, "warm_start=none")
    answer = practicum("train", *words, f"runs_dir={small_disk}", "--name", "x")
    assert_refused(answer, "disk is full", "intact")
    found = CheckpointStore(small_disk / "x").load_latest()
    assert found.checkpoint is not None
    assert found.damaged == ()


@pytest.mark.parametrize(
    ("words", "type_this"),
    [
        (["--steps", "3"], "type steps=3"),
        (["--algorithm.lr", "1e-4"], "type algorithm.lr=1e-4"),
        (["--seed"], "type seed=VALUE"),
    ],
)
def test_a_key_typed_as_an_option_is_told_how_to_type_it(
    practicum, words: list[str], type_this: str
) -> None:
    answer = practicum("train", "math", *words)
    assert answer.code == 2
    assert type_this in answer.err


def test_version_and_short_help_are_what_they_are_elsewhere(practicum) -> None:
    answer = practicum("--version")
    assert (answer.code, answer.out) == (0, f"practicum {version('practicum')}\n")
    assert practicum("train", "-h").out == practicum("train", "--help").out


def test_a_place_where_no_folder_can_be_made_is_not_called_a_full_disk(practicum, tiny_run) -> None:
    answer = practicum("train", *tiny_run, "runs_dir=/proc/runs")
    assert_refused(answer, "no folder can be made at /proc/runs", "runs_dir=DIR")


def test_resuming_with_fewer_steps_than_were_done_is_refused(
    practicum, runs_dir: Path, tiny_run
) -> None:
    assert practicum("train", *tiny_run, f"runs_dir={runs_dir}", "--name", "x").code == 0
    answer = practicum("train", "--resume", runs_dir / "x", "steps=1")
    assert_refused(answer, "steps=1 is less than the 2 that", "give 2 or more")


def test_nobody_at_the_keyboard_is_one_sentence(practicum, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    answer = practicum("play", "math", "--policy", "human")
    assert_refused(answer, "nobody to type", "another --policy")


BROKEN = {
    "agent": "async def mine(task, client):\n    return [].missing\n",
    "reward": "def mine(task, trace, outcome):\n    return task.data['missing']\n",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_bug_in_code_of_ones_own_is_told_with_its_line(
    practicum, runs_dir: Path, tiny_run, tmp_path: Path, kind: str
) -> None:
    pytest.importorskip("uvicorn")
    path = write(tmp_path / "broken.py", BROKEN[kind])
    answer = practicum("train", *tiny_run, f"{kind}={path}:mine", f"runs_dir={runs_dir}")
    assert_refused(answer, "every attempt failed", "(broken.py, line 2, in mine); mend that")
