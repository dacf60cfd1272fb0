"""Traces made from text alone, where nobody kept the tokens.

An assistant's turn is a node marked as sampled whose log-probabilities are not known; what it was
answered with is a node of its own. A history that was rewritten on the way becomes a branch.
"""

from collections.abc import Collection, Mapping, Sequence

from practicum.core.trace import Message, Node, SampledSpan

__all__ = ["UNTOKENISED", "RecordedTree", "recorded_nodes"]

UNTOKENISED = SampledSpan(logprobs=(), loss_mask=())
"""The span of a turn that was recorded as text."""


def recorded_nodes(
    messages: Sequence[Message],
    *,
    given: Collection[int] = (),
    durations: Mapping[int, float] | None = None,
) -> tuple[Node, ...]:
    """One conversation as nodes: a node for each turn, one for what lies between two turns.

    Args:
        messages: All of it, in order.
        given: Indices of assistant messages that were put there rather than sampled.
        durations: Seconds that a message took, by index.

    >>> said = [Message(role="user", content="2 + 2"), Message(role="assistant", content="4")]
    >>> [(n.parent, n.sampled is not None) for n in recorded_nodes(said)]
    [(None, False), (0, True)]
    """
    took = durations or {}
    nodes: list[Node] = []
    between: list[int] = []

    def add(indices: list[int], sampled: SampledSpan | None) -> None:
        nodes.append(
            Node(
                parent=len(nodes) - 1 if nodes else None,
                messages=tuple(messages[i] for i in indices),
                token_ids=(),
                sampled=sampled,
                duration_s=sum(took.get(i, 0.0) for i in indices),
            )
        )

    for index, message in enumerate(messages):
        if message.role != "assistant" or index in given:
            between.append(index)
            continue
        if between:
            add(between, None)
            between = []
        add([index], UNTOKENISED)
    if between:
        add(between, None)
    return tuple(nodes)


class RecordedTree:
    """Nodes from calls of a model, each with the whole history it was given.

    Where a history begins like an earlier one, the nodes are shared; where it departs from all of
    them, a branch begins.
    """

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._children: dict[int | None, list[int]] = {None: []}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """What has been said so far."""
        return tuple(self._nodes)

    def turn(self, history: Sequence[Message], said: Message, duration_s: float = 0.0) -> None:
        """The model was given `history` and said this."""
        self._add(self.given(history), said, UNTOKENISED, duration_s)

    def given(self, history: Sequence[Message]) -> int | None:
        """The node a history ends with, made where it is new; None for an empty one."""
        at: int | None = None
        for message in history:
            known = (i for i in self._children[at] if self._nodes[i].messages == (message,))
            found = next(known, None)
            at = self._add(at, message, None, 0.0) if found is None else found
        return at

    def _add(
        self, parent: int | None, message: Message, sampled: SampledSpan | None, duration_s: float
    ) -> int:
        index = len(self._nodes)
        self._nodes.append(
            Node(
                parent=parent,
                messages=(message,),
                token_ids=(),
                sampled=sampled,
                duration_s=duration_s,
            )
        )
        self._children[index] = []
        self._children[parent].append(index)
        return index
