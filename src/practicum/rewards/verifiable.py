"""Rewards computed from evidence: turn rewards, outcome, checkpoints, reported score, function."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsFloat

from practicum.core.conversation import REPORTED
from practicum.core.errors import user_line
from practicum.core.interfaces import Reward
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import StopReason, Trace
from practicum.core.user_code import place_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRewards:
    """The sum of the environment's turn rewards."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored unless there is one reward for each turn."""
        turns, paid = len(trace.turns), outcome.turn_rewards
        if trace.stop is StopReason.TIMED_OUT and len(paid) == turns - 1:
            paid = (*paid, 0.0)  # the cut came before the last turn was carried out
        if len(paid) != turns:
            return Score.unscored(f"{len(paid)} turn rewards for {turns} turns of {trace.id}")
        return Score(components={"turns": sum(paid)}, turn_values=paid)


MALFORMED = "agent_validation_failed"
"""`evidence["status"]` of an episode that ended with a turn that could not be parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReward:
    """One value for each outcome; the defaults are the preset `os`.

    Episodes whose environment failed have no outcome and are not scored.

    >>> import asyncio
    >>> task = Task(id="a", env="shell", split="train")
    >>> trace = Trace(id="t", task_id="a", env="shell")
    >>> asyncio.run(OutcomeReward().score(task, trace, Outcome(success=False))).value
    -0.5
    """

    correct: float = 1.0
    incorrect: float = -0.5
    unknown: float = 0.0
    """Where `Outcome.success` is None."""
    malformed: float | None = None
    """Of an incorrect episode that ended with a turn that could not be parsed; None is `incorrect`.
    While no episode succeeds yet, this difference is the only signal."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """The value of the outcome."""
        if outcome.success is None:
            return Score(components={"outcome": self.unknown}, reason="unknown")
        if outcome.success:
            return Score(components={"outcome": self.correct}, reason="correct")
        if self.malformed is not None and outcome.evidence.get("status") == MALFORMED:
            return Score(components={"outcome": self.malformed}, reason="malformed")
        return Score(components={"outcome": self.incorrect}, reason="incorrect")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCompanyScore:
    """S = 0.5 r / t + 0.5 [r = t], for r of t points (TheAgentCompany, arXiv 2412.14161).

    The points are `evidence["checkpoints"]`, a list of {"points": t, "result": r}; the benchmark's
    own files call t "total".

    >>> import asyncio
    >>> task = Task(id="a", env="office", split="train")
    >>> trace = Trace(id="t", task_id="a", env="office")
    >>> passed = [{"points": 2, "result": 2}, {"points": 2, "result": 1}]
    >>> outcome = Outcome(success=False, evidence={"checkpoints": passed})
    >>> asyncio.run(AgentCompanyScore().score(task, trace, outcome)).value
    0.375
    """

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored where checkpoints are missing or invalid."""
        points = points_of(outcome)
        if isinstance(points, str):
            return Score.unscored(points)
        result, total = points
        value = 0.5 * result / total + 0.5 * (result == total)
        return Score(components={"agent_company": value}, reason=f"{result:g} of {total:g} points")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressScore:
    """The root of the share of points: the first ones count most, so that a start is worth it."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored where checkpoints are missing or invalid."""
        points = points_of(outcome)
        if isinstance(points, str):
            return Score.unscored(points)
        result, total = points
        value = math.sqrt(result / total)
        return Score(components={"progress": value}, reason=f"{result:g} of {total:g} points")


def points_of(outcome: Outcome) -> tuple[float, float] | str:
    """Points given and to be had, of all checkpoints together; why they cannot be counted."""
    checkpoints = outcome.evidence.get("checkpoints")
    if not isinstance(checkpoints, list) or not checkpoints:
        return "the evidence has no checkpoints"
    points = [(_number(one, "points", "total"), _number(one, "result")) for one in checkpoints]
    whole = [(t, r) for t, r in points if t is not None and r is not None and 0 <= r <= t]
    total = sum(t for t, _ in whole)
    if len(whole) < len(points) or total <= 0:
        return "a checkpoint has no points and result with 0 <= result <= points"
    return sum(r for _, r in whole), total


def _number(checkpoint: Any, *keys: str) -> float | None:
    given = checkpoint if isinstance(checkpoint, dict) else {}
    value = next((given[key] for key in keys if key in given), None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedScore:
    """The score that an agent reported in the evidence; `otherwise` where there is none."""

    otherwise: Reward

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """See `Reward`."""
        report = outcome.evidence.get(REPORTED)
        if not isinstance(report, Mapping):
            return await self.otherwise.score(task, trace, outcome)
        components = report.get("components")
        if not components:
            return Score.unscored("the agent's report names no component")
        weights = report.get("weights")
        turn_values = report.get("turn_values")
        return Score(
            components=_numbers(components),
            weights={k: v for k, v in _numbers(weights).items() if v is not None},
            turn_values=tuple(
                float(v)
                for v in (turn_values if isinstance(turn_values, list) else ())
                if isinstance(v, int | float)
            ),
            reason=str(report.get("reason") or ""),
        )


def _numbers(value: JSON) -> dict[str, float | None]:
    if not isinstance(value, Mapping):
        return {}
    return {
        name: float(number) if isinstance(number, int | float) else None
        for name, number in value.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionReward:
    """A user's `function(task, trace, outcome)`, sync or async, that gives a number or a `Score`.

    >>> import asyncio
    >>> reward = FunctionReward(name="turns_used", function=lambda task, trace, outcome: 3)
    >>> nothing = Trace(id="t", task_id="a", env="math")
    >>> task = Task(id="a", env="math", split="train")
    >>> asyncio.run(reward.score(task, nothing, Outcome(success=True))).components
    {'turns_used': 3.0}
    """

    name: str
    function: Callable[[Task, Trace, Outcome], Any]

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored where the function raises or returns something else."""
        try:
            found = self.function(task, trace, outcome)
            if inspect.isawaitable(found):
                found = await found
        except Exception as error:  # noqa: BLE001 - user code; its failure is data
            return Score.unscored(f"{self.name}: {type(error).__name__}: {error}{user_line(error)}")
        if isinstance(found, Score):
            return Score(
                components={self.name: found.value},
                turn_values=found.turn_values,
                reason=found.reason,
            )
        if isinstance(found, SupportsFloat) and math.isfinite(found):
            return Score(components={self.name: float(found)})
        given = repr(found) if isinstance(found, float) else type(found).__name__
        return Score.unscored(
            f"{self.name} gave {given}{place_of(self.function)}; a finite number or a Score is "
            "needed"
        )
