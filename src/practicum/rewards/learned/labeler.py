"""The labeler: from traces that people have labelled to how good any trace is likely to be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from practicum.core.errors import UserError
from practicum.core.trace import Trace
from practicum.rewards.learned.calibration import PlattScale, fit_platt
from practicum.rewards.learned.logistic import LogisticModel, fit_logistic, sigmoid, span
from practicum.rewards.learned.space import (
    Array,
    Embedder,
    FeatureSpace,
    RawFeatures,
    read_features,
)
from practicum.rewards.learned.validation import STRENGTHS, CrossValidated, cross_validate

__all__ = ["FEWEST_OF_EACH", "Labeler", "Prediction", "TracePool", "can_learn"]

FEWEST_OF_EACH = 3
"""Good labels, and bad ones, without which nothing is learned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the labeler says of one trace."""

    probability: float
    """That a person would call it good."""
    logit: float
    """The same on the log-odds scale, where it does not saturate."""
    spread: float
    """Standard deviation of the labeler's own score: large for what it has seen nothing like."""

    @property
    def is_good(self) -> bool:
        """The likelier verdict."""
        return self.probability >= 0.5

    @property
    def confidence(self) -> float:
        """The probability of the likelier verdict, 0.5 to 1."""
        return max(self.probability, 1 - self.probability)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePool:
    """Traces that may be labelled, with their features, read once."""

    ids: tuple[str, ...]
    groups: tuple[str, ...]
    """What each is an attempt at: attempts at one task resemble each other."""
    raw: RawFeatures
    space: FeatureSpace
    """The scales of these traces."""
    embedder: str = ""
    """Name of the embedder; empty without one."""

    @classmethod
    def read(
        cls,
        traces: Sequence[Trace],
        embedder: Embedder | None = None,
        on_trace: Callable[[], None] = lambda: None,
    ) -> "TracePool":
        """Read the features of traces; `on_trace` is called after each."""
        raw = read_features(traces, embedder, on_trace)
        return cls(
            ids=tuple(trace.id for trace in traces),
            groups=tuple(f"{trace.env}/{trace.task_id}" for trace in traces),
            raw=raw,
            space=FeatureSpace.fit(raw),
            embedder="" if embedder is None else embedder.name,
        )

    def __len__(self) -> int:
        return len(self.ids)


def can_learn(labels: Mapping[str, float]) -> bool:
    """Whether there are enough labels of either kind."""
    good = sum(value >= 0.5 for value in labels.values())
    return min(good, len(labels) - good) >= FEWEST_OF_EACH


@dataclass(frozen=True, slots=True, kw_only=True)
class Labeler:
    """A linear classifier of traces with calibrated probabilities."""

    space: FeatureSpace
    model: LogisticModel
    scale: PlattScale
    labels: int
    """How many labels it learned from."""
    embedder: str = ""
    """Name of the embedder whose vectors it reads; empty if it reads none."""

    @classmethod
    def fit(
        cls,
        pool: TracePool,
        labels: Mapping[str, float],
        *,
        seed: int = 0,
        strengths: Sequence[float] = STRENGTHS,
    ) -> "tuple[Labeler, CrossValidated]":
        """Learn from people's labels, by id; traces without one only say what is usual.

        Returns the labeler, and what it says of each labelled trace without having seen its label,
        in the order in which they stand in the pool.
        """
        rows = [index for index, name in enumerate(pool.ids) if name in labels]
        known = {pool.ids[index]: labels[pool.ids[index]] for index in rows}
        if not can_learn(known):
            good = sum(value >= 0.5 for value in known.values())
            raise UserError(
                f"there are {good} good and {len(known) - good} bad labels by people; the labeler "
                f"learns from {FEWEST_OF_EACH} of each: type practicum traces label and give more"
            )
        features = pool.space.transform(pool.raw.take(rows))
        targets = np.array([labels[pool.ids[index]] for index in rows])
        groups = [pool.groups[index] for index in rows]
        basis = span(features)
        checked = cross_validate(features, targets, groups, seed, strengths, basis)
        labeler = cls(
            space=pool.space,
            model=fit_logistic(features, targets, checked.strength, basis),
            scale=fit_platt(checked.scores, (targets >= 0.5).astype(np.float64)),
            labels=len(rows),
            embedder=pool.embedder,
        )
        return labeler, checked

    def predict(self, raw: RawFeatures) -> list[Prediction]:
        """What it says of each trace whose features were read."""
        rows = self.space.transform(raw)
        logits = self.scale.logits(self.model.moderated(rows))
        spreads = np.sqrt(self.model.variances(rows))
        shares = self.scale.probabilities(self.model.moderated(rows))
        return [
            Prediction(probability=float(share), logit=float(logit), spread=float(spread))
            for share, logit, spread in zip(shares, logits, spreads, strict=True)
        ]

    def predict_traces(
        self, traces: Sequence[Trace], embedder: Embedder | None = None
    ) -> list[Prediction]:
        """What it says of each trace; needs the embedder it was taught with."""
        self.require_embedder(embedder)
        return self.predict(read_features(traces, embedder))

    @property
    def embedder_model(self) -> str:
        """The model to load for it: an embedder's name is the model's, then which weights."""
        return self.embedder.partition(" (")[0]

    def require_embedder(self, embedder: Embedder | None) -> None:
        """Refuse vectors of another model than the labeler was taught with."""
        given = "" if embedder is None else embedder.name
        if given != self.embedder:
            raise UserError(
                f"the labeler was taught with {self.embedder or 'no embeddings'} and is given "
                f"{given or 'no embeddings'}; use the same model, or teach it again"
            )

    def undecided(self, raw: RawFeatures) -> Array:
        """1 where good and bad are equally likely, 0 where there is no doubt.

        Before calibration: its offset follows from which traces happened to be labelled, and would
        move the line between good and bad away from where they are hard to tell apart.
        """
        shares = sigmoid(self.model.moderated(self.space.transform(raw)))
        return 1 - np.abs(2 * shares - 1)

    def probabilities(self, raw: RawFeatures) -> Array:
        """The probability that each trace is good."""
        return self.scale.probabilities(self.model.moderated(self.space.transform(raw)))
