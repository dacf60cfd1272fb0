"""Who does the work: from a session's prompt to its end."""

from practicum.agents.discrete import DiscreteAgent

__all__ = ["DiscreteAgent"]
