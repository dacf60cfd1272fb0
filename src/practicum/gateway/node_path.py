"""The nodes of one conversation, each the child of the one before."""

from practicum.core.trace import Message, Node, SampledSpan, ToolSpec

__all__ = ["NodePath"]


class NodePath:
    """A trace under way that never branches."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.tools: tuple[ToolSpec, ...] = ()
        """Those that were offered when the conversation opened."""

    def add(
        self,
        messages: tuple[Message, ...],
        token_ids: tuple[int, ...],
        sampled: SampledSpan | None = None,
    ) -> None:
        """Append messages and the tokens they add."""
        parent = len(self.nodes) - 1 if self.nodes else None
        self.nodes.append(
            Node(parent=parent, messages=messages, token_ids=token_ids, sampled=sampled)
        )
