"""Rewards of how the work went (tool errors, completion, budgets) and of the text's form."""

import math
import re
from dataclasses import dataclass
from typing import Literal

from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace, repeated_share, words_of
from practicum.rewards.code import Turns, turns_written, without_code

EXIT_CODES = "command_exit_codes"
"""Evidence key of the exit codes of an environment's commands; None for one that did not exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSuccess:
    """The share of tool calls that did not fail.

    With exit codes in the evidence, a call is an exit code, of which 0 is good, or a tool error
    (the call never became a command). Without, every tool message is a call.
    """

    without: float = 0.0
    """Value of an episode without a call."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """From 0 to 1, or `without`."""
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

    c / (c + f) if the evidence has the counts `tasks_completed` and `tasks_failed`, else 1 or 0 by
    `Outcome.success`.
    """

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored where neither is known."""
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
    """The unused share of budgets: the mean of max(0, 1 - used / budget) over those given."""

    tokens: int | None = None
    calls: int | None = None
    turns: int | None = None
    characters_per_token: float | None = None
    """What a token is taken for in a turn that has not been tokenised; None does not guess."""
    only_successful: bool = True
    """Whether an unsuccessful episode gets 0."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored where a budget is in tokens and a turn has not been tokenised."""
        if self.only_successful and not outcome.success:
            return Score(components={"efficiency": 0.0}, reason="the task was not done")
        tokens = self._tokens(trace)
        if self.tokens is not None and tokens is None:
            return Score.unscored("the tokens of a turn are not known")
        used = (
            (tokens or 0, self.tokens, "tokens"),
            (_calls(trace, outcome), self.calls, "calls"),
            (len(trace.turns), self.turns, "turns"),
        )
        known = [(amount, budget, unit) for amount, budget, unit in used if budget is not None]
        left = [max(0.0, 1.0 - amount / budget) for amount, budget, _ in known]
        reason = ", ".join(f"{amount} of {budget} {unit}" for amount, budget, unit in known)
        return Score(components={"efficiency": sum(left) / len(left)}, reason=reason)

    def _tokens(self, trace: Trace) -> int | None:
        """Sampled tokens; None where a turn has none and nothing says how to count its text."""
        found = 0
        for turn in (trace.nodes[place] for place in trace.turns):
            if turn.token_ids:
                found += len(turn.token_ids)
            elif self.characters_per_token is None:
                return None
            else:
                said = "".join(m.content for m in turn.messages if m.role == "assistant")
                found += math.ceil(len(said) / self.characters_per_token)
        return found


def _calls(trace: Trace, outcome: Outcome) -> int:
    """Tool calls by the record that has most: the result of the last call is often missing."""
    messages = list(trace.messages())
    codes = outcome.evidence.get(EXIT_CODES)
    return max(
        sum(len(message.tool_calls) for message in messages),
        sum(message.role == "tool" for message in messages),
        len(codes) if isinstance(codes, list) else 0,
    )


TAG = re.compile(r"</?([A-Za-z][\w:.-]*)(?:\s[^<>]*)?/?>")
"""An XML tag; `a < b` is not one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatCompliance:
    """The share of turns that obey every rule."""

    no_xml: bool = True
    allowed_tags: tuple[str, ...] = ("tool_call", "think")
    must: tuple[str, ...] = ()
    """Regular expressions that each turn must contain."""
    must_not: tuple[str, ...] = ()
    """Regular expressions that no turn may contain."""
    turns: Turns = "all"

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored where nothing was written."""
        texts = turns_written(trace, self.turns)
        if not texts:
            return Score.unscored("nothing was written")
        broken = [fault for text in texts if (fault := self._fault(text))]
        kept = len(texts) - len(broken)
        reason = broken[0] if broken else "every rule kept"
        return Score(components={"format": kept / len(texts)}, reason=reason)

    def _fault(self, text: str) -> str:
        """The first rule that a turn breaks, in words; empty if none."""
        if self.no_xml:
            for tag in TAG.finditer(without_code(text)):
                if tag[1] not in self.allowed_tags:
                    return f"the tag {tag[0][:40]!r}"
        for pattern in self.must:
            if not re.search(pattern, text):
                return f"{pattern!r} is missing"
        for pattern in self.must_not:
            if re.search(pattern, text):
                return f"{pattern!r} is there"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthPenalty:
    """A penalty from 0 to -1 near a token limit; see `overlong_penalty`."""

    limit: int
    margin: int = 0
    of: Literal["episode", "turn"] = "episode"

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Unscored where a turn has not been tokenised."""
        lengths = [len(trace.nodes[turn].token_ids) for turn in trace.turns]
        if not all(lengths):
            return Score.unscored("the tokens of a turn are not known")
        tokens = sum(lengths) if self.of == "episode" else max(lengths, default=0)
        value = overlong_penalty(tokens, self.limit, self.margin)
        return Score(components={"length": value}, reason=f"{tokens} tokens")


def overlong_penalty(tokens: int, limit: int, margin: int) -> float:
    """DAPO's soft punishment of overlong answers (arXiv 2503.14476, equation 13).

        0                              up to limit - margin
        (limit - margin - L) / margin  from there to the limit
        -1                             beyond

    >>> [overlong_penalty(length, 100, 20) for length in (80, 85, 100, 101)]
    [0.0, -0.25, -1.0, -1.0]
    """
    if tokens > limit:
        return -1.0
    over = tokens - (limit - margin)
    return -over / margin if over > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionPenalty:
    """-max(0, s - free) / (1 - free), s the share of word n-grams that occurred before."""

    n: int = 3
    free: float = 0.0

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Counted over all turns together."""
        share = repeated_share(words_of("\n".join(turns_written(trace))), self.n)
        value = -max(0.0, share - self.free) / (1.0 - self.free)
        return Score(components={"repetition": value}, reason=f"{share:.0%} repeated")
