"""Who does the work: from a session's prompt to its end."""

from practicum.agents.discrete import DiscreteAgent
from practicum.agents.tool_loop import ToolLoopAgent

__all__ = ["DiscreteAgent", "ToolLoopAgent"]
