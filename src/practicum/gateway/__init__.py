"""The one door to the model: everything sampled through it is recorded as it was sampled."""

from practicum.gateway.capture import CapturedConversation
from practicum.gateway.graph import RolloutGraph
from practicum.gateway.requests import ChatRequest, ChatTurn, Refused
from practicum.gateway.rollouts import OpenRollouts, Rollout
from practicum.gateway.scripted import ScriptedConversation

__all__ = [
    "CapturedConversation",
    "ChatRequest",
    "ChatTurn",
    "OpenRollouts",
    "Refused",
    "Rollout",
    "RolloutGraph",
    "ScriptedConversation",
]
