import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.unit.analysis.builders import RunBuilder, finished_run

from practicum.analysis.alerts import find_alerts, gap_limit
from practicum.analysis.run_json import view_to_json
from practicum.analysis.run_view import RunView, read_run
from practicum.cli.views.charts import Canvas
from practicum.cli.views.run_tables import render_runs, render_whole_run
from practicum.core.task import JSON


def view_of(tmp_path: Path, steps: int = 10, **changed: JSON) -> RunView:
    return read_run(RunBuilder(tmp_path).begin().steps(1, steps, **changed).done())


def texts(view: RunView) -> list[str]:
    return [alert.text for alert in find_alerts(view)]


def test_a_run_that_learns_well_has_no_alerts(tmp_path: Path) -> None:
    assert find_alerts(read_run(finished_run(tmp_path))) == []


def test_a_run_that_was_only_made_has_no_alerts(tmp_path: Path) -> None:
    assert find_alerts(read_run(RunBuilder(tmp_path).run)) == []


def test_refused_updates_are_counted_and_severe(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin().steps(1, 3).steps(4, 5, applied=False, loss=None)
    (alert,) = find_alerts(read_run(build.steps(6, 30).done()))
    assert alert.is_severe
    assert alert.text.startswith("2 updates refused as not finite, last at step 5")


def test_updates_that_ran_out_of_memory_are_counted(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin().steps(1, 3, out_of_memory=0, micro_batch_splits=0)
    build = build.steps(4, 4, out_of_memory=2, micro_batch_splits=3, gradient_checkpointing=False)
    build = build.steps(5, 5, out_of_memory=0, micro_batch_splits=4, gradient_checkpointing=True)
    (alert,) = find_alerts(read_run(build.done()))
    assert not alert.is_severe
    assert alert.text == (
        "1 update ran out of memory and went on, last at step 4: 7 micro-batch splits in all, "
        "gradient checkpointing is on"
    )


def test_groups_with_equal_scores_are_a_matter_of_difficulty(tmp_path: Path) -> None:
    low = texts(view_of(tmp_path / "a", flat_share=0.75, success=0.1))
    high = texts(view_of(tmp_path / "b", flat_share=0.75, success=0.95))
    equal = "75% of recent groups had equal scores"
    seldom = "few attempts succeed; easier tasks or longer imitation (warm_start.until=0.9) helps"
    assert low == [f"{equal} (success 0.10): {seldom}"]
    solved = "nearly every attempt succeeds; harder tasks teach more"
    assert high == [f"{equal} (success 0.95): {solved}"]


def test_half_of_the_groups_flat_is_not_yet_an_alert(tmp_path: Path) -> None:
    assert texts(view_of(tmp_path, flat_share=0.5)) == []


def test_only_recent_steps_count(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin().steps(1, 5, masked_episodes=8).steps(6, 10)
    assert texts(read_run(build.done())) == []


@pytest.mark.parametrize(("lost", "is_severe"), [(1, False), (8, True)])
def test_lost_episodes_are_counted_against_all_of_them(
    tmp_path: Path, lost: int, is_severe: bool
) -> None:
    view = view_of(tmp_path, masked_episodes=lost)
    (alert,) = find_alerts(view)
    assert alert.text.startswith(f"{5 * lost} of the last 160 episodes masked")
    assert alert.is_severe is is_severe


@pytest.mark.parametrize(("masked", "alarmed"), [(0, False), (4, False), (5, True), (60, True)])
def test_held_out_attempts_that_are_masked_are_alarmed(
    tmp_path: Path, masked: int, alarmed: bool
) -> None:
    build = RunBuilder(tmp_path).begin().evaluate(0, 5, masked=masked).steps(1, 6)
    found = [alert for alert in find_alerts(read_run(build.done())) if "masked" in alert.text]
    assert [alert.is_severe for alert in found] == [True] * alarmed
    assert all(f"ALARM: {masked} of 100 attempts" in alert.text for alert in found)
    stores = [re.search(r"traces list --store (\S+)", alert.text) for alert in found]
    assert all(store and Path(store[1]).exists() for store in stores)


def test_episodes_without_a_score_are_told_apart_from_masked_ones(tmp_path: Path) -> None:
    (text,) = texts(view_of(tmp_path, unscored_episodes=2))
    assert text == "10 of the last 160 episodes not scored: the reward failed"


def test_a_gap_is_an_alert_from_half_of_its_limit(tmp_path: Path) -> None:
    assert texts(view_of(tmp_path / "a", logprob_gap=4.9e-5)) == []
    (near,) = find_alerts(view_of(tmp_path / "b", logprob_gap=6.0e-5))
    assert near.text == "sampler/learner gap 6.0e-05 is 60% of the 1e-04 at which the run stops"
    assert not near.is_severe
    (over,) = find_alerts(view_of(tmp_path / "c", logprob_gap=2.0e-4))
    assert over.is_severe


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({}, 1e-4),
        ({"model": {"name": "tiny", "dtype": "bfloat16"}}, 0.5),
        ({"hardware": {"max_logprob_gap": 0.01}}, 0.01),
    ],
)
def test_the_limit_of_the_gap_is_the_configs_or_the_precisions(
    tmp_path: Path, config: dict[str, object], limit: float
) -> None:
    assert gap_limit(read_run(RunBuilder(tmp_path, config=config).begin().done())) == limit


def test_low_entropy_is_an_alert_only_while_tasks_are_not_solved(tmp_path: Path) -> None:
    def collapsed(where: str, success: float) -> RunView:
        build = RunBuilder(tmp_path / where).begin().steps(1, 5, entropy=1.5)
        return read_run(build.steps(6, 10, entropy=0.05, success=success).done())

    assert texts(collapsed("a", 0.3)) == [
        "step 8: entropy fell from 1.5 to 0.05 while success is 0.30: the policy hardly explores; "
        "a lower algorithm.lr or a higher rollouts.temperature keeps it trying"
    ]
    assert texts(collapsed("b", 0.97)) == []


def test_severe_alerts_come_first_and_damage_is_one(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path).begin().steps(1, 10, flat_share=0.8, success=0.2).done()
    (run.checkpoints_path / "latest").write_text("nonsense")
    alerts = find_alerts(read_run(run))
    assert [alert.is_severe for alert in alerts] == [True, False]
    assert "does not name a checkpoint" in alerts[0].text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sampled_tokens": 0}, "the model was not called in any of the 32 episodes"),
        ({"timed_out_episodes": 32}, "all 32 episodes were cut off at agent.deadline_s"),
        (
            {"success": None, "score_spread": 0.0},
            "the reward paid 1.25 for each of the 32 episodes, and whether one succeeded is not",
        ),
    ],
)
def test_a_run_that_cannot_learn_is_told_why_and_not_to_take_easier_tasks(
    tmp_path: Path, changed: dict[str, JSON], said: str
) -> None:
    flat: dict[str, JSON] = {"flat_share": 1.0, "reward": 1.25, "groups": 4, "episodes": 32}
    found = texts(view_of(tmp_path, 2, **flat, **changed))
    assert any(said in text for text in found)
    assert not any("easier" in text or "too hard" in text for text in found)


def test_success_has_what_the_masked_would_make_of_it_beside_it_in_every_view(
    tmp_path: Path,
) -> None:
    build = RunBuilder(tmp_path).begin().evaluate(0, 50, masked=2).steps(1, 2)
    view = read_run(build.evaluate(2, 40, masked=60).done())
    shown = StringIO()
    console = Console(width=200, file=shown)
    canvas = Canvas(width=200)
    console.print(render_whole_run(view, canvas))
    console.print(render_runs([view], [], canvas))
    text = shown.getvalue()
    first, last = view.evaluations
    assert first.success == first.success_scored != first.success_if_masked_failed
    assert last.success == last.success_if_masked_failed != last.success_scored
    for beside in ("(2 masked; 0.", "if they failed)", "(60 masked counted as failed; "):
        assert beside in text
    assert "0.51 (2 masked, else 0.50) → 0.40 (60 masked)" in text
    told = view_to_json(view)["evaluations"]
    assert isinstance(told, list)
    assert [point["masked"] for point in told] == [2, 60]
    assert told[1]["success"] == told[1]["success_if_masked_failed"]
