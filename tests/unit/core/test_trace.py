import pytest

from practicum.core.trace import Message, Node, SampledSpan, StopReason, Trace


def given(parent: int | None, *token_ids: int, text: str = "") -> Node:
    return Node(parent=parent, messages=(Message(role="user", content=text),), token_ids=token_ids)


def sampled(parent: int, *token_ids: int, text: str = "", by: str = "w0") -> Node:
    span = SampledSpan(
        logprobs=(-1.0,) * len(token_ids), loss_mask=(True,) * len(token_ids), fingerprint=by
    )
    message = Message(role="assistant", content=text)
    return Node(parent=parent, messages=(message,), token_ids=token_ids, sampled=span)


def make_trace(*nodes: Node, stop: StopReason = StopReason.FINISHED) -> Trace:
    return Trace(id="e", task_id="t", env="math", nodes=nodes, stop=stop)


@pytest.fixture
def branched() -> Trace:
    """A prompt answered once; then the agent rewrote its history and went on from the prompt.

    0 prompt ── 1 answer ── 2 question ── 3 answer
       └─────── 4 rewritten ── 5 answer
    """
    return make_trace(
        given(None, 1, 2, text="a"),
        sampled(0, 3, 4, text="b"),
        given(1, 5, text="c"),
        sampled(2, 6, text="d"),
        given(0, 7, text="e"),
        sampled(4, 8, 9, text="f", by="w1"),
    )


def test_each_walk_gives_the_tokens_the_model_saw(branched: Trace) -> None:
    assert branched.leaves() == (3, 5)
    assert branched.path(3) == (0, 1, 2, 3)
    assert branched.path(5) == (0, 4, 5)
    assert branched.token_ids(3) == (1, 2, 3, 4, 5, 6)
    assert branched.token_ids(5) == (1, 2, 7, 8, 9)


def test_a_walk_may_end_before_a_leaf(branched: Trace) -> None:
    assert branched.token_ids(1) == (1, 2, 3, 4)
    assert branched.path(0) == (0,)


def test_turns_are_the_sampled_nodes_in_order(branched: Trace) -> None:
    assert branched.turns == (1, 3, 5)
    assert branched.sampled_tokens == 5


def test_messages_come_in_the_order_they_were_added(branched: Trace) -> None:
    assert "".join(message.content for message in branched.messages()) == "abcdef"


def test_every_policy_that_sampled_is_named(branched: Trace) -> None:
    assert branched.fingerprints == {"w0", "w1"}


def test_tokens_given_to_the_model_have_no_fingerprint() -> None:
    assert make_trace(given(None, 1)).fingerprints == frozenset()


def test_two_roots_are_two_walks() -> None:
    trace = make_trace(given(None, 1), given(None, 2), sampled(1, 3))
    assert [trace.token_ids(leaf) for leaf in trace.leaves()] == [(1,), (2, 3)]


def test_an_empty_trace_has_no_walks() -> None:
    trace = make_trace()
    assert trace.leaves() == ()
    assert trace.turns == ()
    assert list(trace.messages()) == []


@pytest.mark.parametrize("stop", list(StopReason))
def test_only_endings_that_are_not_the_policys_doing_are_masked(stop: StopReason) -> None:
    policys_doing = {
        StopReason.FINISHED,
        StopReason.MAX_TURNS,
        StopReason.CONTEXT_FULL,
        StopReason.TIMED_OUT,
    }
    assert make_trace(stop=stop).is_masked is (stop not in policys_doing)
