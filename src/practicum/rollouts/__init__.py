"""Task to scored episode to group."""

from practicum.rollouts.group import run_groups
from practicum.rollouts.rollout import RolloutParts, run_episode

__all__ = ["RolloutParts", "run_episode", "run_groups"]
