"""A reward that the user has written."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace

__all__ = ["FunctionReward"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionReward:
    """Calls `function(task, trace, outcome)`, which may be async, and takes a number or a `Score`.

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
        """What the function gives; unscored where it fails or gives something else."""
        try:
            found = self.function(task, trace, outcome)
            if inspect.isawaitable(found):
                found = await found
        except Exception as error:  # noqa: BLE001 - user code; its failure is data
            return Score.unscored(f"{self.name}: {type(error).__name__}: {error}")
        if isinstance(found, Score):
            return Score(
                components={self.name: found.value},
                turn_values=found.turn_values,
                reason=found.reason,
            )
        if not isinstance(found, int | float):
            kind = type(found).__name__
            return Score.unscored(f"{self.name} gave {kind}; a number or a Score is needed")
        return Score(components={self.name: float(found)})
