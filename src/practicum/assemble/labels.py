"""Labels of stored traces: what people are shown, what they said, and what is learned from it."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.core.errors import UserError
from practicum.core.label import Label
from practicum.core.sample import Episode
from practicum.rewards.learned import (
    Agreement,
    Calibration,
    CrossValidated,
    Labeler,
    LearnedReward,
    Order,
    Prediction,
    ReviewQueue,
    RewardForm,
    TracePool,
    can_learn,
    cohens_kappa,
    load_labeler,
    measure_calibration,
    save_labeler,
)
from practicum.store import SqliteTraceStore

if TYPE_CHECKING:
    from practicum.policy.embedding import ModelEmbedder

__all__ = [
    "LABELER",
    "Agreement",
    "LabelDesk",
    "LabelReport",
    "Prediction",
    "Suggested",
    "TracePool",
    "build_learned_reward",
    "load_embedder",
    "mean_by_author",
    "read_pool",
    "report_labels",
    "save_labeler",
    "suggest_labels",
    "teach",
]

LABELER = "labeler"
"""Author of suggested labels."""

CHUNK = 200
"""Traces that suggestions are made for at once."""

Tick = Callable[[], None]


def load_embedder(model: str) -> "ModelEmbedder":
    """The local model as an embedder, on the device and in the precision that suit the machine."""
    from practicum.hardware import choose_device, choose_dtype, detect_machine
    from practicum.policy.embedding import ModelEmbedder
    from practicum.policy.models import load_model

    device = choose_device(detect_machine(), "auto")
    return ModelEmbedder(load_model(model, dtype=choose_dtype(device, "auto"), device=device))


def build_learned_reward(
    folder: Path, *, form: RewardForm = "probability", minimum_confidence: float = 0.5
) -> LearnedReward:
    """The reward of a saved labeler; the model it reads traces with is loaded if it has one."""
    labeler = load_labeler(folder)
    return LearnedReward(
        labeler=labeler,
        form=form,
        minimum_confidence=minimum_confidence,
        embedder=load_embedder(labeler.embedder_model) if labeler.embedder else None,
    )


def mean_by_author(labels: Iterator[Label]) -> dict[str, float]:
    """What people say of each episode: the mean over authors of the last that each said.

    Suggestions are left out: the labeler never learns from itself.
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
    embedder: "ModelEmbedder | None",
    on_trace: Tick = lambda: None,
) -> TracePool:
    """All episodes with a person's label, and others that match, `size` of them by chance.

    Episodes that say nothing about the policy, because something else broke, are left out.
    """
    labelled = list(dict.fromkeys(one.episode_id for one in store.labels(suggestions=False)))
    others = _drawn(_ids(store, where), size, seed, set(labelled))
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
    """A draw in one pass, each name as likely as any other, in the order they came in."""
    draw = np.random.default_rng(seed)
    kept: dict[int, tuple[int, str]] = {}
    for count, name in enumerate(one for one in names if one not in known):
        place = count if count < size else int(draw.integers(count + 1))
        if place < size:
            kept[place] = (count, name)
    return list(dict.fromkeys(name for _, name in sorted(kept.values())))


