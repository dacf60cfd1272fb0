"""`practicum train --seeds`, resuming a study, and `practicum compare`, on the tiny model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import practicum as pr
from practicum.store.events import read_metrics
from practicum.store.study_dir import StudyDir

pytestmark = pytest.mark.slow

QUICK = (
    "math",
    "model=tiny",
    "steps=1",
    "rollouts.tasks_per_step=2",
    "rollouts.group_size=3",
    "rollouts.max_turns=3",
    "eval.n=4",
    "hardware.threads=1",
)

FRAGILE = '''
import importlib.util
from pathlib import Path

import practicum as pr

spec = importlib.util.spec_from_file_location("lamps", {example!r})
lamps = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lamps)


class Fragile(lamps.LampEnvironment):
    """Cannot be trained on with seed 1."""

    def tasks(self, split, seed):
        if split == "train" and seed == 1 and not Path({repaired!r}).exists():
            raise pr.UserError("the lamps of seed 1 are broken; mend them")
        yield from super().tasks(split, seed)
'''


def fingerprints(study: StudyDir) -> dict[int, list[object]]:
    rows = {seed: read_metrics(run.metrics_path).rows for seed, run in study.runs().items()}
    return {s: [r.values["fingerprint"] for r in found] for s, found in rows.items()}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> StudyDir:
    """A study of two seeds, trained at the same time."""
    runs = tmp_path_factory.mktemp("runs")
    words = (*QUICK, f"runs_dir={runs}", "--seeds", "2", "--parallel", "2", "--name", "s")
    done = subprocess.run(
        [sys.executable, "-m", "practicum.cli.main", "train", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "success" in done.stdout
    assert "seed 1  done  step 1 of 1" in done.stderr
    return StudyDir(runs / "s")


def test_a_study_is_a_folder_of_ordinary_runs(practicum, shared: StudyDir) -> None:
    facts = json.loads(shared.facts_path.read_text())
    assert (facts["seeds"], facts["format"], facts["failures"]) == ([0, 1], 1, {})
    assert facts["config"]["model"]["name"] == "tiny"
    runs = shared.runs()
    assert [run.config().seed for run in runs.values()] == [0, 1]
    first, second = fingerprints(shared).values()
    assert first[1:] != second[1:]
    listed = json.loads(practicum("runs", "--runs-dir", shared.path, "--json").out)
    assert {run["status"] for run in listed["runs"]} == {"finished"}
    assert "is done" in practicum("train", "--resume", runs[0].path).out


def test_a_study_is_listed_and_shown(practicum, shared: StudyDir) -> None:
    there = ("--runs-dir", shared.path.parent)
    assert "study s: 2 of 2 seeds done; practicum compare s" in practicum("runs", *there).out
    [listed] = json.loads(practicum("runs", *there, "--json").out)["studies"]
    assert listed == {"name": "s", "seeds": 2, "done": 2}
    for words in (("runs", "s"), ("watch", "s", "--once")):
        answer = practicum(*words, *there)
        assert answer.code == 0, answer.err
        assert "seed_0" in answer.out
        assert "seed_1" in answer.out


def test_a_finished_study_has_nothing_left_to_do(practicum, shared: StudyDir) -> None:
    before = [run.facts() for run in shared.runs().values()]
    answer = practicum("train", "--resume", shared.path)
    assert answer.code == 0
    assert "2 seeds, 2 done" in answer.err
    assert "2 of 2 seeds are done" in answer.out
    assert [run.facts() for run in shared.runs().values()] == before
    assert "--seeds and --resume" in practicum("train", "--resume", "x", "--seeds", "2").sentence
    changed = practicum("train", "--resume", shared.path, "algorithm.lr=1").sentence
    assert "algorithm.lr" in changed
    assert "seed_1 math tiny  finished" in practicum("runs", shared.path).out


def test_studies_and_runs_are_compared(practicum, shared: StudyDir, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "curves.png"
    answer = practicum(
        "compare", shared.path, shared.path / "seed_1", "--json", "--plot", picture, "--bar", "0.5"
    )
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found["first"]["seeds"] == [0, 1]
    assert found["second"]["seeds"] == [1]
    assert found["first"]["bar"] == 0.5
    assert found["n_tasks"] == 4
    assert picture.read_bytes().startswith(b"\x89PNG")
    shown = practicum("compare", shared.path, shared.path / "seed_1").out
    assert "one seed: for a claim about learning" in " ".join(shown.split())
    assert "seed 0 success" in practicum("compare", shared.path).out
    assert "is no picture" in practicum("compare", shared.path, "--plot", "curves.doc").sentence
    assert "there is no run" in practicum("compare", shared.path, "nowhere").sentence


@pytest.mark.rare
def test_a_missing_seed_is_trained_and_gets_the_same_bytes(
    practicum, shared: StudyDir, tmp_path: Path
) -> None:
    words = (*QUICK, f"runs_dir={tmp_path}", "--parallel", "1")
    assert practicum("train", *words, "--seeds", "0,1", "--name", "t").code == 0
    study = StudyDir(tmp_path / "t")
    whole = fingerprints(study)
    assert whole == fingerprints(shared)  # the threads of a seed do not hang on its neighbours
    os.rename(study.path / "seed_0", tmp_path / "kept")
    answer = practicum("train", "--resume", study.path)
    assert answer.code == 0
    assert "2 seeds, 1 done" in answer.err
    assert fingerprints(study) == whole
    assert len(study.run(1).facts().attempts) == 1  # the other one was left alone


@pytest.mark.rare
def test_a_killed_study_leaves_no_trainer_behind_and_ends_with_the_same_bytes(
    practicum, shared: StudyDir, tmp_path: Path
) -> None:
    words = (*QUICK, f"runs_dir={tmp_path}", "--parallel", "1", "--seeds", "2", "--name", "k")
    command = [sys.executable, "-m", "practicum.cli.main", "train", *words]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    study = StudyDir(tmp_path / "k")
    deadline = time.monotonic() + 300
    while not study.run(0).lock_path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while study.run(0).trainer_pid() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert practicum("train", "--resume", study.path).code == 0
    assert fingerprints(study) == fingerprints(shared)


@pytest.mark.rare
def test_an_interrupted_study_says_how_to_go_on(tmp_path: Path) -> None:
    words = ("steps=400", f"runs_dir={tmp_path}", "--seeds", "2", "--name", "i")
    command = [sys.executable, "-m", "practicum.cli.main", "train", *QUICK, *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    study = StudyDir(tmp_path / "i")
    deadline = time.monotonic() + 300
    while not any(r.kind == "step" for r in read_metrics(study.run(0).metrics_path).rows):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130
    assert f"practicum train --resume {study.path}" in said
    assert study.facts().failures == {}


@pytest.mark.rare
def test_a_failed_seed_is_recorded_and_the_others_go_on(practicum, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "01_own_environment.py"
    repaired, source = tmp_path / "repaired", tmp_path / "fragile.py"
    source.write_text(FRAGILE.format(example=str(example), repaired=str(repaired)))
    words = (*QUICK[1:], f"runs_dir={tmp_path}", "--parallel", "1", "--seeds", "1,2")
    answer = practicum("train", f"{source}:Fragile", *words, "--name", "f")
    assert answer.code == 1
    assert "seed 1 failed: the lamps of seed 1 are broken; mend them" in answer.err
    study = StudyDir(tmp_path / "f")
    assert study.facts().failures == {"1": "the lamps of seed 1 are broken; mend them"}
    assert study.unfinished() == [1]
    assert "left out: seed 1" in answer.out
    repaired.touch()
    again = practicum("train", "--resume", study.path)
    assert again.code == 0, again.err
    assert study.facts().failures == {}


@pytest.mark.rare
def test_a_study_is_trained_from_python(tmp_path: Path) -> None:
    options = {
        "model": "tiny",
        "rollouts": {"tasks_per_step": 2, "group_size": 3, "max_turns": 3},
        "eval": {"n": 4},
        "hardware": {"threads": 1},
        "runs_dir": str(tmp_path),
        "quiet": True,
    }
    study = pr.train("math", seeds=(3, 5), steps=1, name="p", **options)
    assert list(study.runs) == [3, 5]
    assert study.report().n_tasks == 4
    more = pr.train(resume=study.path, steps=2, quiet=True)
    assert isinstance(more, pr.Study)
    assert [run.config.steps for run in more.runs.values()] == [2, 2]
    with pytest.raises(pr.UserError, match="keeps its seeds"):
        pr.train(resume=study.path, seeds=3)


def test_one_run_says_that_it_is_one_seed(practicum, tmp_path: Path) -> None:
    answer = practicum("train", *QUICK, f"runs_dir={tmp_path}", "--name", "one")
    assert "one seed: for a claim about learning run --seeds 5" in answer.out
    shown = practicum("eval", tmp_path / "one", "--n", "2").out
    assert "one seed: for a claim about learning run --seeds 5" in shown
    assert "one seed" not in practicum("eval", "reference", "--env", "math", "--n", "2").out


@pytest.mark.rare
def test_the_coverage_of_the_intervals_is_measured_by_a_script() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "seed_coverage.py"
    command = [sys.executable, str(script), "--studies", "20", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert len(found["rows"]) == 3 + 72 + 3
    kinds = [row for row in found["rows"] if row["what"] == "one kind"]
    assert 0.9 < sum(row["covered"] for row in kinds) / len(kinds) <= 1
    assert sum(row["called"] for row in kinds) / len(kinds) < 0.06


def test_seeds_that_cannot_be_are_one_sentence(practicum) -> None:
    assert "--seeds 'many' cannot be read" in practicum("train", *QUICK, "--seeds", "many").sentence
    assert "no run" in practicum("compare", "nowhere").sentence
