import math
import random
from collections.abc import Iterator, Sequence
from statistics import stdev

import pytest
from scipy.stats import binom
from tests.unit.analysis.synthetic_runs import Fall, Row, Shape, collapsing_run, honest_run

from practicum.analysis import alarms
from practicum.analysis.alarms import Alarm, AlarmWatch, find_alarms
from practicum.core.task import JSON

SOUND: dict[str, JSON] = {
    "stage": "grpo",
    "reward": 1.0,
    "success": 0.1,
    "episodes": 64,
    "groups": 8,
    "flat_share": 0.1,
    "score_spread": 5.0,
    "mean_level": 1.0,
    "entropy": 1.0,
    "kl_to_base": 0.05,
    "response_tokens": 100.0,
    "turns": 5.0,
}


def steps(count: int, first: int = 1, **changed: JSON) -> list[Row]:
    return [(step, {**SOUND, **changed}) for step in range(first, first + count)]


def told(*parts: Sequence[Row], heldout: dict[int, tuple[float, int]] | None = None) -> list[Alarm]:
    return find_alarms([row for part in parts for row in part], heldout or {}).alarms


def test_groups_that_stay_flat_without_success_are_told_at_the_third_step() -> None:
    [alarm] = told(steps(5), steps(6, 6, flat_share=1.0, success=0.0))
    assert (alarm.kind, alarm.step, alarm.since) == ("flat", 8, 6)
    assert alarm.text == (
        "24 of the last 24 groups had equal scores while success is 0.00, so nothing is learned: "
        "no attempt succeeds, so there is nothing to compare; imitation for longer helps most "
        "(warm_start.until=0.9 and more steps), then easier tasks, such as env.level=1, or a "
        "larger model"
    )


@pytest.mark.parametrize(
    ("changed", "advice", "not_advised"),
    [
        ({"success": 0.0}, "imitation for longer helps most", "temperature"),
        ({"success": 0.0, "unreadable_turns": 0.9}, "90% of turns are in no known form", "level"),
        ({"success": 0.1}, "few attempts succeed; easier tasks or longer imitation", "temperature"),
        ({"success": 0.5}, "solved always or never; curriculum=adaptive", "imitation"),
        ({"success": None}, "easier tasks, a larger rollouts.group_size", "imitation"),
    ],
)
def test_the_advice_about_flat_groups_follows_their_cause(
    changed: dict[str, JSON], advice: str, not_advised: str
) -> None:
    found = told(steps(5), steps(12, 6, **{"flat_share": 1.0, **changed}))
    [text] = [alarm.text for alarm in found if alarm.kind == "flat"]
    assert advice in text
    assert not_advised not in text


def test_equal_scores_of_turns_in_no_known_form_ask_for_imitation_and_not_for_another_reward() -> (
    None
):
    same = {"flat_share": 1.0, "success": 0.0, "score_spread": 0.0, "unreadable_turns": 1.0}
    [text] = [a.text for a in told(steps(5), steps(8, 6, **same)) if a.kind == "equal"]
    assert "imitation first helps" in text
    assert "change the reward" not in text


def test_flat_groups_at_high_success_are_mastery() -> None:
    assert told(steps(5), steps(20, 6, flat_share=1.0, success=0.95, entropy=0.01)) == []


def test_two_flat_steps_are_no_alarm() -> None:
    flat = {"flat_share": 1.0, "success": 0.0}
    parts = [steps(2, 5 * n + 1, **(flat if n % 2 else {})) for n in range(6)]
    assert told(*parts) == []


def test_few_flat_groups_of_a_run_that_is_just_starting_are_no_alarm() -> None:
    # With rare rewards nine groups in ten may be flat: 0.9 ** 88 < 1e-4 < 0.9 ** 80.
    flat = steps(20, flat_share=1.0, success=0.0, score_spread=1.0)
    assert [alarm.step for alarm in told(flat) if alarm.kind == "flat"] == [11]


def test_a_plateau_after_learning_is_told_later_than_a_collapse() -> None:
    start, flat = steps(5), {"flat_share": 1.0, "success": 0.5}
    assert [alarm.step for alarm in told(start, steps(10, 6, **flat))] == [10]


