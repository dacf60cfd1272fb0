"""`Task` (what to do), `Outcome` (the evidence of what was done), and verdicts about tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, SupportsFloat

from typing_extensions import TypeAliasType

JSON = TypeAliasType("JSON", 'str | int | float | bool | list["JSON"] | dict[str, "JSON"] | None')
"""Any JSON value; a named alias, so that pydantic can build its recursive schema."""

STAND_INS = "stand_ins"
"""The key of `Task.data` with what `Task.stand_ins` tells."""

Split = Literal["train", "heldout"]
"""Training or held-out tasks; no task is in both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task of an environment, complete enough to open its session again later."""

    id: str
    """Unique in its environment and stable between runs."""
    env: str
    """Name of the environment that opens it."""
    split: Split
    level: int = 1
    """Difficulty, from 1 up; the environment defines it."""
    instruction: str = ""
    """The task in words."""
    data: Mapping[str, JSON] = field(default_factory=dict)
    """What the environment needs to open the session, JSON values only."""

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """What stands in for something of where the task comes from, each in a few words.

        A score that rests on any of them is not comparable with scores from there.
        """
        found = self.data.get(STAND_INS)
        return tuple(str(one) for one in found) if isinstance(found, list) else ()

    def to_json(self) -> dict[str, JSON]:
        """As JSON without `env`: enough to open it on a server of its environment."""
        return {
            "id": self.id,
            "split": self.split,
            "level": self.level,
            "instruction": self.instruction,
            "data": dict(self.data),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Evidence a session collected before it closed: read by rewards, stored with the trace."""

    success: bool | None
    """Whether the task was solved; None where unknown."""
    turn_rewards: tuple[float, ...] = ()
    """Reward of each turn, in order; empty where the environment gives none."""
    evidence: Mapping[str, JSON] = field(default_factory=dict)
    """Whatever a reward may need: exit codes, files, checkpoint results, final state."""

    def __post_init__(self) -> None:
        paid = tuple(as_reward(value) for value in self.turn_rewards)
        object.__setattr__(self, "turn_rewards", paid)


def as_reward(value: object) -> float:
    """The number that an environment's own code pays, such as one of numpy's.

    Told where it is made, the mistake has the line of that code.
    """
    if isinstance(value, str) or not isinstance(value, SupportsFloat):
        raise TypeError(f"a reward is {value!r}, which is no number")
    return float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVerdict:
    """Whether a task of someone else's can be played here."""

    task: Task
    missing: tuple[str, ...] = ()
    """What keeps it from being played, each in a few words."""
    notes: tuple[str, ...] = ()
    """What is not as it is where the task comes from."""
    found: tuple[str, ...] = ()
    """Of what the user has to add, what the task needs and is there."""
