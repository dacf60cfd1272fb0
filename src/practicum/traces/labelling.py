"""Labelling stored traces: sessions with a person, suggestions by the labeler, agreement.

Names imported `as` themselves are for `cli`, which does not import `rewards`.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations, islice
from typing import Any

import numpy as np

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.rewards.learned.features import Embedder
from practicum.rewards.learned.labeler import Labeler, can_learn
from practicum.rewards.learned.labeler import Prediction as Prediction
from practicum.rewards.learned.labeler import TracePool as TracePool
from practicum.rewards.learned.labeler import save_labeler as save_labeler
from practicum.rewards.learned.logistic import Calibration, CrossValidated, measure_calibration
from practicum.rewards.learned.review_queue import Agreement as Agreement
from practicum.rewards.learned.review_queue import Order, ReviewQueue, cohens_kappa
from practicum.store.trace_store import SqliteTraceStore
from practicum.store.where import not_evaluated

LABELER = "labeler"
"""Author of suggested labels."""

CHUNK = 200
"""Traces per prediction batch of suggestions."""

Tick = Callable[[], None]


def mean_by_author(labels: Iterator[Label]) -> dict[str, float]:
    """The label of each episode: the mean over authors of each one's newest label.

    Suggestions are left out: the labeler must not learn from itself.
    """
    newest = _newest(labels)
    by_episode: dict[str, list[float]] = defaultdict(list)
    for (episode_id, _), label in newest.items():
        by_episode[episode_id].append(label.value)
    return {name: sum(values) / len(values) for name, values in by_episode.items()}


def _newest(labels: Iterator[Label]) -> dict[tuple[str, str], Label]:
    return {(one.episode_id, one.author): one for one in labels if not one.is_suggestion}


def read_pool(
    store: SqliteTraceStore,
    *,
    where: str,
    size: int,
    seed: int,
    embedder: Embedder | None,
    on_trace: Tick = lambda: None,
) -> TracePool:
    """All episodes labelled by people, and a random `size` of the others that match.

    Masked episodes are left out, and those of evaluations: a reward learned from them would have
    seen the held-out tasks.
    """
    evaluated = set(_ids(store, "purpose = eval"))
    named = dict.fromkeys(one.episode_id for one in store.labels(suggestions=False))
    labelled = [name for name in named if name not in evaluated]
    others = _drawn(_ids(store, not_evaluated(where)), size, seed, set(labelled))
    found = [store.get(name) for name in (*labelled, *others)]
    traces = [one.trace for one in found if one is not None and not one.trace.is_masked]
    if not traces:
        asked = f" match {where!r}" if where else ""
        raise UserError(
            f"no episodes of {store.path}{asked} can be labelled; practicum traces import adds some"
        )
    return TracePool.read(traces, embedder, on_trace)


def _ids(store: SqliteTraceStore, where: str) -> Iterator[str]:
    after = 0
    while page := store.find(where, limit=1000, after=after):
        yield from (found.summary.id for found in page)
        after = page[-1].row


def _drawn(names: Iterator[str], size: int, seed: int, known: set[str]) -> list[str]:
    """Reservoir sampling of `size` names, in their original order."""
    draw = np.random.default_rng(seed)
    kept: dict[int, tuple[int, str]] = {}
    for count, name in enumerate(one for one in names if one not in known):
        place = count if count < size else int(draw.integers(count + 1))
        if place < size:
            kept[place] = (count, name)
    return list(dict.fromkeys(name for _, name in sorted(kept.values())))


class LabelSession:
    """A person's labelling session; every answer is stored at once.

    The labeler's prediction before the answer is stored beside it, to measure their agreement.
    """

    def __init__(
        self, store: SqliteTraceStore, pool: TracePool, author: str, order: Order, seed: int
    ) -> None:
        if author == LABELER:
            raise UserError(f"{LABELER!r} is who suggests labels; give another --author")
        self._store = store
        self._author = author
        self._queue = ReviewQueue(pool, mean_by_author(store.labels()), order, seed)
        self._given: list[tuple[Label, ...]] = []
        """Labels that each answer of this session wrote; none for a skipped episode."""
        self._asked: list[str] = []

    def next(self) -> Episode | None:
        """The episode to show; None when none is left."""
        while (name := self._queue.next()) is not None:
            episode = self._store.get(name)
            if episode is not None:
                return episode
            self._queue.skip(name)  # removed since the pool was read
        return None

    def answer(self, episode_id: str, value: float, note: str = "") -> Prediction | None:
        """Store a person's label; returns the labeler's prediction."""
        predicted = self._queue.suggestion(episode_id)
        self.record(episode_id, value, note, predicted)
        return predicted

    def record(
        self, episode_id: str, value: float, note: str = "", predicted: Prediction | None = None
    ) -> None:
        """Store a person's label of any episode, and the labeler's prediction."""
        given = Label(
            episode_id=episode_id,
            value=value,
            author=self._author,
            created_at=time.time(),
            note=note,
        )
        labels = (given,) if predicted is None else (_suggested(episode_id, predicted), given)
        self._store.add_labels(labels)
        if self._queue.knows(episode_id):
            self._queue.answer(episode_id, value)
        self._remember(episode_id, labels)

    def require_known(self, episode_ids: Iterable[str]) -> None:
        """Refuse a list of answers, before any is stored, where one names no stored episode."""
        unknown = [name for name in episode_ids if self._store.get(name) is None]
        if unknown:
            raise UserError(
                f"{self._store.path} has no episode {unknown[0]!r}; nothing was labelled; "
                "practicum traces list shows their ids"
            )

    def skip(self, episode_id: str) -> None:
        """Skip an episode in this session."""
        self._queue.skip(episode_id)
        self._remember(episode_id, ())

    def undo(self) -> str | None:
        """Undo the last answer of this session; its episode comes next again."""
        if not self._asked:
            return None
        name = self._asked.pop()
        for label in self._given.pop():
            self._store.remove_label(label)
        if self._queue.knows(name):
            self._queue.take_back(name)
            before = mean_by_author(self._store.labels(name)).get(name)
            if before is not None:  # a label of an earlier session, or of someone else
                self._queue.answer(name, before)
        return name

    def left(self) -> int:
        """Episodes of the pool neither labelled nor skipped."""
        return self._queue.left()

    @property
    def counts(self) -> dict[str, int]:
        """Counts of this session."""
        values = [labels[-1].value for labels in self._given if labels]
        good = sum(value >= 0.5 for value in values)
        return {
            "labelled": len(values),
            "good": good,
            "bad": len(values) - good,
            "skipped": sum(not labels for labels in self._given),
            "left": self.left(),
        }

    def _remember(self, episode_id: str, labels: tuple[Label, ...]) -> None:
        self._asked.append(episode_id)
        self._given.append(labels)


def _suggested(episode_id: str, predicted: Prediction) -> Label:
    return Label(
        episode_id=episode_id,
        value=float(predicted.is_good),
        author=LABELER,
        created_at=time.time(),
        is_suggestion=True,
        confidence=predicted.confidence,
    )


def teach(store: SqliteTraceStore, pool: TracePool, seed: int) -> tuple[Labeler, CrossValidated]:
    """Fit a labeler to people's labels of the episodes in a pool."""
    return Labeler.fit(pool, mean_by_author(store.labels()), seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """Counts of suggested labels."""

    good: int = 0
    bad: int = 0
    unsure: int = 0
    """Below the minimum confidence; nothing was written for them."""


def suggest_labels(
    store: SqliteTraceStore,
    labeler: Labeler,
    *,
    where: str,
    minimum_confidence: float,
    embedder: Embedder | None = None,
    on_trace: Tick = lambda: None,
) -> Suggested:
    """Write the labeler's suggestions for every matching episode that no person has labelled."""
    labelled = set(mean_by_author(store.labels()))
    newest = {one.episode_id: one for one in store.labels(suggestions=True)}
    good = bad = unsure = 0
    episodes = (
        one
        for one in store.query(where)
        if one.trace.id not in labelled and not one.trace.is_masked
    )
    while chunk := list(islice(episodes, CHUNK)):
        traces = [episode.trace for episode in chunk]
        predicted = labeler.predict_traces(traces, embedder)
        sure = [
            _suggested(trace.id, one)
            for trace, one in zip(traces, predicted, strict=True)
            if one.confidence >= minimum_confidence
        ]
        store.add_labels(label for label in sure if not _says_the_same(newest, label))
        good += sum(label.is_good for label in sure)
        bad += sum(not label.is_good for label in sure)
        unsure += len(chunk) - len(sure)
        for _ in chunk:
            on_trace()
    return Suggested(good=good, bad=bad, unsure=unsure)


def _says_the_same(newest: Mapping[str, Label], label: Label) -> bool:
    known = newest.get(label.episode_id)
    return known is not None and (known.value, known.confidence) == (label.value, label.confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelReport:
    """Counts of labels, and the agreement of people and labeler."""

    good: int
    bad: int
    authors: dict[str, int]
    suggestions: int
    """Episodes with a suggested label."""
    unlabelled: int
    people: dict[str, Agreement]
    """Of each two people who labelled the same episodes."""
    suggested: Agreement
    """Of suggestions with later labels by people."""
    labeler: Agreement | None
    """Of out-of-fold predictions with the labels; None with too few labels."""
    calibration: Calibration | None
    """Of the same predictions."""

    def as_json(self) -> dict[str, Any]:
        """The report as one JSON object."""
        return asdict(self)


def report_labels(store: SqliteTraceStore, pool: TracePool, seed: int) -> LabelReport:
    """Count and compare the labels, and cross-validate a labeler on them."""
    people = mean_by_author(store.labels())
    newest = _newest(store.labels())
    known = {name: people[name] for name in pool.ids if name in people}
    agreement, calibration = None, None
    if can_learn(known):
        _, checked = Labeler.fit(pool, known, seed=seed)
        truth = np.array([value >= 0.5 for value in known.values()])
        agreement = cohens_kappa((checked.probabilities >= 0.5).tolist(), truth.tolist())
        calibration = measure_calibration(checked.probabilities, truth.astype(np.float64), seed)
    authors: dict[str, int] = defaultdict(int)
    for _, author in newest:
        authors[author] += 1
    good = sum(value >= 0.5 for value in people.values())
    return LabelReport(
        good=good,
        bad=len(people) - good,
        authors=dict(authors),
        suggestions=len({one.episode_id for one in store.labels(suggestions=True)}),
        unlabelled=store.count_where(not_evaluated("label = none")),
        people=_between_people(newest),
        suggested=_suggestions_kept(store),
        labeler=agreement,
        calibration=calibration,
    )


def _between_people(newest: Mapping[tuple[str, str], Label]) -> dict[str, Agreement]:
    by_author: dict[str, dict[str, bool]] = defaultdict(dict)
    for (episode_id, author), label in newest.items():
        by_author[author][episode_id] = label.is_good
    found = {}
    for one, other in combinations(sorted(by_author), 2):
        shared = sorted(by_author[one].keys() & by_author[other].keys())
        if shared:
            first, second = ([by_author[who][name] for name in shared] for who in (one, other))
            found[f"{one} and {other}"] = cohens_kappa(first, second)
    return found


def _suggestions_kept(store: SqliteTraceStore) -> Agreement:
    """Agreement of a person's first label with the last suggestion before it."""
    suggested: dict[str, bool] = {}
    first: dict[str, bool] = {}
    for label in store.labels():
        if label.episode_id in first:
            continue
        kept = suggested if label.is_suggestion else first
        kept[label.episode_id] = label.is_good
    shared = [name for name in first if name in suggested]
    return cohens_kappa([suggested[name] for name in shared], [first[name] for name in shared])
