"""A conversation without a model: someone else writes the turns."""

from collections.abc import Callable, Sequence

from practicum.core.sampling import ActionForm, Completion
from practicum.core.trace import Message, Node, SampledSpan

__all__ = ["ScriptedConversation"]


class ScriptedConversation:
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
        self.nodes: list[Node] = []

    async def complete(
        self, messages: Sequence[Message], actions: tuple[ActionForm, ...] = ()
    ) -> Completion:
        """Add messages and take the next written turn."""
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
        self._append(tuple(messages), given, None)
        span = SampledSpan(
            logprobs=completion.logprobs,
            loss_mask=completion.loss_mask,
            temperature=0.0,
            fingerprint=self._name,
        )
        self._append((Message(role="assistant", content=text),), ids, span)
        return completion

    def _append(
        self, messages: tuple[Message, ...], token_ids: tuple[int, ...], span: SampledSpan | None
    ) -> None:
        parent = len(self.nodes) - 1 if self.nodes else None
        self.nodes.append(Node(parent=parent, messages=messages, token_ids=token_ids, sampled=span))
