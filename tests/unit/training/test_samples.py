from dataclasses import replace

import numpy as np
import pytest

from practicum.core.sample import Averaging, Credit, Episode
from practicum.core.score import Score
from practicum.core.trace import Node, SampledSpan, Trace
from practicum.training.prefix_tree import episode_samples, group_samples


def given(parent: int | None, *ids: int) -> Node:
    return Node(parent=parent, messages=(), token_ids=ids)


def sampled(
    parent: int,
    *ids: int,
    mask: tuple[bool, ...] = (),
    log_kept: tuple[float, ...] = (),
    choices: tuple[tuple[int, ...], ...] = (),
    temperature: float = 1.0,
) -> Node:
    span = SampledSpan(
        logprobs=tuple(-0.5 * (i + 1) for i in range(len(ids))),
        loss_mask=mask or (True,) * len(ids),
        log_kept=log_kept,
        choices=choices,
        temperature=temperature,
    )
    return Node(parent=parent, messages=(), token_ids=ids, sampled=span)


def trace(*nodes: Node) -> Trace:
    return Trace(id="one", task_id="t", env="e", nodes=nodes)


def test_a_walk_interleaves_what_was_given_and_what_was_sampled() -> None:
    [sample] = episode_samples(
        trace(given(None, 1, 2), sampled(0, 3, 4), given(1, 5), sampled(2, 6, temperature=0.5)),
        Credit(advantages=(2.0, -1.0)),
        weight=0.6,
    )
    assert sample.token_ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert sample.loss_mask.tolist() == [False, False, True, True, False, True]
    assert sample.old_logprobs.tolist() == [0, 0, -0.5, -1.0, 0, -0.5]
    assert sample.advantages.tolist() == [0, 0, 2.0, 2.0, 0, -1.0]
    assert sample.temperatures.tolist() == [1, 1, 1, 1, 1, 0.5]
    assert sample.weight == pytest.approx(0.2)  # shared by its three loss tokens
    assert sample.trace_id == "one"


def test_log_probabilities_are_those_before_top_k_and_top_p() -> None:
    [sample] = episode_samples(
        trace(given(None, 1), sampled(0, 2, 3, log_kept=(-0.25, -0.125))),
        Credit(advantages=(1.0,)),
        1.0,
    )
    assert sample.old_logprobs.tolist() == [0, -0.75, -1.125]


def test_forced_tokens_carry_no_loss_and_choices_are_kept_where_there_is_one() -> None:
    [sample] = episode_samples(
        trace(
            given(None, 1),
            sampled(0, 7, 8, 9, mask=(True, False, True), choices=((6, 7), (8,), (9, 10, 11))),
        ),
        Credit(advantages=(1.0,)),
        1.0,
    )
    assert sample.loss_mask.tolist() == [False, True, False, True]
    assert sample.old_logprobs.tolist() == [0, -0.5, 0, -1.5]
    assert sample.choices == {1: (6, 7), 3: (9, 10, 11)}
    assert sample.weight == 0.5


def test_branches_are_samples_and_a_shared_turn_is_trained_on_once() -> None:
    episode = trace(
        given(None, 1),
        sampled(0, 2),  # on both walks
        given(1, 3),
        sampled(2, 4),
        given(1, 5),
        sampled(4, 6),
    )
    first, second = episode_samples(episode, Credit(advantages=(1.0, 2.0, 3.0)), 3.0)
    assert first.token_ids.tolist() == [1, 2, 3, 4]
    assert first.loss_mask.tolist() == [False, True, False, True]
    assert first.advantages.tolist() == [0, 1, 0, 2]
    assert second.token_ids.tolist() == [1, 2, 5, 6]
    assert second.loss_mask.tolist() == [False, False, False, True]
    assert second.advantages.tolist() == [0, 0, 0, 3]
    assert first.weight == second.weight == 1.0


def test_a_branch_that_adds_nothing_sampled_is_no_sample() -> None:
    episode = trace(given(None, 1), sampled(0, 2), given(1, 3), given(1, 4))
    assert len(episode_samples(episode, Credit(advantages=(1.0,)), 1.0)) == 1


