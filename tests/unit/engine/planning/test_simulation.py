"""The simulation, each part beside a formula or a count of its own."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.engine.planning.simulation import (
    Fleet,
    LearnerRates,
    SamplerRates,
    Work,
    simulate,
)

EVEN = Work(
    tasks=4,
    group=8,
    turns=3,
    turn_tokens=50,
    prompt_tokens=80,
    reply_tokens=10,
    environment_s=0.5,
)
"""No episode differs from another."""

RATES = SamplerRates(step_s=1e-3, weights_s=4e-3, row_s=1e-5, told_s=1e-4)
LEARNER = LearnerRates(update_s=0.2, token_s=1e-3)
ONE = Fleet(replicas=1, sampler=RATES, learner=LEARNER, publish_s=0.3)


def acting_s(work: Work, rates: SamplerRates, rows: int) -> float:
    """Of even episodes that go abreast."""
    told = rows * (work.prompt_tokens / work.group + (work.turns - 1) * work.reply_tokens)
    written = work.turns * work.turn_tokens * rates.seconds(rows, 0.0)
    return written + told * rates.told_s + work.turns * work.environment_s


def learning_s(work: Work) -> float:
    tokens = work.tasks * work.prompt_tokens
    tokens += work.episodes * work.turns * (work.turn_tokens + work.reply_tokens)
    return 0.2 + 1e-3 * tokens


def test_without_variance_a_step_is_the_sum_of_its_parts() -> None:
    result = simulate(ONE, EVEN)
    assert result.step_s == pytest.approx(acting_s(EVEN, RATES, 32) + learning_s(EVEN) + 0.3)
    assert result.waited_s == pytest.approx(acting_s(EVEN, RATES, 32))
    assert result.staleness_max == 0


def test_replicas_divide_the_rows() -> None:
    result = simulate(replace(ONE, replicas=4), EVEN)
    assert result.waited_s == pytest.approx(acting_s(EVEN, RATES, 8))


def test_keys_and_values_of_growing_contexts_cost_their_sum() -> None:
    work = Work(tasks=1, group=1, turns=1, turn_tokens=20_000, prompt_tokens=100)
    rates = SamplerRates(weights_s=1e-3, context_s=1e-6)
    result = simulate(Fleet(replicas=1, sampler=rates, learner=LearnerRates()), work)
    # Of each token all before it are read: n(n-1)/2, within the 256 that a look is apart.
    exact = 20_000 * 1e-3 + 1e-6 * (20_000 * 100 + 20_000 * 19_999 / 2)
    assert result.step_s == pytest.approx(exact, rel=0.02)


def test_rows_that_cost_alike_take_their_tokens_together_whatever_their_lengths() -> None:
    """Processor sharing: a server that always works ends when the work is done."""
    work = Work(tasks=8, group=8, turns=1, turn_tokens=300, turn_spread=1.0)
    rates = SamplerRates(row_s=1e-4)
    fleet = Fleet(replicas=1, sampler=rates, learner=LearnerRates())
    result = simulate(fleet, work, steps=3)
    assert result.seconds == pytest.approx(1e-4 * result.tokens)
    assert result.sampler_busy == pytest.approx(1.0)


@pytest.mark.parametrize("sessions", [1, 2, 5])
def test_exponential_episodes_end_as_the_harmonic_series_says(sessions: int) -> None:
    """n jobs on c servers: the mean by (n - c) / c + 1 + 1/2 + ... + 1/c."""
    work = Work(
        tasks=1, group=20, turns=1, turn_tokens=1, environment_s=2.0, environment_spread=1.0
    )
    fleet = Fleet(
        replicas=1, sampler=SamplerRates(step_s=1e-9), learner=LearnerRates(), sessions=sessions
    )
    measured = simulate(fleet, work, steps=1500).step_s
    harmonic = sum(1 / k for k in range(1, sessions + 1))
    assert measured == pytest.approx(2.0 * ((20 - sessions) / sessions + harmonic), rel=0.04)


@pytest.mark.parametrize("token_s", [1e-5, 1e-3, 4e-3])
def test_with_staleness_the_slower_of_acting_and_learning_sets_the_pace(token_s: float) -> None:
    """A pipeline: with enough steps under way nobody waits for the other's latency."""
    learner = LearnerRates(token_s=token_s)
    sampler = SamplerRates(row_s=1e-4)  # as fast with any number of rows
    work = replace(EVEN, environment_s=0.0, prompt_tokens=0, reply_tokens=0)
    fleet = Fleet(replicas=1, sampler=sampler, learner=learner, staleness=3)
    tokens = work.episodes * work.turns * work.turn_tokens
    result = simulate(fleet, work, steps=40)
    assert result.step_s == pytest.approx(tokens * max(1e-4, token_s), rel=0.04)
    assert result.staleness_max <= 3


def test_ranks_that_cannot_cut_wait_for_the_longest_episode() -> None:
    loads = np.array([100.0, 10.0, 10.0, 10.0])
    whole = LearnerRates(ranks=2, token_s=1.0, cuts_episodes=False)
    assert whole.seconds(loads) == 100.0
    assert replace(whole, cuts_episodes=True).seconds(loads) == 65.0
    assert replace(whole, minibatches=2).seconds(loads) == 110.0


@given(
    sizes=st.tuples(*[st.integers(1, 4)] * 3),
    replicas=st.integers(1, 4),
    rows=st.integers(1, 5),
    sessions=st.integers(0, 5),
    staleness=st.integers(0, 3),
    is_shared=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_episode_is_trained_on_once_and_no_token_is_too_old(
    sizes: tuple[int, int, int],
    replicas: int,
    rows: int,
    sessions: int,
    staleness: int,
    is_shared: bool,
    seed: int,
) -> None:
    tasks, group, turns = sizes
    work = Work(
        tasks=tasks,
        group=group,
        turns=turns,
        turn_tokens=30,
        turn_spread=1.0,
        environment_s=0.3,
        environment_spread=2.0,
    )
    fleet = Fleet(
        replicas=replicas,
        sampler=replace(RATES, most_rows=rows),
        learner=LEARNER,
        sessions=sessions,
        load_s=0.1,
        staleness=staleness,
        is_shared=is_shared,
    )
    result = simulate(fleet, work, steps=3, seed=seed)
    assert result.trained == (3 + staleness + 1) * work.episodes
    assert result.started == result.trained
    assert result.staleness_max <= staleness
    assert 0.0 <= result.sampler_busy <= 1.0
    assert 0.0 <= result.learner_busy <= 1.0
    assert simulate(fleet, work, steps=3, seed=seed) == result
