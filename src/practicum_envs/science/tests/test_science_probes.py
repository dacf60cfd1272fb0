"""What policies earn that want the pay without the work, as a share of the reference's."""

from functools import cache
from itertools import islice
from statistics import fmean
from typing import NamedTuple

import pytest

from practicum_envs.science.conclusion_scoring import FULL_MARKS
from practicum_envs.science.experimenter import reference_turns
from practicum_envs.science.laboratory import Laboratory
from practicum_envs.science.law_spaces import LEVELS
from practicum_envs.science.science_probes import MAY_BE_RIGHT, PROBES, near_misses
from practicum_envs.science.science_problems import generate, world_of
from practicum_envs.science.subjects import SUBJECTS
from practicum_envs.science.worlds import World

EVERY_LEVEL = sorted(LEVELS)
TRAINED = [name for name, one in SUBJECTS.items() if one.split == "train"]
KEPT_OUT = [name for name, one in SUBJECTS.items() if one.split == "heldout"]

MOST = {
    # Without data.
    "certain_guess": 0.02,
    "certain_of_nothing": 0.02,
    "hedged_guess": 0.02,
    "modest_guess": 0.08,
    "lucky_guess": 0.1,
    "believer": 0.1,
    "every_law": 0.06,
    "two_certainties": 0.05,
    # With poor data, which sometimes happens to be enough.
    "same_experiment": 0.5,
    "one_factor": 0.55,
    "one_look": 0.5,
    # With the reference's data, and a conclusion that does not follow from it.
    "denier": 0.35,
    "contradiction": 0.35,
    "safe_denial": 0.35,
    "wrong_size": 0.45,
    "never_concludes": 0.31,
    "looks_again": 0.1,
    "coward": 0.55,
    "hedger": 0.6,
}
"""Shares of full marks that they stay under on average, at every level."""


class Earned(NamedTuple):
    share: float
    succeeds: bool


def earned(world: World, turns: tuple[str, ...]) -> Earned:
    laboratory, total = Laboratory(world), 0.0
    for turn in turns:
        if not laboratory.is_over:
            total += laboratory.act(turn).pay
    verdict = laboratory.verdict
    return Earned(total / FULL_MARKS, verdict is not None and verdict.succeeds)


@cache
def some_worlds(level: int) -> list[World]:
    """Two of every family."""
    train = islice(generate("train", TRAINED, [level], 1), 2 * len(TRAINED))
    heldout = islice(generate("heldout", KEPT_OUT, [level], 1), 2 * len(KEPT_OUT))
    return [world_of(task) for task in (*train, *heldout)]


def test_every_probe_has_a_bound() -> None:
    assert set(MOST) == set(PROBES)
    assert max(MOST.values()) <= 0.6


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_each_probe_earns_less_than_its_share_of_the_reference(level: int) -> None:
    worlds = some_worlds(level)
    assert all(earned(one, reference_turns(one)).share == pytest.approx(1.0) for one in worlds)
    shares = {
        name: fmean(earned(world, probe(world)).share for world in worlds)
        for name, probe in PROBES.items()
    }
    assert {name: share for name, share in shares.items() if share >= MOST[name]} == {}


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_no_near_miss_succeeds(level: int) -> None:
    for world in some_worlds(level):
        found = near_misses(world)
        assert len(found) == len(PROBES) - len(MAY_BE_RIGHT)
        assert not any(earned(world, turns).succeeds for turns in found)


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_knowing_the_law_without_data_earns_less_than_the_worst_honest_work(level: int) -> None:
    """Who works and then concludes wrongly earns more than who guesses and is right."""
    worlds = some_worlds(level)
    lucky = fmean(earned(one, PROBES["lucky_guess"](one)).share for one in worlds)
    wrong = fmean(earned(one, PROBES["contradiction"](one)).share for one in worlds)
    assert lucky < wrong / 2


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_concluding_at_once_pays_less_than_one_experiment_does(level: int) -> None:
    worlds = some_worlds(level)
    at_once = fmean(earned(one, PROBES["modest_guess"](one)).share for one in worlds)
    looked = fmean(earned(one, PROBES["one_look"](one)).share for one in worlds)
    assert at_once < looked
