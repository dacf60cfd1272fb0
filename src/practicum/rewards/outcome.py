"""A reward for the episode as a whole: was the task done or not."""

from dataclasses import dataclass

from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace

__all__ = ["OutcomeReward"]

MALFORMED = "agent_validation_failed"
"""The status of an episode that ended with a turn in no known form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReward:
    """One value for each way an episode can end; the defaults are the preset `os`.

    An episode whose environment failed has no outcome and is never scored, so it never comes here.

    >>> import asyncio
    >>> task = Task(id="a", env="shell", split="train")
    >>> trace = Trace(id="t", task_id="a", env="shell")
    >>> asyncio.run(OutcomeReward().score(task, trace, Outcome(success=False))).value
    -0.5
    """

    correct: float = 1.0
    incorrect: float = -0.5
    unknown: float = 0.0
    """What an episode is worth of which cannot be said whether the task was done."""
    malformed: float | None = None
    """What an incorrect episode is worth that ended with a turn in no known form; None makes no
    difference. Where no episode succeeds yet, this is what there is to learn from."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """The value of how it ended."""
        if outcome.success is None:
            return Score(components={"outcome": self.unknown}, reason="unknown")
        if outcome.success:
            return Score(components={"outcome": self.correct}, reason="correct")
        if self.malformed is not None and outcome.evidence.get("status") == MALFORMED:
            return Score(components={"outcome": self.malformed}, reason="malformed")
        return Score(components={"outcome": self.incorrect}, reason="incorrect")
