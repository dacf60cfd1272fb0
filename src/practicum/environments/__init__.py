"""Sources of tasks, and the places where they are done."""

from practicum.environments.action_forms import is_writable, random_action_text
from practicum.environments.checker import EnvironmentCheck, LevelCheck, check_environment
from practicum.environments.reference_policies import (
    Actor,
    DoNothingActor,
    Play,
    RandomActor,
    ReferenceActor,
    play_episode,
)
from practicum.environments.registry import (
    build_environment,
    build_level,
    environment_class,
    environment_names,
)

__all__ = [
    "Actor",
    "DoNothingActor",
    "EnvironmentCheck",
    "LevelCheck",
    "Play",
    "RandomActor",
    "ReferenceActor",
    "build_environment",
    "build_level",
    "check_environment",
    "environment_class",
    "environment_names",
    "is_writable",
    "play_episode",
    "random_action_text",
]
