import json
import math
import shlex
from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.console import Console
from scipy.stats import binomtest

from practicum.core.checkpoint import EvalReport, Interval, TaskResult
from practicum.core.errors import UserError
from practicum.evaluation.compare import compare_reports
from practicum.evaluation.report import (
    build_report,
    comparison_from_json,
    comparison_to_json,
    find_masked,
    format_interval,
    format_success,
    render_comparison,
    render_report,
    report_from_json,
    report_to_json,
    verdict,
)
from practicum.stats.intervals import mean_interval, share_interval


def make_task(name: str, successes, rewards=None, level: int = 1) -> TaskResult:
    rewards = rewards or tuple(None if s is None else 8.5 * s for s in successes)
    return TaskResult(
        task_id=name, level=level, successes=tuple(successes), rewards=tuple(rewards), turns=(3,)
    )


def make_report(tasks, policy: str = "base") -> EvalReport:
    return build_report(tasks, policy=policy, env="math", fingerprint="f", seed=7, duration_s=2.5)


def shown(renderable) -> str:
    console = Console(width=80, record=True, file=StringIO())
    console.print(renderable)
    return console.export_text()


def test_scores_are_means_over_tasks_with_their_intervals() -> None:
    tasks = [make_task("a", [True]), make_task("b", [False]), make_task("c", [True])]

    report = make_report(tasks)

    assert report.success == share_interval([1.0, 0.0, 1.0])
    assert report.reward == mean_interval([8.5, 0.0, 8.5])
    assert (report.attempts_per_task, report.masked, report.seed) == (1, 0, 7)
    assert report.tasks == tuple(tasks)


def test_masked_attempts_are_counted_and_many_of_them_count_as_failed() -> None:
    tasks = [
        make_task("a", [True, None]),
        make_task("b", [False, True], rewards=(1.0, None)),
        make_task("c", [None, None]),
    ]

    report = make_report(tasks)

    assert report.masked == 4
    assert (report.success_scored.value, report.success_scored.n) == (0.75, 2)
    assert (report.success.value, report.success.n) == (pytest.approx(1 / 6), 3)
    assert report.success == report.success_if_masked_failed
    assert (report.reward.value, report.reward.n) == (pytest.approx((8.5 + 1.0) / 2), 2)


def test_pass_at_k_is_given_at_powers_of_two() -> None:
    report = make_report([make_task(str(i), [True] + [False] * 4) for i in range(3)])

    assert list(report.pass_at_k) == [1, 2, 4]
    assert report.pass_at_k[4].value == pytest.approx(0.8)


def test_pass_at_k_stops_where_no_task_has_k_scored_attempts() -> None:
    others = [make_task(str(i), [False]) for i in range(30)]
    report = make_report([make_task("a", [True, None]), *others])

    assert list(report.pass_at_k) == [1]


def test_each_level_has_its_own_interval() -> None:
    tasks = [make_task(f"e{i}", [True], level=1) for i in range(4)]
    tasks += [make_task(f"h{i}", [i == 0], level=3) for i in range(2)]

    report = make_report(tasks)

    assert report.success_by_level == {1: share_interval([1.0] * 4), 3: share_interval([1.0, 0.0])}


def test_no_tasks_is_a_sentence_for_the_user() -> None:
    with pytest.raises(UserError, match="--n 1"):
        make_report([])


def test_every_attempt_masked_is_a_sentence_for_the_user() -> None:
    with pytest.raises(UserError, match="none of the 2 tasks has a score"):
        make_report([make_task("a", [None]), make_task("b", [None])])


def test_no_reward_at_all_is_a_sentence_for_the_user() -> None:
    with pytest.raises(UserError, match="none of the 1 tasks has a score"):
        make_report([make_task("a", [True], rewards=(None,))])


def test_a_report_survives_json() -> None:
    tasks = [make_task("a", [True, None], level=1), make_task("b", [False, True], level=2)]
    report = make_report(tasks)

    text = json.dumps(report_to_json(report), allow_nan=False)

    assert report_from_json(json.loads(text)) == report


def test_bounds_that_do_not_exist_are_null_in_json_and_come_back_infinite() -> None:
    report = make_report([make_task("a", [True])])
    assert report.reward.low == -math.inf

    value = json.loads(json.dumps(report_to_json(report), allow_nan=False))

    assert value["reward"]["low"] is None
    assert report_from_json(value) == report


