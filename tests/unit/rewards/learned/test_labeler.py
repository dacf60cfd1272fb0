from dataclasses import replace

import numpy as np
import pytest
from tests.unit.rewards.learned.talks import mixed_pool, mixed_talks

from practicum.core.errors import UserError
from practicum.rewards.learned.labeler import Labeler, TracePool, can_learn


def test_it_tells_good_from_bad_in_traces_it_never_saw() -> None:
    pool, truth = mixed_pool(80, seed=0)
    labels = {name: truth[name] for name in pool.ids[:20]}
    labeler, checked = Labeler.fit(pool, labels)
    traces, answers = mixed_talks(60, seed=1)
    said = labeler.predict_traces(traces)
    right = [one.is_good == bool(answers[t.id]) for one, t in zip(said, traces, strict=True)]
    assert sum(right) >= 58
    assert labeler.labels == 20
    assert checked.probabilities.shape == (20,)
    assert all(0.5 <= one.confidence <= 1 for one in said)


def test_the_same_seed_gives_the_same_labeler() -> None:
    pool, truth = mixed_pool(40, seed=0)
    one, _ = Labeler.fit(pool, truth, seed=5)
    other, _ = Labeler.fit(pool, truth, seed=5)
    assert np.array_equal(one.model.weights, other.model.weights)
    assert one.scale == other.scale


def test_probability_and_logit_say_the_same() -> None:
    pool, truth = mixed_pool(40, seed=0)
    labeler, _ = Labeler.fit(pool, truth)
    for one, share in zip(labeler.predict(pool.raw), labeler.probabilities(pool.raw), strict=True):
        assert one.probability == pytest.approx(float(share))
        assert one.logit == pytest.approx(np.log(one.probability / (1 - one.probability)))


def test_labels_turned_round_turn_the_verdict_round() -> None:
    pool, truth = mixed_pool(40, seed=0)
    turned, _ = Labeler.fit(pool, {name: 1 - value for name, value in truth.items()})
    said = turned.predict(pool.raw)
    assert all(one.is_good != bool(truth[name]) for one, name in zip(said, pool.ids, strict=True))


def test_undecided_is_most_where_the_score_is_nothing() -> None:
    pool, truth = mixed_pool(40, seed=0)
    labeler, _ = Labeler.fit(pool, truth)
    scores = labeler.model.moderated(labeler.space.transform(pool.raw))
    assert np.array_equal(np.argsort(labeler.undecided(pool.raw)), np.argsort(-np.abs(scores)))


@pytest.mark.parametrize("good", [0, 2])
def test_too_few_labels_of_a_kind_are_refused_with_what_is_there(good: int) -> None:
    pool, truth = mixed_pool(40, seed=0)
    bad_ones = [name for name in pool.ids if not truth[name]][:10]
    good_ones = [name for name in pool.ids if truth[name]][:good]
    labels = {name: truth[name] for name in (*bad_ones, *good_ones)}
    assert not can_learn(labels)
    with pytest.raises(UserError, match=f"{good} good and 10 bad.*3 of each"):
        Labeler.fit(pool, labels)


def test_labels_of_traces_that_are_not_in_the_pool_do_not_count() -> None:
    pool, _ = mixed_pool(10, seed=0)
    with pytest.raises(UserError, match="0 good and 0 bad"):
        Labeler.fit(pool, {f"elsewhere{index}": float(index % 2) for index in range(20)})


def test_no_traces_are_nothing_to_learn_from() -> None:
    with pytest.raises(UserError, match="no traces"):
        TracePool.read([])


def test_vectors_of_another_model_are_refused() -> None:
    pool, truth = mixed_pool(20, seed=0)
    taught = replace(pool, embedder="small model")
    labeler, _ = Labeler.fit(taught, truth)
    with pytest.raises(UserError, match="taught with small model and is given no embeddings"):
        labeler.predict_traces([])
