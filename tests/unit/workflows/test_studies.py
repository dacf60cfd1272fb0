"""Studies read from folders that were written here, without a model."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import practicum as pr
from practicum.core.checkpoint import TaskResult
from practicum.core.config.parse_config import build_config
from practicum.evaluation.over_seeds import success_interval
from practicum.evaluation.report import build_report, report_to_json, report_to_row
from practicum.evaluation.study_report import study_comparison_to_json
from practicum.store.events import EventLog
from practicum.store.run_dir import RunDir
from practicum.store.study_dir import StudyDir
from practicum.workflows.studies import plot_studies, reward_curve, success_curve

STEPS, TASKS = 8, 40


def write_seed(study: StudyDir, seed: int, ability: np.ndarray, steps: int = STEPS) -> None:
    """A run whose success at each step is `ability`."""
    run = RunDir.create(study.path, study.seed_config(seed), name=f"seed_{seed}")
    rng = np.random.default_rng([seed, 9])
    with EventLog(run.metrics_path, attempt=1, from_step=0) as log:
        for step in range(steps + 1):
            if step:
                reward = 8 * ability[step] + rng.normal() / 3
                log.append("step", step=step, values={"reward": reward})
            if step % 2 == 0:
                solved = rng.random(TASKS) < ability[step]
                tasks = [
                    TaskResult(task_id=f"t{i}", level=1, successes=(bool(s),), rewards=(float(s),))
                    for i, s in enumerate(solved)
                ]
                report = build_report(tasks, policy="p", env="math", fingerprint="f", seed=0)
                run.save_evaluation(step, report_to_json(report))
                log.append("eval", step=step, values=report_to_row(report))
    (run.checkpoints_path / f"step_{steps}").mkdir()
    (run.checkpoints_path / "latest").write_text(f"step_{steps}\n")


def write_study(runs: Path, name: str, best: float, seeds: int = 4) -> pr.Study:
    config = build_config({"env": "math", "model": "tiny", "steps": STEPS, "runs_dir": str(runs)})
    study = StudyDir.create(config, range(seeds), name=name)
    for seed in range(seeds):
        top = min(1.0, best + 0.05 * seed)
        write_seed(study, seed, top / (1 + np.exp(4 - np.arange(STEPS + 1))))
    return pr.load_study(study.path)


@pytest.fixture
def better(tmp_path: Path) -> pr.Study:
    return write_study(tmp_path / "runs", "better", 0.85)


@pytest.fixture
def worse(tmp_path: Path) -> pr.Study:
    return write_study(tmp_path / "runs", "worse", 0.3)


def test_a_study_has_its_runs_and_a_report_over_seeds(better: pr.Study) -> None:
    assert list(better.runs) == [0, 1, 2, 3]
    assert repr(better).endswith("better', 4 seeds)")
    found = better.report(bar=0.5)
    shares = [[t.successes[0] for t in run.report.tasks] for run in better.runs.values()]
    assert found.success == success_interval(np.array(shares, dtype=float))
    assert "seed 3 success" in str(better)
    assert better._repr_html_().startswith("<pre>better: math, 4 seeds")


def test_studies_are_compared_from_python(better: pr.Study, worse: pr.Study) -> None:
    found = pr.compare(worse, better)
    assert found.is_difference
    assert found.success_difference.value > 0.3
    assert pr.compare(worse.path, better.path) == found


def test_a_seed_that_is_not_done_is_left_out_and_named(better: pr.Study) -> None:
    (better.runs[2].folder.checkpoints_path / "latest").write_text("step_6\n")
    found = better.report()
    assert (found.seeds, found.missing) == ((0, 1, 3), (2,))


def unfinished(study: pr.Study, step: int) -> pr.Study:
    """A study of which every seed was stopped after a step."""
    for run in study.runs.values():
        (run.folder.checkpoints_path / "latest").write_text(f"step_{step}\n")
        for later in range(step + 1, STEPS + 1):
            (run.path / "evals" / f"step_{later}.json").unlink(missing_ok=True)
    return study


def test_unfinished_runs_are_compared_by_what_they_have_so_far(
    better: pr.Study, worse: pr.Study
) -> None:
    unfinished(better, 4)
    (better.runs[2].path / "evals" / "step_4.json").unlink()  # this one is behind the others
    found = pr.compare(worse, better)
    assert (found.first.so_far, found.second.so_far) == (None, (2, STEPS))
    assert found.second.seeds == (0, 1, 2, 3)
    assert "not finished; this is after 2 of 8" in str(better)
    alone = pr.compare(worse.path / "seed_0", better.path / "seed_1")
    assert (alone.first.so_far, alone.second.so_far) == (None, (4, STEPS))
    assert study_comparison_to_json(alone)["second"]["so_far"] == {"step": 4, "of": STEPS}  # type: ignore[index, call-overload]


def test_a_seed_without_an_evaluation_is_missing_and_a_study_of_none_says_so(
    better: pr.Study,
) -> None:
    for run in unfinished(better, 0).runs.values():
        if run.config.seed != 3:
            (run.path / "evals" / "step_0.json").unlink()
    found = better.report()
    assert (found.seeds, found.missing, found.so_far) == ((3,), (0, 1, 2), (0, STEPS))
    (better.runs[3].path / "evals" / "step_0.json").unlink()
    with pytest.raises(pr.UserError, match=r"was not evaluated yet; wait .* train --resume"):
        better.report()


def test_a_run_in_a_studys_place_is_one_seed(better: pr.Study, worse: pr.Study) -> None:
    alone = pr.load_study(better.path / "seed_1")
    assert (alone.name, alone.seeds, alone.failures) == ("better/seed_1", (1,), {})
    assert pr.compare(worse, alone).second.success.method == "wilson, one seed"


def test_a_study_without_a_seed_that_is_done_says_how_to_go_on(tmp_path: Path) -> None:
    config = build_config({"env": "math", "runs_dir": str(tmp_path)})
    empty = pr.load_study(StudyDir.create(config, (0, 1), name="empty").path)
    with pytest.raises(pr.UserError, match="practicum train --resume"):
        empty.report()
    with pytest.raises(pr.UserError, match="no seed that was started"):
        empty.plot()


def test_curves_are_means_with_intervals_over_seeds(better: pr.Study) -> None:
    curve = reward_curve(better)
    assert list(curve) == list(range(1, STEPS + 1))
    rewards = [run.metrics[-1]["reward"] for run in better.runs.values()]
    expected = stats.ttest_1samp(rewards, 0).confidence_interval()
    assert (curve[8].low, curve[8].high) == pytest.approx((expected.low, expected.high))
    success = success_curve(better)
    assert list(success) == [0, 2, 4, 6, 8]
    assert success[8] == better.report().success


def test_curves_are_drawn_with_a_band_for_each_study(
    better: pr.Study, worse: pr.Study, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    chart = plot_studies([worse, better])
    reward, success = chart.figure.axes
    assert len(reward.lines) == len(reward.collections) == 2
    assert [line.get_label() for line in success.lines] == ["worse (4 seeds)", "better (4 seeds)"]
    chart.save(tmp_path / "curves.svg")
    assert "<svg" in (tmp_path / "curves.svg").read_text()
    [alone] = pr.load_study(better.path / "seed_0").plot().figure.axes[0].lines
    assert len(alone.get_xdata()) == STEPS