def test_a_comparison_survives_json() -> None:
    before = make_report([make_task(str(i), [i % 2 == 0]) for i in range(20)])
    after = make_report([make_task(str(i), [True]) for i in range(20)], policy="trained")
    comparison = compare_reports(after, before)

    value = json.loads(json.dumps(comparison_to_json(comparison), allow_nan=False))

    assert comparison_from_json(value) == comparison
    assert value["is_difference"] is True
    assert value["verdict"] == verdict(comparison)


def test_json_of_another_schema_is_a_sentence_for_the_user() -> None:
    value = report_to_json(make_report([make_task("a", [True])]))

    with pytest.raises(UserError, match="schema 99, and schema 1 is read"):
        report_from_json({**value, "schema": 99})


def test_json_with_a_missing_part_is_a_sentence_for_the_user() -> None:
    value = report_to_json(make_report([make_task("a", [True])]))
    del value["success"]

    with pytest.raises(UserError, match=r"KeyError: 'success'.*evaluate again"):
        report_from_json(value)


def test_the_table_shows_every_score_with_interval_and_n() -> None:
    tasks = [make_task(str(i), [True, i % 2 == 0], level=1 + i % 2) for i in range(30)]
    tasks.append(make_task("x", [None, True], level=2))

    text = shown(render_report(make_report(tasks)))

    report = make_report(tasks)
    for interval in (report.success, report.reward, report.pass_at_k[2]):
        assert format_interval(interval) in text
    assert "level 1" in text
    assert "31" in text
    assert "1 of 62 attempts (2%) masked" in " ".join(text.split())
    assert format_interval(report.success_if_masked_failed) in text
    assert "if the masked had failed" in text
    assert "ALARM" not in text


def test_scores_that_rest_on_stand_ins_are_not_comparable_wherever_they_are_shown() -> None:
    tasks = [make_task(str(i), [i % 2 == 0]) for i in range(4)]
    rest = [replace(tasks[0], stand_ins=("scripted colleagues",)), *tasks[1:]]
    said = "NOT COMPARABLE with scores from where the tasks come from: 1 of 4 tasks rest on "
    plain, marked = make_report(tasks), make_report(rest)
    value = json.loads(json.dumps(report_to_json(marked)))
    assert value["not_comparable"] == 1
    assert [one.get("stand_ins") for one in value["tasks"]] == [
        ["scripted colleagues"],
        *[None] * 3,
    ]
    assert report_from_json(value) == marked
    for report, is_marked in ((marked, True), (plain, False), (report_from_json(value), True)):
        against = compare_reports(report, plain)
        for table in (render_report(report), render_comparison(report, plain, against)):
            text = " ".join(shown(table).split())
            assert (f"{said}stand-ins (scripted colleagues)" in text) == is_marked


def test_many_masked_attempts_are_an_alarm_and_count_as_failed() -> None:
    report = make_report([make_task(str(i), [None if i < 11 else True]) for i in range(20)])
    assert format_interval(report.success) == "0.450 [0.258, 0.658]"
    assert format_interval(report.success_scored) == "1.000 [0.701, 1.000]"
    text = " ".join(shown(render_report(report)).split())
    assert text.index("0.450 [0.258, 0.658]") < text.index("of the scored alone")
    assert "ALARM: 11 of 20 attempts (55%) masked and counted as failed" in text
    told = find_masked("my runs/x.sqlite")
    assert shlex.split(told.partition(": ")[2])[:5] == [
        *("practicum", "traces", "list", "--store", "my runs/x.sqlite")
    ]


counts = st.integers(0, 40)


