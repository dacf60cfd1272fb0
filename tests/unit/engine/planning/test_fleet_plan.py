"""Rates beside what was measured, what fits a card, and a plan beside its own figures."""

from typing import Any

import pytest

from practicum.core.config.parse_config import build_config
from practicum.core.errors import UserError
from practicum.engine.planning.cards import CARDS, GIB
from practicum.engine.planning.fleet_plan import (
    UPDATE_S,
    CardModel,
    Unit,
    candidates,
    plan_sizes,
    rates_of_run,
    simulations,
)
from practicum.engine.planning.model_shapes import KNOWN_SHAPES
from practicum.engine.planning.simulation import Fleet, SamplerRates, Work, simulate

MEASURED = Work(tasks=8, group=8, turns=1, turn_tokens=128, prompt_tokens=512)
"""The rows of docs/performance.md."""

SMALL, LARGE = "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-32B-Instruct"


def model_on(card: str, name: str = SMALL, work: Work = MEASURED) -> CardModel:
    config = build_config({"model": name, "env": {"name": "math", "actions": "free"}})
    return CardModel(shape=KNOWN_SHAPES[name], config=config, card=CARDS[card], work=work)


@pytest.mark.parametrize(
    ("name", "step_s"), [("Qwen/Qwen2.5-0.5B-Instruct", 1.52e-3), (SMALL, 5.57e-3)]
)
def test_a_step_of_64_rows_takes_what_was_measured(name: str, step_s: float) -> None:
    rates = model_on("h200", name).sampler_rates(1)
    assert rates.seconds(64, 64 * 576) == pytest.approx(step_s, rel=0.05)


def test_reading_and_learning_take_what_was_measured() -> None:
    model = model_on("h200")
    assert 4096 * model.sampler_rates(1).told_s == pytest.approx(0.1139, rel=0.05)
    assert UPDATE_S + 12_288 * model.token_s(1) == pytest.approx(0.6635, rel=0.05)


def test_a_base_that_does_not_fit_a_card_is_divided() -> None:
    alone, divided = model_on("h200", LARGE), model_on("rtx4090", LARGE)
    assert (alone.replica_gpus(), alone.rank_gpus()) == (1, 1)
    assert divided.replica_gpus() == 4
    assert divided.rank_gpus() == 8
    assert divided.rank_bytes(8) <= 0.92 * 24 * GIB < divided.rank_bytes(4)
    # A card of a divided rank is slower by what it has to gather.
    assert divided.token_s(8) > divided.token_s(1) / 8


def test_what_fits_nowhere_is_said() -> None:
    with pytest.raises(UserError, match=r"RTX 3060 together have no room to .* --device"):
        model_on("rtx3060", LARGE).unit()


def test_contexts_limit_the_rows_of_a_replica() -> None:
    long = Work(tasks=1, group=1, turns=10, turn_tokens=2000, prompt_tokens=20_000)
    rows = model_on("h200", SMALL, long).rows_of(1)
    # 139.8 GiB: 92 % of it less 14.2 of weights and 1 of libraries, 2.14 an episode of 40,000.
    assert rows == int((0.92 * 139.8 - 14.19 - 1) / (40_000 * 57_344 / GIB))


UNIT = Unit(
    replica_gpus=2,
    rank_gpus=1,
    sampler=SamplerRates(step_s=1e-3, row_s=1e-5),
    token_s=1e-4,
    update_s=0.1,
    gradient_bytes=10**9,
    load_s=0.05,
)
WORK = Work(tasks=4, group=4, turns=2, turn_tokens=40, turn_spread=0.5, environment_s=0.2)


def test_the_best_split_is_the_best_of_all() -> None:
    """Every split of eight, by hand."""
    [plan] = plan_sizes(UNIT, WORK, [8], staleness=1)

    def rate(ranks: int) -> float:
        fleet = Fleet(
            replicas=(8 - ranks) // 2,
            sampler=UNIT.sampler,
            learner=UNIT.learner(ranks),
            load_s=UNIT.load_s,
            staleness=1,
        )
        return simulate(fleet, WORK, steps=4).episodes_per_s

    rates = {ranks: rate(ranks) for ranks in range(1, 7)}
    assert plan.best.result.episodes_per_s == rates[plan.best.learner_gpus]
    assert rates[plan.best.learner_gpus] >= 0.95 * max(rates.values())
    assert plan.best.sampler_gpus + plan.best.learner_gpus <= 8
    assert plan.alternating.result.staleness_max == 0
    assert plan.cost(3.6) == pytest.approx(8e-3 * 1000 / plan.best.result.episodes_per_s)


def test_each_simulation_is_told_of() -> None:
    told: list[int] = []
    list(plan_sizes(UNIT, WORK, [3, 8], staleness=0, steps=1, tried=lambda: told.append(1)))
    assert len(told) == simulations(UNIT, WORK, [3, 8])


def test_too_few_gpus_are_refused() -> None:
    with pytest.raises(UserError, match=r"--gpus 2 is too few: .* give at least 3"):
        candidates(UNIT, WORK, 2)


def test_gradients_of_many_machines_go_slower() -> None:
    near, far = UNIT.learner(8), UNIT.learner(16)
    assert near.update_s == pytest.approx(0.1 + 2e9 * 7 / 8 / 200e9)
    assert far.update_s == pytest.approx(0.1 + 2e9 * 15 / 16 / 25e9)


def step(**more: Any) -> dict[str, Any]:
    return {
        "episodes": 16,
        "groups": 4,
        "turns": 2.0,
        "sampled_tokens": 1280,
        "update_tokens": 1600,
        "sampling_s": 12.8,
        "environment_s": 6.4,
        "update_s": 0.8,
        **more,
    }


def test_a_runs_steps_give_the_rates_it_had() -> None:
    unit, work = rates_of_run([step(update_s=99.0), step(), step()])
    assert unit.sampler.step_s == pytest.approx(0.01)
    assert unit.token_s == pytest.approx(0.5e-3)
    assert (work.tasks, work.group, work.turns) == (4, 4, 2)
    assert work.turn_tokens == pytest.approx(40)
    assert work.reply_tokens == 10
    assert work.environment_s == pytest.approx(0.2)
    # And a simulation of it takes what its steps took.
    fleet = Fleet(replicas=1, sampler=unit.sampler, learner=unit.learner(1))
    assert simulate(fleet, work).step_s == pytest.approx(2 * (0.4 + 0.2) + 0.8)


def test_a_run_without_practice_calibrates_nothing() -> None:
    with pytest.raises(UserError, match="no step in which episodes were sampled"):
        rates_of_run([{"update_s": 1.0, "update_tokens": 100}])
