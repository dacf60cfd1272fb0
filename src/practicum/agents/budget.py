"""A limit on how long a conversation may get, below what the model itself takes."""

from collections.abc import Sequence
from dataclasses import dataclass

from practicum.core.errors import ContextFull
from practicum.core.interfaces import ChatCodec, Conversation
from practicum.core.sampling import ActionForm, Completion
from practicum.core.trace import Message, ToolSpec

__all__ = ["BudgetedConversation", "ContextBudget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBudget:
    """How many tokens a conversation may have, its next turn included."""

    codec: ChatCodec
    tokens: int
    turn_tokens: int
    """What the next turn may have."""

    def within(self, conversation: Conversation) -> "BudgetedConversation":
        """The conversation under this limit."""
        return BudgetedConversation(conversation, self)


class BudgetedConversation:
    """Counts the tokens that a turn would need before it is asked for."""

    def __init__(self, conversation: Conversation, budget: ContextBudget) -> None:
        self._conversation = conversation
        self._budget = budget
        self._used = 0
        self._ended_turn: bool | None = None

    async def complete(
        self,
        messages: Sequence[Message],
        actions: tuple[ActionForm, ...] = (),
        tools: tuple[ToolSpec, ...] = (),
    ) -> Completion:
        """See `Conversation`; `ContextFull` where the turn would go over the limit."""
        codec, budget = self._budget.codec, self._budget
        if self._ended_turn is None:
            given = codec.open(messages, tools)
        else:
            given = codec.extend(messages, self._ended_turn)
        needed = self._used + len(given) + budget.turn_tokens
        if needed > budget.tokens:
            raise ContextFull(
                f"the next turn may need {needed} tokens and agent.context_tokens is "
                f"{budget.tokens}"
            )
        completion = await self._conversation.complete(messages, actions, tools)
        self._used += len(given) + len(completion.token_ids)
        self._ended_turn = completion.ended_turn
        return completion
