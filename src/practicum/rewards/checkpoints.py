"""The score of tasks that are checked at several points on the way."""

import math
from dataclasses import dataclass
from typing import Any

from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace

__all__ = ["AgentCompanyScore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCompanyScore:
    """S = 0.5 r / t + 0.5 [r = t], for r of t points (TheAgentCompany, arXiv 2412.14161).

    The points are `evidence["checkpoints"]`, a list of {"points": t, "result": r}; t may also be
    called "total", as the benchmark's own files do.

    >>> import asyncio
    >>> task = Task(id="a", env="office", split="train")
    >>> trace = Trace(id="t", task_id="a", env="office")
    >>> passed = [{"points": 2, "result": 2}, {"points": 2, "result": 1}]
    >>> outcome = Outcome(success=False, evidence={"checkpoints": passed})
    >>> asyncio.run(AgentCompanyScore().score(task, trace, outcome)).value
    0.375
    """

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored where the evidence holds no checkpoints, or some that cannot be read."""
        checkpoints = outcome.evidence.get("checkpoints")
        if not isinstance(checkpoints, list) or not checkpoints:
            return Score.unscored("the evidence has no checkpoints")
        points = [(_number(one, "points", "total"), _number(one, "result")) for one in checkpoints]
        whole = [(t, r) for t, r in points if t is not None and r is not None and 0 <= r <= t]
        total = sum(t for t, _ in whole)
        if len(whole) < len(points) or total <= 0:
            return Score.unscored(
                "a checkpoint has no points and result with 0 <= result <= points"
            )
        result = sum(r for _, r in whole)
        value = 0.5 * result / total + 0.5 * (result == total)
        return Score(components={"agent_company": value}, reason=f"{result:g} of {total:g} points")


def _number(checkpoint: Any, *keys: str) -> float | None:
    given = checkpoint if isinstance(checkpoint, dict) else {}
    value = next((given[key] for key in keys if key in given), None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
