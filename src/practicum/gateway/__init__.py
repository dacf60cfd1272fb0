"""The one door to the model: everything sampled through it is recorded as it was sampled."""

from practicum.gateway.capture import CapturedConversation
from practicum.gateway.scripted import ScriptedConversation

__all__ = ["CapturedConversation", "ScriptedConversation"]
