"""Who does the work: from a session's prompt to its end."""

from practicum.agents.budget import ContextBudget
from practicum.agents.call_styles import CallStyle, NativeCalls, ReactCalls, TextCalls
from practicum.agents.command import CommandAgent
from practicum.agents.discrete import DiscreteAgent
from practicum.agents.function import FunctionAgent
from practicum.agents.tool_loop import ToolLoopAgent

__all__ = [
    "CallStyle",
    "CommandAgent",
    "ContextBudget",
    "DiscreteAgent",
    "FunctionAgent",
    "NativeCalls",
    "ReactCalls",
    "TextCalls",
    "ToolLoopAgent",
]
