"""The agent of discrete environments: one action a turn until something ends the episode."""

from dataclasses import dataclass

from practicum.agents.budget import ContextBudget
from practicum.core.errors import ContextFull, EnvironmentFailure, boundary
from practicum.core.interfaces import Conversation, DiscreteSession
from practicum.core.trace import StopReason

__all__ = ["DiscreteAgent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteAgent:
    """Samples an action, carries it out, shows the model what came of it."""

    max_turns: int = 8
    budget: ContextBudget | None = None
    """How long the conversation may get; None is as long as the model takes."""

    async def run(self, session: DiscreteSession, conversation: Conversation) -> StopReason:
        """Drive the session turn by turn."""
        if self.budget is not None:
            conversation = self.budget.within(conversation)
        with boundary(EnvironmentFailure, "the environment"):
            messages = session.prompt()
        for _ in range(self.max_turns):
            with boundary(EnvironmentFailure, "the environment"):
                actions = session.actions()
            try:
                completion = await conversation.complete(messages, actions)
            except ContextFull:
                return StopReason.CONTEXT_FULL
            with boundary(EnvironmentFailure, "the environment"):
                observation = await session.act(completion.text)
            if observation.terminated:
                return StopReason.FINISHED
            messages = [observation.message]
        return StopReason.MAX_TURNS
