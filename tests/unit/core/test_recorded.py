from practicum.core.trace import UNTOKENISED, Message, RecordedTree, Trace, recorded_nodes


def message(role: str, content: str) -> Message:
    return Message(role=role, content=content)  # type: ignore[arg-type]


A, B = message("user", "a"), message("tool", "b")
X, Y = message("assistant", "x"), message("assistant", "y")


def test_a_conversation_is_a_chain_with_a_node_for_each_turn() -> None:
    nodes = recorded_nodes([A, X, B, A, Y, B], durations={1: 2.0, 2: 0.5, 3: 0.25})
    assert [node.messages for node in nodes] == [(A,), (X,), (B, A), (Y,), (B,)]
    assert [node.parent for node in nodes] == [None, 0, 1, 2, 3]
    assert [node.sampled for node in nodes] == [None, UNTOKENISED, None, UNTOKENISED, None]
    assert [node.duration_s for node in nodes] == [0, 2.0, 0.75, 0, 0]


def test_what_was_given_is_no_turn() -> None:
    nodes = recorded_nodes([A, X, A, Y], given={1})
    assert [node.messages for node in nodes] == [(A, X, A), (Y,)]
    assert recorded_nodes([]) == ()


def test_turns_of_one_history_share_it() -> None:
    tree = RecordedTree()
    tree.turn([A], X, 1.5)
    tree.turn([A, X, B], Y)
    assert [node.parent for node in tree.nodes] == [None, 0, 1, 2]
    assert tree.nodes[1].duration_s == 1.5
    trace = Trace(id="t", task_id="t", env="e", nodes=tree.nodes)
    assert trace.turns == (1, 3)
    assert not trace.has_logprobs


def test_two_answers_to_one_history_are_two_turns_even_when_they_are_equal() -> None:
    tree = RecordedTree()
    tree.turn([A], X)
    tree.turn([A], X)
    assert [node.parent for node in tree.nodes] == [None, 0, 0]


def test_a_rewritten_history_begins_a_branch_and_its_turns_are_not_said_twice() -> None:
    tree = RecordedTree()
    tree.turn([A], X)
    tree.turn([B, X], Y)
    assert [(n.parent, n.sampled is not None) for n in tree.nodes] == [
        (None, False),
        (0, True),
        (None, False),
        (2, False),
        (3, True),
    ]
