"""Rewards for the form of what was written: rules, length, repetition."""

import re
from dataclasses import dataclass
from typing import Literal

from practicum.core.repetition import repeated_share, words_of
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace
from practicum.rewards.written import Turns, turns_written, without_code

__all__ = ["FormatCompliance", "LengthPenalty", "RepetitionPenalty", "overlong_penalty"]

TAG = re.compile(r"</?([A-Za-z][\w:.-]*)(?:\s[^<>]*)?/?>")
"""A tag of XML; a sign such as `a < b` is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatCompliance:
    """The share of turns that keep to every rule."""

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
        """The first rule that a turn breaks, in words; empty where it breaks none."""
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
    """From 0 to -1 over the last tokens before a limit; see `overlong_penalty`."""

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
    """Minus the share of word sequences that have come before, beyond what is free.

    With the share s: -max(0, s - free) / (1 - free).
    """

    n: int = 3
    free: float = 0.0

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Over all that was written, turn after turn."""
        share = repeated_share(words_of("\n".join(turns_written(trace))), self.n)
        value = -max(0.0, share - self.free) / (1.0 - self.free)
        return Score(components={"repetition": value}, reason=f"{share:.0%} repeated")
