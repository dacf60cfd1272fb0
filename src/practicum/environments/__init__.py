"""Sources of tasks, and the places where they are done."""

from practicum.environments.action_forms import is_writable, random_action_text
from practicum.environments.check_report import EnvironmentCheck, LevelCheck
from practicum.environments.checker import check_environment, shares
from practicum.environments.offers import Bounded, Closable, Elsewhere, InSandboxes, Typed
from practicum.environments.reference_policies import (
    Actor,
    DoNothingActor,
    Play,
    RandomActor,
    Reference,
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
    "Bounded",
    "Closable",
    "DoNothingActor",
    "Elsewhere",
    "EnvironmentCheck",
    "InSandboxes",
    "LevelCheck",
    "Play",
    "RandomActor",
    "Reference",
    "ReferenceActor",
    "Typed",
    "build_environment",
    "build_level",
    "check_environment",
    "environment_class",
    "environment_names",
    "is_writable",
    "play_episode",
    "random_action_text",
    "shares",
]
