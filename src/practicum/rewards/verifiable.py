"""Rewards read from evidence alone."""

from dataclasses import dataclass

from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace

__all__ = ["TurnRewards"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRewards:
    """The sum of what the environment paid for each turn."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored when the environment paid for more or fewer turns than there were."""
        turns = len(trace.turns)
        if len(outcome.turn_rewards) != turns:
            return Score.unscored(
                f"{len(outcome.turn_rewards)} turn rewards for {turns} turns of {trace.id}"
            )
        return Score(
            components={"turns": sum(outcome.turn_rewards)}, turn_values=outcome.turn_rewards
        )
