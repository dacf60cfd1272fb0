"""What an evaluation found, with how sure it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Comparison", "EvalReport", "Interval", "TaskResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int
    method: str
    """How the interval was made: `wilson`, `clustered bootstrap`, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """All attempts at one held-out task. None marks an attempt that was masked or unscored."""

    task_id: str
    level: int
    successes: tuple[bool | None, ...]
    rewards: tuple[float | None, ...]
    turns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """Scores of one policy on held-out tasks."""

    policy: str
    env: str
    fingerprint: str
    seed: int
    attempts_per_task: int
    success: Interval
    reward: Interval
    pass_at_k: Mapping[int, Interval] = field(default_factory=dict)
    success_by_level: Mapping[int, Interval] = field(default_factory=dict)
    masked: int = 0
    """Attempts left out because the environment or the agent failed."""
    tasks: tuple[TaskResult, ...] = ()
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two policies on the same tasks, compared task by task."""

    policy: str
    against: str
    n_tasks: int
    success_difference: Interval
    reward_difference: Interval
    p_value: float
    """Two-sided exact test that neither policy solves more tasks than the other."""
