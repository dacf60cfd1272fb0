"""The labeler as a reward."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from practicum.core.errors import ConfigError
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace
from practicum.rewards.learned.labeler import Labeler
from practicum.rewards.learned.saving import load_labeler
from practicum.rewards.learned.space import Embedder

__all__ = ["LearnedReward", "RewardForm"]

RewardForm = Literal["probability", "logit"]
"""Between 0 and 1; or log-odds, which keep rising where the probability has nearly saturated."""

NAME = "learned"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedReward:
    """How likely it is that a person would call the episode good."""

    labeler: Labeler
    form: RewardForm = "probability"
    minimum_confidence: float = 0.5
    """Episodes of which the likelier verdict is less likely than this are unscored."""
    embedder: Embedder | None = None

    def __post_init__(self) -> None:
        """Refuse settings with which no episode could be scored as meant."""
        if not 0.5 <= self.minimum_confidence < 1:
            raise ConfigError(
                f"minimum_confidence = {self.minimum_confidence}: the likelier of two verdicts has "
                "a probability from 0.5 up to 1; write a number from 0.5 (score all) up to 0.99"
            )
        if self.form not in ("probability", "logit"):
            raise ConfigError(f"form = {self.form!r}: write probability or logit")
        self.labeler.require_embedder(self.embedder)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        form: RewardForm = "probability",
        minimum_confidence: float = 0.5,
        embedder: Embedder | None = None,
    ) -> "LearnedReward":
        """The reward of a saved labeler."""
        return cls(
            labeler=load_labeler(folder),
            form=form,
            minimum_confidence=minimum_confidence,
            embedder=embedder,
        )

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """The labeler's word; unscored where it is not sure enough."""
        if self.embedder is None:
            [said] = self.labeler.predict_traces([trace])
        else:  # a language model takes its time: others may go on meanwhile
            [said] = await asyncio.to_thread(self.labeler.predict_traces, [trace], self.embedder)
        told = f"good with {said.probability:.2f}, spread {said.spread:.2f}"
        if said.confidence < self.minimum_confidence:
            reason = f"{told}: less sure than {self.minimum_confidence:.2f}"
            return Score(components={NAME: None}, reason=reason)
        value = said.probability if self.form == "probability" else said.logit
        return Score(components={NAME: value}, reason=told)
