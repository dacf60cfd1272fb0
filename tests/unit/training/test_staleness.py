from dataclasses import replace

import numpy as np
import pytest
from tests.unit.training.algorithms.cases import group, make_episode, whole

from practicum.core.errors import PolicyMismatch
from practicum.core.sample import Credit, Episode
from practicum.core.trace import Node, SampledSpan, Trace
from practicum.training.overlapped_steps import RecentWeights, mark_on_policy, staleness_metrics
from practicum.training.prefix_tree import build_batches, episode_samples
from practicum.training.rollout_steps import CollectedStep, check_sampled_by


def by(episode: Episode, *fingerprints: str) -> Episode:
    """The episode with the weights that sampled each of its turns."""
    names = iter(fingerprints)
    nodes = tuple(
        replace(node, sampled=replace(node.sampled, fingerprint=next(names)))
        if node.sampled
        else node
        for node in episode.trace.nodes
    )
    return replace(episode, trace=replace(episode.trace, nodes=nodes))


def test_only_the_weights_of_the_last_updates_are_accepted() -> None:
    weights = RecentWeights(2, "w0")
    for name in ("w1", "w2", "w3"):
        weights.updated(name)
    assert weights.current == "w3"
    assert weights.accepted == {"w1", "w2", "w3"}
    assert [weights.age(name) for name in ("w3", "w2", "w1", "")] == [0, 1, 2, 0]
    episode = make_episode((1, 2), (3,), score=whole(1.0), name="old")
    fine = CollectedStep(trained=(), groups=(group(by(episode, "w1", "w3")),))
    check_sampled_by("w3", fine, weights.accepted)
    stale = CollectedStep(trained=(), groups=(group(by(episode, "w0", "w3")),))
    with pytest.raises(PolicyMismatch, match="old was sampled by weights w0"):
        check_sampled_by("w3", stale, weights.accepted)
    with pytest.raises(PolicyMismatch, match="sampled by weights w1"):
        check_sampled_by("w3", fine)


def test_an_update_that_changed_nothing_makes_nothing_older() -> None:
    weights = RecentWeights(1, "w0")
    weights.updated("w0")
    assert weights.age("w0") == 0


def test_metrics_weigh_turns_by_their_loss_tokens() -> None:
    """Tokens 2 of age 2, 1 of age 0, 3 of age 1: mean 7/6; forced turns do not count."""
    weights = RecentWeights(2, "w0")
    weights.updated("w1")
    weights.updated("w2")
    one = by(make_episode((1, 2), (3,), score=whole(1.0), name="one"), "w0", "w2")
    two = by(make_episode((4, 5, 6), (7,), score=whole(0.0), name="two", forced=[1]), "w1", "w0")
    found = staleness_metrics([group(one, two)], weights)
    assert found["staleness_mean"] == pytest.approx(7 / 6)
    assert found["staleness_max"] == 2
    assert found["present_share"] == pytest.approx(1 / 6)
    assert staleness_metrics([], weights) == {}


def branching(name: str) -> Episode:
    """A trace with two walks: both go through its first turn."""

    def span(count: int, fingerprint: str) -> SampledSpan:
        return SampledSpan(
            logprobs=(-1.0,) * count, loss_mask=(True,) * count, fingerprint=fingerprint
        )

    nodes = (
        Node(parent=None, messages=(), token_ids=(0,)),
        Node(parent=0, messages=(), token_ids=(5, 6), sampled=span(2, "old")),
        Node(parent=1, messages=(), token_ids=(7,), sampled=span(1, "now")),
        Node(parent=1, messages=(), token_ids=(8, 9, 4), sampled=span(3, "now")),
    )
    return replace(
        make_episode((1,), score=whole(1.0)),
        trace=Trace(id=name, task_id="t", env="e", nodes=nodes),
    )


def test_terms_are_marked_by_who_sampled_them_in_every_walk_and_batch() -> None:
    """Marks are compared with the target tokens, which tell the turns apart."""
    linear = by(make_episode((1, 2), (3,), score=whole(1.0), name="line"), "now", "old")
    episodes = [linear, branching("tree"), branching("tree again")]
    credit = [Credit(advantages=(1.0,) * len(e.trace.turns)) for e in episodes]
    samples = [
        s for e, c in zip(episodes, credit, strict=True) for s in episode_samples(e.trace, c, 1.0)
    ]
    fresh = {1, 2, 7, 8, 9, 4}
    for budget in (100, 5):
        batches = build_batches(samples, budget)
        marked = mark_on_policy(batches, [group(*episodes)], "now")
        for batch, before in zip(marked, batches, strict=True):
            assert before.term_checked is None
            targets = batch.target[batch.term_decision]
            assert batch.term_checked is not None
            assert batch.term_checked.tolist() == [t in fresh for t in targets.tolist()]
        assert sum(np.size(b.term_checked) for b in marked) == 3 + 2 * 6