class LabelDesk:
    """One sitting of a person who labels: what is shown, and every answer kept at once.

    What the labeler thought before an answer is kept beside it, so that the two can be compared.
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
        """What each answer of this sitting wrote; nothing for an episode passed over."""
        self._asked: list[str] = []

    def next(self) -> Episode | None:
        """The episode to show; None when none is left."""
        while (name := self._queue.next()) is not None:
            episode = self._store.get(name)
            if episode is not None:
                return episode
            self._queue.skip(name)  # gone since the pool was read
        return None

    def answer(self, episode_id: str, value: float, note: str = "") -> Prediction | None:
        """Keep a person's word on what they were shown; returns what the labeler thought of it."""
        said = self._queue.suggestion(episode_id)
        self.record(episode_id, value, note, said)
        return said

    def record(
        self, episode_id: str, value: float, note: str = "", said: Prediction | None = None
    ) -> None:
        """Keep a person's word on any episode of the store, and what the labeler had said."""
        given = Label(
            episode_id=episode_id,
            value=value,
            author=self._author,
            created_at=time.time(),
            note=note,
        )
        labels = (given,) if said is None else (_suggested(episode_id, said), given)
        self._store.add_labels(labels)
        if self._queue.knows(episode_id):
            self._queue.answer(episode_id, value)
        self._remember(episode_id, labels)

    def skip(self, episode_id: str) -> None:
        """Pass over an episode in this sitting."""
        self._queue.skip(episode_id)
        self._remember(episode_id, ())

    def undo(self) -> str | None:
        """Take back the last answer of this sitting; its episode comes next again."""
        if not self._asked:
            return None
        name = self._asked.pop()
        for label in self._given.pop():
            self._store.remove_label(label)
        if self._queue.knows(name):
            self._queue.take_back(name)
            before = mean_by_author(self._store.labels(name)).get(name)
            if before is not None:  # the label of an earlier sitting, or of someone else
                self._queue.answer(name, before)
        return name

    def left(self) -> int:
        """Episodes of the pool that no person has labelled or passed over."""
        return self._queue.left()

    @property
    def counts(self) -> dict[str, int]:
        """What this sitting has come to."""
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


def _suggested(episode_id: str, said: Prediction) -> Label:
    return Label(
        episode_id=episode_id,
        value=float(said.is_good),
        author=LABELER,
        created_at=time.time(),
        is_suggestion=True,
        confidence=said.confidence,
    )


def teach(store: SqliteTraceStore, pool: TracePool, seed: int) -> tuple[Labeler, CrossValidated]:
    """A labeler of all that people said of the episodes in a pool."""
    return Labeler.fit(pool, mean_by_author(store.labels()), seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """What came of suggesting labels."""

    good: int = 0
    bad: int = 0
    unsure: int = 0
    """Episodes of which the labeler was less sure than asked for; nothing was written for them."""


def suggest_labels(
    store: SqliteTraceStore,
    labeler: Labeler,
    *,
    where: str,
    minimum_confidence: float,
    embedder: "ModelEmbedder | None" = None,
    on_trace: Tick = lambda: None,
) -> Suggested:
    """Write suggestions for every matching episode that no person has labelled, marked as such."""
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
        said = labeler.predict_traces(traces, embedder)
        sure = [
            _suggested(trace.id, one)
            for trace, one in zip(traces, said, strict=True)
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
    """How many labels there are, and how far they and the labeler agree."""

    good: int
    bad: int
    authors: dict[str, int]
    suggestions: int
    """Episodes with a suggested label."""
    unlabelled: int
    people: dict[str, Agreement]
    """For each two who labelled the same episodes."""
    suggested: Agreement
    """Suggestions, with what a person said later of the same episodes."""
    labeler: Agreement | None
    """The labeler, with labels it had not seen; None while there are too few of them."""
    calibration: Calibration | None
    """Of the same probabilities."""

    def as_json(self) -> dict[str, Any]:
        """The report as one JSON object."""
        return asdict(self)


def report_labels(store: SqliteTraceStore, pool: TracePool, seed: int) -> LabelReport:
    """Count the labels, compare them, and check a labeler taught with them."""
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
        unlabelled=store.count() - len(people),
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
    """The last suggestion before a person's first word, and that word."""
    suggested: dict[str, bool] = {}
    first: dict[str, bool] = {}
    for label in store.labels():
        if label.episode_id in first:
            continue
        kept = suggested if label.is_suggestion else first
        kept[label.episode_id] = label.is_good
    shared = [name for name in first if name in suggested]
    return cohens_kappa([suggested[name] for name in shared], [first[name] for name in shared])