def test_equal_scores_over_all_tasks_are_told_instead_of_flat_groups() -> None:
    same = steps(8, 6, flat_share=1.0, success=0.0, score_spread=0.0)
    [alarm] = told(steps(5), same)
    assert (alarm.kind, alarm.step, alarm.since) == ("equal", 8, 6)
    assert alarm.text.startswith("every episode of the last 3 steps scored 1, whatever the task")


def test_a_policy_that_settles_without_having_solved_anything_is_told_early() -> None:
    settled = {"entropy": 0.2, "success": 0.0, "reward": 3.0}
    [alarm] = told(steps(5), steps(5, 6, **settled))
    assert (alarm.kind, alarm.step, alarm.since) == ("entropy", 8, 6)
    assert told(steps(5), steps(5, 6, **{**settled, "success": 0.05})) == []
    assert told(steps(5), steps(5, 6, **{**settled, "entropy": 0.3})) == []


def test_a_run_that_solves_nothing_and_is_paid_no_more_is_told() -> None:
    [alarm] = told(steps(20, success=0.0, reward=-0.4))
    assert (alarm.kind, alarm.step, alarm.since) == ("stalled", 12, 1)
    assert alarm.text.startswith("success is 0.00 and reward stays at -0.40 since 12 steps")


def test_small_batches_are_given_more_steps_to_solve_something() -> None:
    [alarm] = told(steps(30, success=0.0, episodes=32, groups=4))
    assert (alarm.kind, alarm.step) == ("stalled", 22)


def test_a_run_that_solves_nothing_yet_but_is_paid_more_goes_on() -> None:
    rising = [(n, {**SOUND, "success": 0.0, "reward": 0.1 * n}) for n in range(1, 31)]
    assert told(rising) == []
    assert told(steps(30, success=0.01)) == []


def test_entropy_that_vanishes_before_success_is_told() -> None:
    [alarm] = told(steps(5), steps(5, 6, entropy=0.02, success=0.05))
    assert (alarm.kind, alarm.step, alarm.since) == ("entropy", 8, 6)
    assert alarm.text.startswith("entropy fell from 1 to 0.02 while success is 0.05")


@pytest.mark.parametrize("success", [0.35, 0.97])
def test_entropy_that_falls_while_success_rises_is_learning(success: float) -> None:
    assert told(steps(5), steps(20, 6, entropy=0.02, success=success)) == []


def test_a_run_that_learned_and_lost_it_again_is_no_longer_safe() -> None:
    rows = [steps(5), steps(8, 6, success=0.7), steps(6, 14, success=0.25, entropy=0.02)]
    assert "entropy" in [alarm.kind for alarm in told(*rows)]


def test_kl_beyond_its_limit_is_told_where_nothing_was_learned() -> None:
    [alarm] = told(steps(3), steps(4, 4, kl_to_base=3.5))
    assert (alarm.kind, alarm.step, alarm.since) == ("kl", 5, 4)
    assert "is 3.5 nats per token" in alarm.text
    assert told(steps(3), steps(20, 4, kl_to_base=8.0, success=0.6)) == []


def test_one_measurement_of_kl_counts_only_beyond_all_doubt() -> None:
    sparse = [steps(1), steps(9, 2, kl_to_base=None)]
    assert told(*sparse, steps(1, 11, kl_to_base=4.0), steps(5, 12, kl_to_base=None)) == []
    assert [a.step for a in told(*sparse, steps(1, 11, kl_to_base=8.0))] == [11]


def test_kl_that_grows_five_times_in_a_few_steps_is_told_once_it_matters() -> None:
    quick = [steps(4, kl_to_base=0.1), steps(3, 5, kl_to_base=1.5)]
    assert [(a.kind, a.step) for a in told(*quick)] == [("kl", 6)]
    assert told(steps(4, kl_to_base=0.01), steps(8, 5, kl_to_base=0.9)) == []


def test_a_stage_that_starts_far_from_the_base_model_is_measured_from_there() -> None:
    assert told(steps(3, kl_to_base=2.5), steps(8, 4, kl_to_base=4.5)) == []


def rising(count: int, first: int, low: float, high: float, **changed: JSON) -> list[Row]:
    rows = steps(count, first, **changed)
    for place, (_, values) in enumerate(rows):
        wobble = 0.05 * (-1) ** place
        values["reward"] = low + (high - low) * place / (count - 1) + wobble
    return rows


