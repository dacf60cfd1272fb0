"""Records of a run's results: checkpoints, and evaluation reports with their intervals."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from practicum.core.task import JSON

EXPORT_RESULTS = "export_results.json"
"""File of an exported model that says what it came from and how it did."""

CARD = "README.md"
"""A model's card, as the hub reads it."""

BASE_NAME = "base_model.txt"
"""File of a checkpoint with the name by which its base model is loaded here."""


def card_head(base: str, licence: str, library: str) -> list[str]:
    """The lines at the top of a card that the hub reads."""
    told = [f"base_model: {base}", f"license: {licence.lower()}", f"library_name: {library}"]
    tags = ["reinforcement-learning", "lora", "practicum"]
    return ["---", *told, "tags:", *(f"- {tag}" for tag in tags), "---", ""]


def other_policy(saved: str, found: str) -> str:
    """Why a policy's fingerprint is not the one that was saved; empty where it is.

    A fingerprint is `BASE+TENSORS.SETTINGS`. Older ones do not tell the adapter's settings, and a
    bare adapter has none at all: what they do not tell is believed.
    """
    if not saved or saved in (found, found.rpartition(".")[0]):
        return ""
    if saved.partition("+")[0] != found.partition("+")[0]:
        return "the base model is not the one it was trained on"
    if saved.rpartition(".")[0] == found.rpartition(".")[0]:
        return "lora.alpha or another setting of the adapter is not the one it was trained with"
    return "the adapter's weights are not those that were saved"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """What a resumed run needs besides weights, optimizer and random generator states."""

    step: int
    """Steps completed."""
    curriculum: Mapping[str, JSON] = field(default_factory=dict)
    totals: Mapping[str, JSON] = field(default_factory=dict)
    """Running counts: episodes, tokens, seconds."""
    recoveries: int = 0
    """How often the run has gone back to a good checkpoint (`on_collapse: recover`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A verified checkpoint folder."""

    path: Path
    step: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its 95 % confidence interval."""

    value: float
    low: float
    high: float
    n: int
    method: str
    """How it was computed: `wilson`, `clustered bootstrap`, ..."""

    def to_json(self) -> dict[str, JSON]:
        """As JSON, which has no infinity: an infinite bound is null."""
        return {
            "value": self.value,
            "low": self.low if math.isfinite(self.low) else None,
            "high": self.high if math.isfinite(self.high) else None,
            "n": self.n,
            "method": self.method,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """All attempts at one held-out task; None for an attempt that was masked or unscored."""

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
    success: Interval | None
    """None where nobody can say whether a task was done, as with a reward of one's own."""
    reward: Interval
    pass_at_k: Mapping[int, Interval] = field(default_factory=dict)
    success_by_level: Mapping[int, Interval] = field(default_factory=dict)
    masked: int = 0
    """Attempts left out because the environment or the agent failed."""
    tasks: tuple[TaskResult, ...] = ()
    duration_s: float = 0.0

    @property
    def attempts(self) -> int:
        """All attempts at its tasks, masked ones too."""
        return sum(len(task.successes) for task in self.tasks)

    @property
    def decisive(self) -> tuple[str, Interval]:
        """The score that policies are chosen by, and its name: success where it is known."""
        return ("success", self.success) if self.success else ("mean reward", self.reward)


MASKED_HIGH = 0.05
"""Share of masked held-out attempts from which the rest says too little about the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two policies on the same tasks, compared task by task."""

    policy: str
    against: str
    n_tasks: int
    success_difference: Interval | None
    """None where success is unknown."""
    reward_difference: Interval
    p_value: float
    """Of a two-sided exact test of "neither policy solves more tasks than the other"; of the same
    rewards where success is unknown."""

    @property
    def decisive(self) -> tuple[str, Interval]:
        """The difference that the test is of, and what it is in."""
        known = self.success_difference
        return ("success", known) if known else ("mean reward", self.reward_difference)
