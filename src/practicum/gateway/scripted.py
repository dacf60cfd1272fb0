"""A conversation without a model: someone else writes the turns."""

from collections.abc import Callable, Sequence

from practicum.core.sampling import ActionForm, Completion
from practicum.core.trace import Message, SampledSpan, ToolSpec
from practicum.gateway.node_path import NodePath

__all__ = ["ScriptedConversation"]


class ScriptedConversation(NodePath):
    """Asks `next_text` for each turn: a reference solution, a random choice, a person typing.

    Turns are recorded like a model's, as bytes, without loss.

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
        self,
        messages: Sequence[Message],
        actions: tuple[ActionForm, ...] = (),
        tools: tuple[ToolSpec, ...] = (),
    ) -> Completion:
        """Add messages and take the next written turn."""
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
        span = SampledSpan(
            logprobs=completion.logprobs,
            loss_mask=completion.loss_mask,
            temperature=0.0,
            fingerprint=self._name,
        )
        self.add((Message(role="assistant", content=text),), ids, span)
        return completion
