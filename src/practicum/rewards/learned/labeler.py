"""`Labeler`: learns from people's labels how likely a trace is good; and its use as a reward.

Saved as JSON and npz without pickle, so that opening someone else's labeler cannot run code.
"""

import asyncio
import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from practicum.core.errors import ConfigError, UserError
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace
from practicum.rewards.learned.features import (
    PLACES,
    Array,
    Embedder,
    FeatureSpace,
    RawFeatures,
    fact_names,
    read_features,
)
from practicum.rewards.learned.logistic import (
    STRENGTHS,
    CrossValidated,
    LogisticModel,
    PlattScale,
    cross_validate,
    fit_logistic,
    fit_platt,
    sigmoid,
    span,
)

MIN_PER_CLASS = 3
"""Good and bad labels that are needed to fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The labeler's prediction for one trace."""

    probability: float
    """That a person would call it good."""
    logit: float
    """The same as log-odds, which do not saturate."""
    spread: float
    """Standard deviation of the score; large for traces unlike the labelled ones."""

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
    """Traces to label, with their features."""

    ids: tuple[str, ...]
    groups: tuple[str, ...]
    """Environment and task of each; cross-validation keeps a group together."""
    raw: RawFeatures
    space: FeatureSpace
    """Fitted to these traces."""
    embedder: str = ""
    """Name of the embedder; empty without one."""

    @classmethod
    def read(
        cls,
        traces: Sequence[Trace],
        embedder: Embedder | None = None,
        on_trace: Callable[[], None] = lambda: None,
    ) -> "TracePool":
        """Compute the features of traces; `on_trace` is called after each."""
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
    """Whether there are enough good and bad labels to fit."""
    good = sum(value >= 0.5 for value in labels.values())
    return min(good, len(labels) - good) >= MIN_PER_CLASS