def test_a_branch_whose_tokens_were_all_forced_is_no_sample() -> None:
    """It would have no loss of its own, and may end up in a batch by itself."""
    forced = sampled(3, 8, 9, mask=(False, False), choices=((8,), (9,)))
    episode = trace(given(None, 1), sampled(0, 2), given(1, 3), given(1, 4), forced)
    [sample] = episode_samples(episode, Credit(advantages=(1.0, 2.0)), 1.0)
    assert sample.token_ids.tolist() == [1, 2, 3]


def test_an_episode_without_a_decision_has_no_samples() -> None:
    forced = trace(given(None, 1), sampled(0, 2, mask=(False,), choices=((2,),)))
    assert episode_samples(forced, Credit(advantages=(1.0,)), 1.0) == []
    assert episode_samples(trace(given(None, 1)), Credit(advantages=()), 1.0) == []


def test_credit_for_another_number_of_turns_is_refused() -> None:
    with pytest.raises(ValueError, match="1 turns and credit for 2"):
        episode_samples(trace(given(None, 1), sampled(0, 2)), Credit(advantages=(1.0, 2.0)), 1.0)


def test_each_episode_counts_the_same_however_long_it_is() -> None:
    short = trace(given(None, 1), sampled(0, 2))
    long = trace(given(None, 1), sampled(0, *range(2, 12)), given(1, 5), sampled(2, *range(30)))
    episodes = [
        Episode(trace=t, outcome=None, score=Score(components={"x": 1.0})) for t in (short, long)
    ]
    samples = group_samples(episodes, [Credit(advantages=(1.0,)), Credit(advantages=(1.0, 1.0))])
    shares = [sample.weight * int(np.sum(sample.loss_mask)) for sample in samples]
    assert shares == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("averaging", "each"),
    [
        ("episode", [1 / (3 * 1), 1 / (3 * 4), 1 / (3 * 3)]),  # 1 / (episodes * own tokens)
        ("token", [1 / 8, 1 / 8, 1 / 8]),  # 1 / (all tokens)
        ("constant", [1 / (3 * 50)] * 3),  # 1 / (episodes * constant)
    ],
)
def test_what_a_token_weighs(averaging: Averaging, each: list[float]) -> None:
    """Episodes of 1, 4 and 3 loss tokens, the second with a branch, the third in two turns."""
    one = trace(given(None, 1), sampled(0, 2))
    branched = trace(given(None, 1), sampled(0, 2, 3), given(1, 4), sampled(2, 5), sampled(0, 6))
    turns = trace(
        given(None, 1), sampled(0, 2, 3, mask=(True, False)), given(1, 4), sampled(2, 5, 6)
    )
    episodes = [
        Episode(trace=replace(t, id=str(n)), outcome=None, score=Score(components={"x": 1.0}))
        for n, t in enumerate((one, branched, turns))
    ]
    credits = [Credit(advantages=(1.0,) * len(e.trace.turns)) for e in episodes]
    samples = group_samples(episodes, credits, averaging, constant=50)
    assert [s.id for s in samples] == ["0", "1", "1#1", "2"]
    for sample in samples:
        assert sample.weight == pytest.approx(each[int(sample.trace_id)])


def test_credit_may_be_one_number_for_each_loss_token() -> None:
    credit = Credit(
        advantages=(np.array([1.0, 2.0], np.float32), -3.0),
        returns=(np.array([4.0, 5.0], np.float32), 6.0),
        old_values=(0.25, np.array([7.0], np.float32)),
    )
    [sample] = episode_samples(
        trace(
            given(None, 1),
            sampled(0, 2, 3, 4, mask=(True, False, True)),
            given(1, 5),
            sampled(2, 6),
        ),
        credit,
        1.0,
    )
    assert sample.advantages.tolist() == [0, 1, 0, 2, 0, -3]
    assert sample.returns is not None
    assert sample.returns.tolist() == [0, 4, 0, 5, 0, 6]
    assert sample.old_values is not None
    assert sample.old_values.tolist() == [0, 0.25, 0, 0.25, 0, 7]


def test_without_returns_there_is_nothing_to_predict() -> None:
    [sample] = episode_samples(trace(given(None, 1), sampled(0, 2)), Credit(advantages=(1.0,)), 1.0)
    assert sample.returns is None
    assert sample.old_values is None
