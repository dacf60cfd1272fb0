"""The posterior against a slow one of its own, and against the frequencies it speaks of."""

import math
from functools import cache
from itertools import islice
from statistics import NormalDist, fmean

import numpy as np
import pytest

from practicum_envs.science.experimenter import design
from practicum_envs.science.laboratory import Laboratory
from practicum_envs.science.law_spaces import LEVELS, SHIFTS, law_space
from practicum_envs.science.laws import SETTINGS, change
from practicum_envs.science.posterior import Posterior, Reading, noise
from practicum_envs.science.subjects import SUBJECTS
from practicum_envs.science.worlds import Brief, World, draw_world

EVERY_LEVEL = sorted(LEVELS)
FAMILIES = list(SUBJECTS)


@cache
def error_probability(error: int, scatter: int) -> float:
    """From the normal distribution's own definition, cut off at four standard deviations."""
    if abs(error) > 4 * scatter:
        return 0.0
    curve, edge = NormalDist(0, scatter), 4 * scatter + 0.5
    kept = curve.cdf(edge) - curve.cdf(-edge)
    return (curve.cdf(error + 0.5) - curve.cdf(error - 0.5)) / kept


def slow_posterior(brief: Brief, readings: tuple[Reading, ...]) -> list[float]:
    space = law_space(brief.level)
    joint = []
    for law, prior in zip(space.laws, space.prior, strict=True):
        likelihood = math.prod(
            error_probability(one.value - brief.base - change(law, one.setting), brief.scatter)
            for one in readings
        )
        records = fmean(
            math.prod(
                error_probability(
                    one.value - brief.base - shift - change(law, one.setting), brief.scatter
                )
                for one in brief.records
            )
            for shift in SHIFTS
        )
        joint.append(float(prior) * likelihood * records)
    return [one / sum(joint) for one in joint]


def measured(world: World, settings: list[tuple[int, ...]]) -> tuple[Reading, ...]:
    return tuple(world.measure(one, settings[:at].count(one)) for at, one in enumerate(settings))


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_the_posterior_is_what_bayes_rule_gives_law_by_law(level: int) -> None:
    for n in range(6):
        world = draw_world(level, FAMILIES[n], f"bayes {n}")
        readings = measured(world, [(4, 0, 0), (0, 2, 4), (4, 0, 0), (1, 1, 3)][: n % 5])
        quick = world.brief.beliefs(readings).probabilities
        assert quick == pytest.approx(slow_posterior(world.brief, readings), abs=1e-12)


def test_the_order_of_readings_changes_nothing() -> None:
    world = draw_world(4, "plants", "order")
    readings = measured(world, [(4, 0, 0), (0, 2, 4), (4, 4, 0)])
    one, other = world.brief.beliefs(readings), world.brief.beliefs(readings[::-1])
    assert one.probabilities == pytest.approx(other.probabilities)


@pytest.mark.parametrize("level", [1, 2, 5])
def test_an_expected_gain_is_the_mean_fall_of_the_entropy(level: int) -> None:
    world = draw_world(level, "bread", "gain")
    beliefs = world.brief.beliefs(measured(world, [(4, 0, 0)]))
    for setting in [(0, 4, 0), (4, 0, 0), (2, 3, 0)]:
        means = {change(law, setting) for law in beliefs.space.laws}
        reach = 4 * world.brief.scatter
        fall = 0.0
        for value in range(min(means) - reach, max(means) + reach + 1):
            chance = sum(
                float(p) * error_probability(value - change(law, setting), world.brief.scatter)
                for law, p in zip(beliefs.space.laws, beliefs.probabilities, strict=True)
                if p > 0
            )
            if chance > 0:
                after = beliefs.after(Reading(setting=setting, value=world.brief.base + value))
                fall += chance * (beliefs.entropy - after.entropy)
        assert beliefs.expected_gain(setting) == pytest.approx(fall, abs=1e-9)


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_no_setting_is_expected_to_tell_less_than_nothing(level: int) -> None:
    beliefs = draw_world(level, "fish", "least").brief.beliefs()
    assert all(beliefs.expected_gain(one) >= -1e-9 for one in SETTINGS[1::7])


@pytest.mark.parametrize("level", [2, 3])
def test_of_laws_believed_at_some_probability_as_many_are_true(level: int) -> None:
    """Over worlds as they are drawn, before any is left out."""
    believed, true = [], []
    for n in range(400):
        world = draw_world(level, FAMILIES[n % len(FAMILIES)], f"frequency {n}")
        laboratory = Laboratory(world)
        while (turn := design(world.brief, laboratory.readings)) and n % 3 >= len(
            laboratory.readings
        ):
            laboratory.act(turn)
        beliefs = world.brief.beliefs(laboratory.readings)
        believed.append(beliefs.of(beliefs.best))
        true.append(beliefs.best == world.law)
    spread = math.sqrt(sum(p * (1 - p) for p in believed)) / len(believed)
    assert 0.2 < fmean(believed) < 0.9
    assert abs(fmean(believed) - fmean(true)) < 4 * spread


@pytest.mark.parametrize("scatter", [1, 2, 3])
def test_noise_is_drawn_as_often_as_it_is_believed(scatter: int) -> None:
    world = draw_world(2, "soap", "noise")
    brief = Brief(level=2, family="soap", factors=world.brief.factors, base=50, scatter=scatter)
    still = World(brief=brief, law=(), seed="noise")
    drawn = [still.measure((4, 0, 0), n).value - 50 for n in range(4000)]
    counts = np.bincount(np.array(drawn) + 4 * scatter, minlength=8 * scatter + 1) / 4000
    assert np.abs(counts - noise(scatter)).max() < 0.03
    assert max(map(abs, drawn)) <= 4 * scatter


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_laws_are_drawn_as_often_as_they_are_believed_beforehand(level: int) -> None:
    space = law_space(level)
    shapes = [tuple(sorted(effect.kind for effect in law)) for law in space.laws]
    drawn = [draw_world(level, "plants", str(n)).law for n in range(600)]
    seen = [tuple(sorted(effect.kind for effect in law)) for law in drawn]
    assert float(space.prior.sum()) == pytest.approx(1.0)
    assert float(space.prior[0]) == pytest.approx(0.1)
    for shape in set(shapes):
        believed = sum(float(p) for p, one in zip(space.prior, shapes, strict=True) if one == shape)
        assert abs(seen.count(shape) / 600 - believed) < 0.09


def test_all_readings_that_can_be_measured_leave_some_law_possible() -> None:
    for n, family in enumerate(islice(SUBJECTS, 8)):
        world = draw_world(5, family, f"possible {n}")
        beliefs = world.brief.beliefs(measured(world, list(SETTINGS[1::9])))
        assert isinstance(beliefs, Posterior)
        assert beliefs.of(world.law) > 0
        assert float(beliefs.probabilities.sum()) == pytest.approx(1.0)
