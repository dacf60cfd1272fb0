"""From trajectories back to captured turns."""

from collections.abc import Sequence

import pytest

from practicum.compat.art.local import link_groups
from practicum.compat.art.trajectories import History, Trajectory, TrajectoryGroup
from practicum.core.errors import UserError
from practicum.core.sample import Credit
from practicum.core.trace import Node, SampledSpan
from practicum.training.prefix_tree import episode_samples


def given(*ids: int) -> Node:
    return Node(parent=None, messages=(), token_ids=ids)


def said(*ids: int) -> Node:
    span = SampledSpan(logprobs=(-0.5,) * len(ids), loss_mask=(True,) * len(ids))
    return Node(parent=None, messages=(), token_ids=ids, sampled=span)


class Turns:
    """Turn 0 answers a question; 1 goes on from it; 2 answers the same question alike."""

    def __init__(self) -> None:
        opening = given(1, 2, 3)
        self.paths: dict[int, Sequence[Node]] = {
            10: [opening, said(4, 5)],
            11: [opening, said(4, 5), given(6), said(7)],
            12: [opening, said(4, 5)],
            13: [given(9), said(8)],
        }

    def path(self, number: int) -> Sequence[Node] | None:
        return self.paths.get(number)

    def is_stale(self, number: int) -> bool:
        return number < 10


def choice(number: int | None, content: str = "a") -> dict[str, object]:
    made: dict[str, object] = {"index": 0, "message": {"role": "assistant", "content": content}}
    return made if number is None else {**made, "practicum_turn": number}


def linked(*entries: object, more: tuple[object, ...] = ()) -> list[Node]:
    histories = [History(messages_and_choices=list(more))] if more else []
    trajectory = Trajectory(messages_and_choices=list(entries), additional_histories=histories)
    (group,) = link_groups([TrajectoryGroup([trajectory])], Turns(), 1)
    return list(group.episodes[0].trace.nodes)


def shapes(nodes: list[Node]) -> list[tuple[int | None, tuple[int, ...], bool]]:
    return [(node.parent, node.token_ids, node.sampled is not None) for node in nodes]


def test_turns_of_one_conversation_become_one_path() -> None:
    assert shapes(linked(choice(10), {"role": "user", "content": "b"}, choice(11))) == [
        (None, (1, 2, 3), False),
        (0, (4, 5), True),
        (1, (6,), False),
        (2, (7,), True),
    ]


def test_a_turn_of_another_trajectory_that_began_alike_carries_no_loss() -> None:
    assert shapes(linked(choice(11))) == [
        (None, (1, 2, 3), False),
        (0, (4, 5), False),
        (1, (6,), False),
        (2, (7,), True),
    ]


def test_a_turn_that_was_sampled_twice_alike_counts_as_its_own() -> None:
    # The gateway let the conversation go on from turn 10, and this trajectory holds turn 12.
    assert [sampled for _, _, sampled in shapes(linked(choice(11), choice(12)))] == [
        False,
        True,
        False,
        True,
    ]


def test_further_histories_are_roots_of_their_own_and_each_token_is_trained_once() -> None:
    nodes = linked(choice(10), choice(11), more=(choice(13), choice(10)))
    assert shapes(nodes)[4:] == [(None, (9,), False), (4, (8,), True)]
    trajectory = Trajectory(messages_and_choices=[choice(10), choice(11), choice(13)])
    (group,) = link_groups([TrajectoryGroup([trajectory])], Turns(), 1)
    trace = group.episodes[0].trace
    samples = episode_samples(trace, Credit(advantages=(1.0,) * len(trace.turns)), 1.0)
    trained = [int(t) for s in samples for t in s.token_ids[s.loss_mask]]
    assert sorted(trained) == [4, 5, 7, 8]


def test_ids_and_logprobs_in_a_choice_are_not_looked_at() -> None:
    forged = {**choice(10), "token_ids": [99], "logprobs": {"content": [{"logprob": 0.0}]}}
    assert shapes(linked(forged)) == shapes(linked(choice(10)))
    assert linked(forged)[1].sampled == said(4, 5).sampled


def test_rewards_are_the_scores_and_groups_without_trajectories_are_left_out() -> None:
    groups = [
        TrajectoryGroup([]),
        TrajectoryGroup([Trajectory(messages_and_choices=[choice(10)], reward=0.25)]),
    ]
    (found,) = link_groups(groups, Turns(), 7)
    assert found.values == (0.25,)
    assert found.episodes[0].trace.id == "art/7/1/0"


@pytest.mark.parametrize("number", [None, 99])
def test_a_choice_of_another_model_is_refused(number: int | None) -> None:
    with pytest.raises(UserError, match=r"art/1/0/0 holds a choice .* did not return"):
        linked(choice(number))


def test_a_choice_of_older_weights_is_refused_in_other_words() -> None:
    with pytest.raises(UserError, match="was sampled before the model last learned"):
        linked(choice(3))