@given(passed=counts, failed=counts, masked=counts)
def test_success_is_never_better_for_what_was_masked(passed: int, failed: int, masked: int) -> None:
    assume(passed + failed > 0)
    outcomes = [True] * passed + [False] * failed + [None] * masked
    report = make_report([make_task(str(i), [one]) for i, one in enumerate(outcomes)])
    scored, worst, total = report.success_scored, report.success_if_masked_failed, len(outcomes)
    assert worst.value <= scored.value
    assert worst.low <= scored.low + 1e-12
    assert worst.high <= scored.high + 1e-12
    assert (scored.n, worst.n) == (passed + failed, total)
    for found, n in ((scored, passed + failed), (worst, total)):
        told = binomtest(passed, n).proportion_ci(method="wilson")
        assert (found.low, found.high) == (pytest.approx(told.low), pytest.approx(told.high))
    are_many = masked > 0 and masked / total >= 0.05
    assert report.counts_masked is are_many
    assert report.success == (worst if are_many else scored)
    assert (report.success == scored) or report.success.value <= scored.value
    text = format_success(report)
    assert ("masked" in text) is (masked > 0)
    if masked:
        assert f"{worst.value:.3f} [{worst.low:.3f}, {worst.high:.3f}]" in text
    again = report_from_json(json.loads(json.dumps(report_to_json(report))))
    assert again == report


attempt = st.sampled_from([True, False, None])


@given(st.lists(st.lists(attempt, min_size=1, max_size=4), min_size=1, max_size=12))
def test_with_several_attempts_at_a_task_too(outcomes: list[list[bool | None]]) -> None:
    assume(any(one is not None for task in outcomes for one in task))
    report = make_report([make_task(str(i), task) for i, task in enumerate(outcomes)])
    worst = report.success_if_masked_failed
    assert worst.value <= report.success.value <= report.success_scored.value
    assert worst.low <= worst.value <= worst.high
    assert report.masked == sum(one is None for task in outcomes for one in task)


def test_a_report_of_before_masked_ones_counted_is_read_as_one_of_today() -> None:
    report = make_report([make_task(str(i), [None if i < 11 else True]) for i in range(20)])
    old = json.loads(json.dumps(report_to_json(report)))
    for key in ("success_scored", "success_if_masked_failed", "counts_masked"):
        del old[key]
    old["success"] = old["success_by_level"]["1"] = report.success_scored.to_json()
    assert report_from_json(old) == report


def test_masked_attempts_are_no_gain_over_a_baseline_and_hide_no_loss() -> None:
    plain = make_report([make_task(str(i), [i < 10]) for i in range(20)])
    half = make_report([make_task(str(i), [None if i < 10 else False]) for i in range(20)], "half")
    assert compare_reports(half, plain).success_difference.value == pytest.approx(-0.5)
    gained = compare_reports(plain, half).success_difference
    assert (gained.value, gained.n) == (0.0, 10)  # at the tasks that the baseline was scored at


def test_the_comparison_table_fits_80_columns_and_ends_with_the_verdict() -> None:
    before = make_report([make_task(str(i), [i < 30]) for i in range(100)])
    after = make_report([make_task(str(i), [i < 90]) for i in range(100)], policy="trained")
    comparison = compare_reports(after, before)

    text = shown(render_comparison(after, before, comparison))

    assert "0.30 [0.22, 0.40] │ 0.90 [0.83, 0.94] │ +0.60 [+0.50, +0.69]" in text
    assert "trained solves more of the 100 tasks than base" in text
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize(("solved", "is_told"), [(0, True), (1, True), (20, False)])
def test_reward_that_rises_while_nothing_is_solved_is_an_alarm(solved: int, is_told: bool) -> None:
    before = make_report([make_task(str(i), [False], rewards=[-1.0]) for i in range(100)])
    tasks = [make_task(str(i), [i < solved], rewards=[4.0]) for i in range(100)]
    after = make_report(tasks, policy="trained")

    text = " ".join(shown(render_comparison(after, before, compare_reports(after, before))).split())

    assert ("ALARM: reward rose to 4.00 and next to nothing is solved" in text) is is_told


def test_the_verdict_follows_the_exact_test() -> None:
    before = make_report([make_task(str(i), [True]) for i in range(30)])
    after = make_report([make_task(str(i), [i >= 5]) for i in range(30)], policy="trained")
    comparison = compare_reports(after, before)

    assert verdict(comparison).startswith("No difference in success is shown")
    assert "solves fewer" in verdict(replace(comparison, p_value=0.01))


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(value=0.5, low=0.4, high=0.6, n=9, method="wilson"), "0.500 [0.400, 0.600]"),
        (mean_interval([2.0] * 5), "2.000 (all equal)"),
        (mean_interval([2.0]), "2.000 (no interval: one task)"),
    ],
)
def test_an_interval_is_written_with_its_caveat(interval: Interval, text: str) -> None:
    assert format_interval(interval) == text