def test_success_that_falls_while_reward_rises_is_told() -> None:
    rows = [rising(5, 1, 6.0, 6.4, success=0.3), rising(5, 6, 6.5, 7.9, success=0.0)]
    [alarm] = told(*rows)
    assert (alarm.kind, alarm.step, alarm.since) == ("success", 8, 5)
    assert alarm.text.startswith("success fell from 0.30 to 0.07 while reward rose from 6.12 to")


def test_success_that_falls_with_the_reward_is_told_where_it_was_high() -> None:
    low = [rising(5, 1, 6.0, 6.4, success=0.3), rising(8, 6, 6.0, 3.0, success=0.0)]
    assert told(*low) == []
    high = [rising(5, 1, 6.0, 6.4, success=0.8), rising(8, 6, 3.0, 1.0, success=0.2)]
    [alarm] = told(*high)
    assert (alarm.kind, alarm.step, alarm.since) == ("success", 8, 5)
    assert alarm.text.startswith("success fell from 0.80 to 0.35 and reward from 6.")


def test_harder_tasks_may_lower_success_and_raise_the_reward() -> None:
    rows = [
        rising(5, 1, 6.0, 6.4, success=0.9),
        rising(8, 6, 6.5, 7.9, success=0.2, mean_level=2.0, response_tokens=250.0),
    ]
    assert told(*rows) == []


def test_success_lost_against_the_evaluation_before_the_stage_is_told() -> None:
    recorded = [(step, {"stage": "sft", "loss": 1.0}) for step in range(1, 31)]
    rows = rising(6, 31, 5.4, 5.5, success=0.01)
    [alarm] = told(recorded, rows, heldout={30: (0.17, 100)})
    assert (alarm.kind, alarm.step, alarm.since) == ("success", 35, 31)
    assert alarm.text.startswith("success fell from 0.17 to 0.01 while reward stays at 5.4")
    assert told(recorded, rows) == []
    assert told(recorded, rows, heldout={20: (0.17, 100)}) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"response_tokens": 45.0}, "from 100 to 45 tokens"),
        ({"response_tokens": 210.0}, "from 100 to 210 tokens"),
        ({"turns": 2.0}, "from 5 to 2 turns"),
    ],
)
def test_episodes_twice_or_half_as_long_without_success_are_told(
    changed: dict[str, JSON], words: str
) -> None:
    [alarm] = told(steps(5), steps(8, 6, **changed))
    assert (alarm.kind, alarm.step, alarm.since) == ("length", 10, 6)
    assert words in alarm.text
    assert told(steps(5), steps(8, 6, success=0.4, **changed)) == []


def test_a_sign_that_goes_and_comes_back_is_told_again() -> None:
    low = {"entropy": 0.02, "success": 0.05}
    rows = [steps(5), steps(5, 6, **low), steps(8, 11), steps(5, 19, **low)]
    assert [alarm.step for alarm in told(*rows)] == [8, 21]
    briefly = [steps(5), steps(5, 6, **low), steps(2, 11), steps(5, 13, **low)]
    assert [alarm.step for alarm in told(*briefly)] == [8]


def test_a_run_that_went_back_is_looked_at_anew_from_where_it_started() -> None:
    low: dict[str, JSON] = {"entropy": 0.02, "success": 0.05}
    rows = [steps(5), steps(3, 6, **low), steps(6, 9, recoveries=1)]
    assert [alarm.step for alarm in told(*rows)] == [8]
    again = steps(3, 15, recoveries=1, **low)
    assert [alarm.step for alarm in told(*rows, again)] == [8, 17]


def test_where_nobody_says_what_success_is_a_reward_that_rose_is_learning() -> None:
    def paid(*rewards: float) -> Iterator[Row]:
        for step, reward in enumerate(rewards, start=1):
            flat = 1.0 if step > 12 else 0.2
            values = {"success": None, "reward": reward, "flat_share": flat, "entropy": 0.01}
            yield step, {**SOUND, **values}

    rose = [0.1 * n + 0.03 * (-1) ** n for n in range(12)] + [1.2] * 3
    stays = [0.5 + 0.03 * (-1) ** n for n in range(12)] + [0.5] * 3
    assert told(list(paid(*rose))) == []
    assert [alarm.kind for alarm in told(list(paid(*stays)))] == ["flat"]


