"""`ScriptedConversation`: a conversation whose turns come from a function and not from a model."""

from collections.abc import Callable, Sequence

from practicum.core.sampling import ActionForm, Actions, Completion
from practicum.core.trace import Message, Node, SampledSpan, Tools, ToolSpec
from practicum.gateway.graph import sampled_span


class NodePath:
    """The nodes of a conversation without branches."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.tools: tuple[ToolSpec, ...] = ()
        """Tools of the first request."""

    def add(
        self,
        messages: tuple[Message, ...],
        token_ids: tuple[int, ...],
        sampled: SampledSpan | None = None,
    ) -> None:
        """Appends messages with their tokens."""
        parent = len(self.nodes) - 1 if self.nodes else None
        self.nodes.append(
            Node(parent=parent, messages=messages, token_ids=token_ids, sampled=sampled)
        )


class ScriptedConversation(NodePath):
    """Takes each turn from `next_text`: a reference solution, a random choice, a person typing.

    Turns are recorded like a model's, with one token per UTF-8 byte, and are not trained on.

    >>> import asyncio
    >>> turns = iter(["add_terms", "state_answer"])
    >>> conversation = ScriptedConversation(lambda actions: next(turns), name="reference")
    >>> asyncio.run(conversation.complete([Message(role="user", content="x - 1 = 2")])).text
    'add_terms'
    """

    def __init__(self, next_text: Callable[[tuple[ActionForm, ...]], str], name: str) -> None:
        self._next_text = next_text
        self._name = name
        super().__init__()

    async def complete(
        self, messages: Sequence[Message], actions: Actions = (), tools: Tools = ()
    ) -> Completion:
        """Adds messages and takes the next turn."""
        if not self.nodes:
            self.tools = tools
        text = self._next_text(actions)
        ids = tuple(text.encode())
        completion = Completion(
            token_ids=ids,
            text=text,
            logprobs=(0.0,) * len(ids),
            loss_mask=(False,) * len(ids),
            log_kept=(),
            choices=(),
            temperature=0.0,
            fingerprint=self._name,
            finished=True,
            ended_turn=True,
        )
        given = tuple("".join(m.content for m in messages).encode())
        self.add(tuple(messages), given)
        turn = Message(role="assistant", content=text)
        self.add((turn,), ids, sampled_span(completion))
        return completion
