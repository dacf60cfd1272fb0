"""The agent of the OpenHands SDK, in a process and a Python of its own."""

from practicum.agents.openhands.agent import OpenHandsAgent

__all__ = ["OpenHandsAgent"]
