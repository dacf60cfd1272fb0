import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.console import Console

from practicum.core.checkpoint import EvalReport, TaskResult
from practicum.core.errors import UserError
from practicum.evaluation.over_seeds import difference_interval, success_interval
from practicum.evaluation.report import build_report
from practicum.evaluation.study_report import (
    ONE_SEED,
    StudyEvidence,
    build_study_report,
    compare_studies,
    render_study,
    render_study_comparison,
    study_comparison_to_json,
)


def evidence(name: str, scores: np.ndarray, env: str = "math", first: int = 0) -> StudyEvidence:
    """A study whose seeds solved these tasks, (S, T)."""

    def one(row: np.ndarray) -> EvalReport:
        tasks = [
            TaskResult(task_id=f"t{first + i}", level=1, successes=(bool(s),), rewards=(float(s),))
            for i, s in enumerate(row)
        ]
        return build_report(tasks, policy=name, env=env, fingerprint="f", seed=0)

    return StudyEvidence(name=name, reports={seed: one(row) for seed, row in enumerate(scores)})


def shown(table: object) -> str:
    text = io.StringIO()
    Console(width=120, file=text).print(table)
    return text.getvalue()


def scores(success: float, seeds: int = 4) -> np.ndarray:
    return np.random.default_rng(int(100 * success)).random((seeds, 40)) < success


def test_a_comparison_has_the_intervals_of_both_sides_and_of_the_difference() -> None:
    before, after = scores(0.3), scores(0.9)
    found = compare_studies(evidence("before", before), evidence("after", after), bar=0.6)
    assert found.first.success == success_interval(before.astype(float))
    assert found.success_difference == difference_interval(
        after.astype(float), before.astype(float)
    )
    assert found.is_difference
    assert found.verdict.startswith("after succeeds more often than before: +0.")
    assert (found.improvement.value, found.improvement.high) == (1.0, 1.0)
    assert found.second.at_bar.value == 1.0
    assert found.first.at_bar.value == 0.0
    text = shown(render_study_comparison(found))
    assert "before (4 seeds)" in text
    assert "P(improvement)" in text
    assert "all 4 seeds are at the bar; up to 0.49 of other seeds may still miss it" in text
    values = json.loads(json.dumps(study_comparison_to_json(found), allow_nan=False))
    assert values["second"]["seeds"] == [0, 1, 2, 3]
    assert values["is_difference"] is True


def test_equal_studies_show_no_difference() -> None:
    found = compare_studies(evidence("a", scores(0.5)), evidence("b", scores(0.51)))
    assert not found.is_difference
    assert "No difference in success is shown between b and a" in found.verdict


def test_a_single_run_is_told_to_be_one_seed() -> None:
    found = compare_studies(evidence("run", scores(0.5, seeds=1)), evidence("study", scores(0.9)))
    assert f"run is {ONE_SEED}" in shown(render_study_comparison(found))
    assert found.success_difference.method == "tasks, t; one seed"
    alone = build_study_report(evidence("run", scores(0.5, seeds=1)))
    assert "(one seed)" in shown(render_study(alone))


def test_a_study_shows_each_seed_and_which_are_missing() -> None:
    found = replace(evidence("s", scores(0.5)), missing=(7, 9))
    text = shown(render_study(build_study_report(found)))
    assert "seed 3 success" in text
    assert "not finished and left out: seed 7, 9" in text


def test_studies_on_different_tasks_are_refused() -> None:
    ours = evidence("a", scores(0.5))
    with pytest.raises(UserError, match="different tasks"):
        compare_studies(ours, evidence("b", scores(0.5), first=5))
    with pytest.raises(UserError, match="'shell'"):
        compare_studies(ours, evidence("b", scores(0.5), env="shell"))
    with pytest.raises(UserError, match="--bar 80 cannot be used"):
        compare_studies(ours, ours, bar=80)


@given(
    seeds=st.lists(
        st.lists(st.sampled_from([True, False, None]), min_size=6, max_size=6),
        min_size=1,
        max_size=3,
    )
)
def test_a_study_says_what_its_masked_attempts_would_make_of_it(
    seeds: list[list[bool | None]],
) -> None:
    def one(row: list[bool | None]) -> EvalReport:
        tasks = [
            TaskResult(
                task_id=f"t{i}",
                level=1,
                successes=(s,),
                rewards=(None if s is None else float(s),),
            )
            for i, s in enumerate(row)
        ]
        return build_report(tasks, policy="p", env="math", fingerprint="f", seed=0)

    shared = [column for column in zip(*seeds, strict=True) if None not in column]
    assume(shared and all(any(s is not None for s in row) for row in seeds))
    found = build_study_report(
        StudyEvidence(name="s", reports={seed: one(row) for seed, row in enumerate(seeds)})
    )
    masked = sum(s is None for row in seeds for s in row)
    solved = sum(s is True for row in seeds for s in row)
    assert found.masked == masked
    assert found.success_if_masked_failed.value == pytest.approx(solved / (6 * len(seeds)))
    assert found.success_scored.value == pytest.approx(float(np.array(shared, dtype=float).mean()))
    # One of at most 18 attempts is more than 5 % of them.
    counted = found.success_if_masked_failed if masked else found.success_scored
    assert found.success == counted
    text = " ".join(shown(render_study(found)).split())
    assert (f"{masked} masked counted as failed" in text) is (masked > 0)


def test_what_a_baselines_masked_attempts_would_be_is_no_gain() -> None:
    solid = np.ones((3, 20))
    broken = evidence("broken", solid)
    half = {seed: masked_half(report) for seed, report in broken.reports.items()}
    found = compare_studies(StudyEvidence(name="broken", reports=half), evidence("sound", solid))
    assert found.first.success.value == 0.5
    assert (found.success_difference.value, found.n_tasks) == (0.0, 10)
    back = compare_studies(evidence("sound", solid), StudyEvidence(name="broken", reports=half))
    assert back.success_difference.value == -0.5


def masked_half(report: EvalReport) -> EvalReport:
    tasks = [
        replace(task, successes=(None,), rewards=(None,)) if i % 2 else task
        for i, task in enumerate(report.tasks)
    ]
    return build_report(tasks, policy=report.policy, env="math", fingerprint="f", seed=0)