def test_steps_without_episodes_or_numbers_say_nothing() -> None:
    watch = AlarmWatch()
    assert watch.observe(1, {"stage": "sft", "loss": 0.3, "kl_to_base": 9.0}) == []
    assert watch.observe(2, {"reward": None, "success": None, "episodes": 8}) == []
    assert told(steps(20, reward=math.nan, entropy=math.inf)) == []


def test_the_chance_of_flat_groups_is_the_binomial_one() -> None:
    for groups, flat, share in ((24, 24, 0.3), (40, 37, 0.9), (5000, 4600, 0.9)):
        expected = binom.sf(flat - 1, groups, share)
        assert alarms._chance_of_flat(groups, flat, share) == pytest.approx(expected, rel=1e-9)


def test_a_change_of_the_reward_is_rather_taken_for_too_small_than_for_too_large() -> None:
    dice = random.Random(0)
    found = []
    for _ in range(400):
        rewards = [dice.gauss(0.0, 0.5) for _ in range(20)]
        rows = [alarms._Row(n, {"reward": reward}) for n, reward in enumerate(rewards)]
        found.append(alarms._reward_change(rows[:4], rows[-4:], rows))
    assert 0.6 < stdev(found) < 1.0
    assert sum(abs(errors) >= alarms.SURE for errors in found) <= 4


def test_a_policy_that_has_settled_does_not_make_small_changes_sure() -> None:
    dice = random.Random(0)
    rewards = [1.0 + dice.gauss(0.0, 0.2) for _ in range(6)] + [1.1] * 40
    rows = [alarms._Row(n, {"reward": reward}) for n, reward in enumerate(rewards)]
    assert all(
        abs(alarms._reward_change(rows[:3], rows[n : n + 4], rows[: n + 4])) < 2.0
        for n in range(3, 40)
    )


BATCHES = ((4, 8), (8, 8), (16, 8), (8, 16), (16, 4))


@pytest.mark.parametrize("sparse", [False, True], ids=["paid on the way", "paid for success"])
@pytest.mark.parametrize(("tasks", "group"), BATCHES)
def test_honest_runs_raise_no_alarm(tasks: int, group: int, sparse: bool) -> None:
    raised = []
    for seed in range(60):
        shape = Shape(
            tasks=tasks,
            group=group,
            sparse=sparse,
            spread=(0.5, 1.5, 3.0)[seed % 3],
            replace=float(seed % 2),
            kl_every=(1, 10)[seed // 2 % 2],
        )
        length, start = (12, 24, 60)[seed // 3 % 3], (0.03, 0.1, 0.4)[seed % 5 % 3]
        rows = honest_run(seed, length, shape, start=start, end=(0.999, 0.97, 0.9)[seed % 3])
        raised += [(seed, alarm) for alarm in told(rows)]
    assert raised == []


COLLAPSES = {
    "levels 1 and 2: 1.5 for every task": (Fall(at=8, before=0.05, reward=(0.8, 1.5)), {}),
    "seed 1: 5.0 for every task": (Fall(at=6, before=0.06, reward=(1.0, 5.0), steps=12), {}),
    "level 5: reward rises": (
        Fall(at=1, before=0.05, reward=(6.0, 7.9), settles=False, steps=10),
        {30: (0.10, 100)},
    ),
}


@pytest.mark.parametrize("name", COLLAPSES)
@pytest.mark.parametrize("replace", [0.0, 1.0])
def test_known_collapses_are_told_within_five_steps(name: str, replace: float) -> None:
    fall, heldout = COLLAPSES[name]
    for seed in range(60):
        for tasks in (8, 16):
            rows = collapsing_run(seed, Shape(tasks=tasks, replace=replace), fall, first=31)
            found = told(rows, heldout=heldout)
            assert found, (seed, tasks)
            assert found[0].step - 30 - fall.at < 5, (seed, tasks, found[0])


def test_success_that_stays_lost_at_level_4_is_told_in_nearly_all_runs_within_five_steps() -> None:
    fall = Fall(at=1, before=0.17, reward=(5.4, 5.3), settles=False, steps=10)
    delays = []
    for seed in range(100):
        rows = collapsing_run(seed, Shape(tasks=8), fall, first=31)
        found = told(rows, heldout={30: (0.17, 100)})
        delays.append(found[0].step - 30 if found else 99)
    assert sum(delay <= 5 for delay in delays) >= 95
