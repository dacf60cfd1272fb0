"""Records of a run's results: checkpoints, and evaluation reports with their intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from practicum.core.task import JSON

EXPORT_RESULTS = "export_results.json"
"""File of an exported model that says what it came from and how it did."""

CARD = "README.md"
"""A model's card, as the hub reads it."""


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
    stand_ins: tuple[str, ...] = ()
    """See `Task.stand_ins`; a score that rests on any is not comparable with others' scores."""
    env: str = ""
    """Which environment's it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """Scores of one policy on held-out tasks."""

    policy: str
    env: str
    fingerprint: str
    seed: int
    attempts_per_task: int
    success: Interval | None
    """Of the scored attempts; where `counts_masked`, of all of them, the masked as failed. None
    where nobody can say whether a task was done, as with a reward of one's own."""
    reward: Interval
    """Of the scored attempts."""
    pass_at_k: Mapping[int, Interval] = field(default_factory=dict)
    success_by_level: Mapping[int, Interval] = field(default_factory=dict)
    success_by_env: Mapping[str, Interval] = field(default_factory=dict)
    """Where the tasks are of several environments."""
    masked: int = 0
    """Attempts without a score, because the environment or the agent failed."""
    tasks: tuple[TaskResult, ...] = ()
    duration_s: float = 0.0
    success_scored: Interval | None = None
    """Of the scored attempts alone, as if nothing had been masked."""
    success_if_masked_failed: Interval | None = None
    """Of all attempts, as if every masked one had failed."""

    @property
    def attempts(self) -> int:
        """All attempts at its tasks, masked ones too."""
        return sum(len(task.successes) for task in self.tasks)

    @property
    def not_comparable(self) -> int:
        """Tasks whose scores rest on stand-ins."""
        return sum(bool(task.stand_ins) for task in self.tasks)

    @property
    def decisive(self) -> tuple[str, Interval]:
        """The score that policies are chosen by, and its name: success where it is known."""
        return ("success", self.success) if self.success else ("mean reward", self.reward)

    @property
    def counts_masked(self) -> bool:
        """Whether so many attempts are masked that success counts them as failed."""
        return are_many_masked(self.masked, self.attempts)

    @property
    def counted(self) -> tuple[TaskResult, ...]:
        """Its tasks as success counts them."""
        return masked_as_failed(self.tasks) if self.counts_masked else self.tasks


MASKED_HIGH = 0.05
"""Share of masked held-out attempts from which the rest says too little about the policy, which may
have failed in a way that is not counted: success then counts the masked as failed."""


def are_many_masked(masked: int, attempts: int) -> bool:
    """Whether the share of masked attempts is at least `MASKED_HIGH`."""
    return masked > 0 and masked >= MASKED_HIGH * attempts


def masked_as_failed(tasks: Sequence[TaskResult]) -> tuple[TaskResult, ...]:
    """The tasks with every attempt that has no score, or no known success, as a failed one."""

    def failed(task: TaskResult) -> tuple[bool, ...]:
        pairs = zip(task.successes, task.rewards, strict=True)
        return tuple(bool(success) and reward is not None for success, reward in pairs)

    return tuple(replace(task, successes=failed(task)) for task in tasks)


class HeldOutSuccess(Protocol):
    """Success on held-out tasks, with and without what was masked, as `EvalReport` has it."""

    @property
    def success(self) -> Interval | None:
        """What counts."""

    @property
    def success_scored(self) -> Interval | None:
        """Of the scored attempts alone."""

    @property
    def success_if_masked_failed(self) -> Interval | None:
        """Of all attempts, the masked as failed."""

    @property
    def masked(self) -> int:
        """How many attempts have no score."""


def beside_success(found: HeldOutSuccess, digits: int = 3) -> str:
    """What stands beside success wherever it is shown: how many are masked, and what of it.

    Empty where nothing is masked.
    """
    scored, failed = found.success_scored, found.success_if_masked_failed
    if not found.masked or scored is None or failed is None:
        return ""

    def shown(one: Interval) -> str:
        return f"{one.value:.{digits}f} [{one.low:.{digits}f}, {one.high:.{digits}f}]"

    if found.success == failed:
        return f" ({found.masked} masked counted as failed; {shown(scored)} without them)"
    return f" ({found.masked} masked; {shown(failed)} if they failed)"


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
    difference_by_env: Mapping[str, Interval] = field(default_factory=dict)
    """The gain in success of each environment, where the tasks are of several."""

    @property
    def decisive(self) -> tuple[str, Interval]:
        """The difference that the test is of, and what it is in."""
        known = self.success_difference
        return ("success", known) if known else ("mean reward", self.reward_difference)
