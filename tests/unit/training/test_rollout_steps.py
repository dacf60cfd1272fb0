from dataclasses import replace

import pytest
from tests.unit.training.algorithms.cases import group, make_episode, whole

from practicum.core.errors import PolicyMismatch, PracticumError
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.trace import Failure, StopReason
from practicum.training.rollout_steps import CollectedStep, check_any_usable, check_sampled_by


def collected(*episodes: Episode) -> CollectedStep:
    return CollectedStep(trained=(), groups=(group(*episodes),))


def failed(episode: Episode) -> Episode:
    failure = Failure(kind="environment", message="the box is gone")
    stop = StopReason.ENVIRONMENT_FAILED
    return replace(episode, trace=replace(episode.trace, failure=failure, stop=stop))


def by(episode: Episode, fingerprint: str) -> Episode:
    nodes = tuple(
        replace(node, sampled=replace(node.sampled, fingerprint=fingerprint))
        if node.sampled
        else node
        for node in episode.trace.nodes
    )
    return replace(episode, trace=replace(episode.trace, nodes=nodes))


GOOD = make_episode((1, 2), score=whole(1.0), name="good")


def test_one_usable_episode_is_enough_to_go_on() -> None:
    check_any_usable(collected(failed(GOOD), GOOD))


def test_a_step_in_which_everything_failed_ends_the_run_with_the_first_reason() -> None:
    with pytest.raises(
        PracticumError, match=r"all 2 episodes .* the first, of task 't': the box is gone"
    ):
        check_any_usable(collected(failed(GOOD), failed(GOOD)))


def test_a_step_in_which_nothing_was_scored_says_why() -> None:
    unscored = replace(GOOD, score=Score.unscored("no judge"))
    with pytest.raises(PracticumError, match="the first, of task 't': no judge"):
        check_any_usable(collected(unscored))


def test_episodes_of_these_weights_pass_and_others_are_named() -> None:
    check_sampled_by("new", collected(by(GOOD, "new")))
    with pytest.raises(PolicyMismatch, match=r"good was sampled by weights old .* holds new"):
        check_sampled_by("new", collected(by(GOOD, "new"), by(GOOD, "old")))