@dataclass(frozen=True, slots=True, kw_only=True)
class Labeler:
    """A linear classifier of traces with calibrated probabilities."""

    space: FeatureSpace
    model: LogisticModel
    scale: PlattScale
    labels: int
    """Number of labels it was fitted to."""
    embedder: str = ""
    """Name of its embedder; empty without one."""

    @classmethod
    def fit(
        cls,
        pool: TracePool,
        labels: Mapping[str, float],
        *,
        seed: int = 0,
        strengths: Sequence[float] = STRENGTHS,
    ) -> "tuple[Labeler, CrossValidated]":
        """Fit to people's labels, by trace id; unlabelled traces only affect the feature scales.

        Returns the labeler, and the out-of-fold predictions of the labelled traces in pool order.
        """
        rows = [index for index, name in enumerate(pool.ids) if name in labels]
        known = {pool.ids[index]: labels[pool.ids[index]] for index in rows}
        if not can_learn(known):
            good = sum(value >= 0.5 for value in known.values())
            raise UserError(
                f"there are {good} good and {len(known) - good} bad labels by people; the labeler "
                f"learns from {MIN_PER_CLASS} of each: type practicum traces label and give more"
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
        """Predictions from features."""
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
        """Predictions for traces; needs the embedder it was fitted with."""
        self.require_embedder(embedder)
        return self.predict(read_features(traces, embedder))

    @property
    def embedder_model(self) -> str:
        """The name of the embedding model to load; see `Embedder.name`."""
        return self.embedder.partition(" (")[0]

    def require_embedder(self, embedder: Embedder | None) -> None:
        """Raise unless this is the embedder it was fitted with."""
        given = "" if embedder is None else embedder.name
        if given != self.embedder:
            raise UserError(
                f"the labeler was taught with {self.embedder or 'no embeddings'} and is given "
                f"{given or 'no embeddings'}; use the same model, or teach it again"
            )

    def undecided(self, raw: RawFeatures) -> Array:
        """Uncertainty from 0 (sure) to 1 (good and bad equally likely), (n,).

        Taken before calibration: the offset of Platt scaling depends on which traces happened to be
        labelled, and would move the decision boundary.
        """
        shares = sigmoid(self.model.moderated(self.space.transform(raw)))
        return 1 - np.abs(2 * shares - 1)

    def probabilities(self, raw: RawFeatures) -> Array:
        """The probability that each trace is good, (n,)."""
        return self.scale.probabilities(self.model.moderated(self.space.transform(raw)))


DESCRIPTION = "labeler.json"
ARRAYS = "labeler.npz"
VERSION = 1


def save_labeler(labeler: Labeler, folder: Path) -> None:
    """Write a labeler into a folder; the JSON, which has the arrays' digest, is replaced last."""
    folder.mkdir(parents=True, exist_ok=True)
    model = labeler.model
    arrays = {
        **asdict(labeler.space),
        "weights": model.weights,
        "basis": model.basis,
        "covariance": model.covariance,
    }
    unfinished = folder / f".{ARRAYS}.new"
    with unfinished.open("wb") as file:
        np.savez_compressed(file, **arrays)
    digest = hashlib.sha256(unfinished.read_bytes()).hexdigest()
    described = {
        "version": VERSION,
        "labels": labeler.labels,
        "embedder": labeler.embedder,
        "strength": model.strength,
        "intercept": model.intercept,
        "calibration": asdict(labeler.scale),
        "facts": list(fact_names()),
        "word_places": PLACES,
        "arrays_sha256": digest,
    }
    description = folder / f".{DESCRIPTION}.new"
    description.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    os.replace(unfinished, folder / ARRAYS)
    os.replace(description, folder / DESCRIPTION)


def load_labeler(folder: Path) -> Labeler:
    """Read what `save_labeler` wrote; raises `UserError` for anything else."""
    described = _read_description(folder)
    arrays = _read_arrays(folder, described)
    try:
        space = FeatureSpace(**{name: arrays[name] for name in FeatureSpace.__slots__})
        model = LogisticModel(
            weights=arrays["weights"],
            intercept=float(described["intercept"]),
            strength=float(described["strength"]),
            basis=arrays["basis"],
            covariance=arrays["covariance"],
        )
        scale = PlattScale(**described["calibration"])
        labels, embedder = int(described["labels"]), str(described["embedder"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder, f"{type(error).__name__}: {error}") from error
    if model.weights.shape != (space.width,):
        raise _damaged(folder, f"{model.weights.shape} weights for {space.width} features")
    return Labeler(space=space, model=model, scale=scale, labels=labels, embedder=embedder)


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    if not path.is_file():
        raise UserError(
            f"{str(folder)!r} holds no labeler: there is no {DESCRIPTION}; make one with "
            "practicum traces label --save FOLDER"
        )
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise _damaged(folder, str(error)) from error
    if not isinstance(described, dict) or described.get("version") != VERSION:
        found = described.get("version") if isinstance(described, dict) else described
        raise UserError(
            f"the labeler in {str(folder)!r} has version {found!r}, and {VERSION} is read here; "
            "make it again with practicum traces label --save FOLDER"
        )
    if described.get("facts") != list(fact_names()) or described.get("word_places") != PLACES:
        raise UserError(
            f"the labeler in {str(folder)!r} was taught with other features than are read here; "
            "make it again with practicum traces label --save FOLDER"
        )
    return described


def _read_arrays(folder: Path, described: dict[str, Any]) -> dict[str, Any]:
    path = folder / ARRAYS
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != described.get("arrays_sha256"):
            raise _damaged(folder, f"{ARRAYS} is not the file that {DESCRIPTION} speaks of")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise _damaged(folder, str(error)) from error


def _damaged(folder: Path, reason: str) -> UserError:
    return UserError(
        f"the labeler in {str(folder)!r} is damaged ({reason}); copy it again, or make it again "
        "with practicum traces label --save FOLDER"
    )


RewardForm = Literal["probability", "logit"]
"""From 0 to 1; or log-odds, which do not saturate."""

NAME = "learned"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedReward:
    """The labeler's probability that a person would call the episode good."""

    labeler: Labeler
    form: RewardForm = "probability"
    minimum_confidence: float = 0.5
    """Episodes whose likelier verdict has a lower probability are unscored."""
    embedder: Embedder | None = None

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
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
        """The prediction; unscored where it is not confident enough."""
        if self.embedder is None:
            [found] = self.labeler.predict_traces([trace])
        else:  # embedding takes long: keep the event loop free
            [found] = await asyncio.to_thread(self.labeler.predict_traces, [trace], self.embedder)
        verdict = f"good with {found.probability:.2f}, spread {found.spread:.2f}"
        if found.confidence < self.minimum_confidence:
            reason = f"{verdict}: less sure than {self.minimum_confidence:.2f}"
            return Score(components={NAME: None}, reason=reason)
        value = found.probability if self.form == "probability" else found.logit
        return Score(components={NAME: value}, reason=verdict)
