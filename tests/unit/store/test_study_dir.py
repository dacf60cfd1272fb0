import json
from pathlib import Path

import pytest

from practicum.core.config.run_config import RunConfig
from practicum.core.errors import RunBusy, UserError
from practicum.store.run_dir import RunDir, find_run
from practicum.store.study_dir import StudyDir, find_study, is_finished, parse_seeds


@pytest.fixture
def study(tmp_path: Path, config: RunConfig) -> StudyDir:
    here = config.model_copy(update={"runs_dir": str(tmp_path / "runs"), "steps": 3})
    return StudyDir.create(here, (0, 4), name="s", parallel=2)


def test_a_study_is_its_config_and_its_seeds(study: StudyDir, tmp_path: Path) -> None:
    facts = study.facts()
    assert (facts.seeds, facts.parallel, facts.format) == ((0, 4), 2, 1)
    assert study.config().steps == 3
    told = study.seed_config(4)
    assert (told.seed, told.runs_dir) == (4, str(study.path))
    assert told.eval == study.config().eval  # every seed has the same held-out tasks
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["s"]


def test_a_study_is_found_by_path_and_by_name(study: StudyDir, tmp_path: Path) -> None:
    for named in (study.path, "s"):
        found = find_study(named, tmp_path / "runs")
        assert found is not None
        assert found.path == study.path
    assert find_study("other", tmp_path / "runs") is None
    with pytest.raises(UserError, match="is a study of several seeds; name one of its runs"):
        find_run("s", tmp_path / "runs")


def test_a_name_is_used_once(study: StudyDir) -> None:
    with pytest.raises(UserError, match="exists already; go on with it by --resume"):
        StudyDir.create(study.config(), (0,), name="s")
    other = StudyDir.create(study.config(), (0,))
    assert other.name.startswith("math-")


def test_a_seed_is_finished_once_its_last_step_is_saved_and_evaluated(study: StudyDir) -> None:
    assert study.unfinished() == [0, 4]
    run = RunDir.create(study.path, study.seed_config(0), name="seed_0")
    assert list(study.runs()) == [0]
    (run.checkpoints_path / "step_3").mkdir()
    (run.checkpoints_path / "latest").write_text("step_3\n")
    assert not is_finished(run, 3)
    run.save_evaluation(3, {"schema": 1})
    assert is_finished(run, 3)
    assert not is_finished(run, 4)
    assert study.unfinished() == [4]


def test_a_failure_is_kept_until_the_seed_does_better(study: StudyDir) -> None:
    study.record_failure(4, "the disk is full")
    study.record_failure(0, "no memory")
    study.record_failure(4, None)
    assert study.facts().failures == {"0": "no memory"}


def test_one_process_runs_a_study(study: StudyDir) -> None:
    with study.hold(), pytest.raises(RunBusy), study.hold():
        pass


def test_a_damaged_or_newer_study_is_one_sentence(study: StudyDir) -> None:
    values = json.loads(study.facts_path.read_text())
    study.facts_path.write_text(json.dumps({**values, "format": 2}))
    with pytest.raises(UserError, match="has format 2, and format 1 is read"):
        study.facts()
    study.facts_path.write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        study.facts()


def test_seeds_are_counted_or_named() -> None:
    assert parse_seeds("3") == (0, 1, 2)
    assert parse_seeds("2", first=5) == (5, 6)
    assert parse_seeds("0, 3,7") == (0, 3, 7)


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "0", "3,3", "5000", "1;2"])
def test_other_seeds_are_refused_with_what_to_type(text: str) -> None:
    with pytest.raises(UserError, match="--seeds 5"):
        parse_seeds(text)
