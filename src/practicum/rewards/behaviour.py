"""Rewards for how the work went: calls that failed, work completed, what was used up."""

from dataclasses import dataclass

from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace

__all__ = ["Efficiency", "TaskCompletion", "ToolSuccess"]

EXIT_CODES = "command_exit_codes"
"""Where environments that run commands keep how each of them ended; None for one that did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSuccess:
    """The share of tool calls that did not fail.

    Calls are the exit codes in the evidence, of which 0 is good, and the calls that failed before
    they became a command. Where there are no exit codes, every tool message is a call.
    """

    without: float = 0.0
    """What an episode without a call is worth."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Between 0 and 1, unless there was no call."""
        answers = [message for message in trace.messages() if message.role == "tool"]
        refused = sum(message.is_error for message in answers)
        codes = outcome.evidence.get(EXIT_CODES)
        if isinstance(codes, list) and codes:
            good, calls = sum(code == 0 for code in codes), len(codes) + refused
        else:
            good, calls = len(answers) - refused, len(answers)
        if not calls:
            return Score(components={"tool_success": self.without}, reason="no tool was called")
        return Score(components={"tool_success": good / calls}, reason=f"{good} of {calls} calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCompletion:
    """The share of the work that was completed.

    That is c / (c + f) where the evidence counts `tasks_completed` and `tasks_failed`, and else 1
    or 0 by the outcome.
    """

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored where it cannot be said."""
        done, failed = (_count(outcome, key) for key in ("tasks_completed", "tasks_failed"))
        if done is not None and failed is not None and done + failed > 0:
            share, reason = done / (done + failed), f"{done} of {done + failed} tasks"
        elif outcome.success is not None:
            share = float(outcome.success)
            reason = "completed" if outcome.success else "not completed"
        else:
            return Score.unscored("it cannot be said whether the task was completed")
        return Score(components={"task_completion": share}, reason=reason)


def _count(outcome: Outcome, key: str) -> int | None:
    value = outcome.evidence.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """What is left of budgets: the mean of max(0, 1 - used / budget) over the budgets given."""

    tokens: int | None = None
    calls: int | None = None
    turns: int | None = None
    only_successful: bool = True
    """Whether an episode that did not do its task gets 0."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored where a budget is in tokens and a turn has not been tokenised."""
        if self.only_successful and not outcome.success:
            return Score(components={"efficiency": 0.0}, reason="the task was not done")
        if self.tokens is not None and not all(trace.nodes[t].token_ids for t in trace.turns):
            return Score.unscored("the tokens of a turn are not known")
        used = (
            (trace.sampled_tokens, self.tokens, "tokens"),
            (_calls(trace, outcome), self.calls, "calls"),
            (len(trace.turns), self.turns, "turns"),
        )
        known = [(amount, budget, unit) for amount, budget, unit in used if budget is not None]
        left = [max(0.0, 1.0 - amount / budget) for amount, budget, _ in known]
        reason = ", ".join(f"{amount} of {budget} {unit}" for amount, budget, unit in known)
        return Score(components={"efficiency": sum(left) / len(left)}, reason=reason)


def _calls(trace: Trace, outcome: Outcome) -> int:
    """Tool calls by whichever record has most: the answer to the last one is often not shown."""
    messages = list(trace.messages())
    codes = outcome.evidence.get(EXIT_CODES)
    return max(
        sum(len(message.tool_calls) for message in messages),
        sum(message.role == "tool" for message in messages),
        len(codes) if isinstance(codes, list) else 0,
    )
