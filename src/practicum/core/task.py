"""What is to be done, and the evidence of what was done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from typing_extensions import TypeAliasType

__all__ = ["JSON", "Outcome", "Split", "Task"]

JSON = TypeAliasType("JSON", 'str | int | float | bool | list["JSON"] | dict[str, "JSON"] | None')
"""Anything a JSON file can hold; named, so that a recursive schema can be made of it."""

Split = Literal["train", "heldout"]
"""Which side of the wall a task is on. No task is ever on both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One row of an environment: enough to open a session, now or in a year."""

    id: str
    """Unique in its environment, and stable: the same id is the same task."""
    env: str
    """Name of the environment that opens it."""
    split: Split
    level: int = 1
    """Difficulty as the environment counts it, 1 upward."""
    instruction: str = ""
    """What a person would be told."""
    data: Mapping[str, JSON] = field(default_factory=dict)
    """What the environment needs to open the session, JSON values only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Evidence a session collected before it closed; rewards read it, stored traces keep it."""

    success: bool | None
    """Whether the task was done; None when that cannot be said."""
    turn_rewards: tuple[float, ...] = ()
    """What the environment paid for each turn it answered, in order; empty if it pays none."""
    evidence: Mapping[str, JSON] = field(default_factory=dict)
    """Exit codes, files, checkpoint results, final state: whatever a reward may want to read."""
