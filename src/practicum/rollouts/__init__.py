"""Task to scored episode to group."""

from practicum.rollouts.group import run_groups, run_persistently
from practicum.rollouts.rollout import Reach, RecordedConversation, RolloutParts, run_episode

__all__ = [
    "Reach",
    "RecordedConversation",
    "RolloutParts",
    "run_episode",
    "run_groups",
    "run_persistently",
]
