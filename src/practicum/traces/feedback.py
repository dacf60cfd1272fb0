"""Recorded traffic and what people said of it, copied out of the store that a server writes to.

The copy is what a run learns from: what comes in meanwhile does not change it, secrets are taken
out once more, and it holds only conversations that the model to be trained has had itself.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.core.task import Task
from practicum.store.trace_store import SqliteTraceStore, TaskKey
from practicum.store.where import not_evaluated
from practicum.traces.datasets.splits import LeftOut
from practicum.traces.redaction import Redactor

PURPOSE = "traffic"
"""Of episodes that a server recorded."""
CONVERSATIONS = "traffic"
"""The environment of conversations that have none."""
SAID = "label != none"
"""Which traces are learned from: those that people have said something of."""
BATCH = 200

FOREIGN = "another model than the served one sampled it"
TESTED = "its task is one that the models are compared on"

FeedbackKind = Literal["kto", "dpo"]


@dataclass(slots=True, kw_only=True)
class Traffic:
    """What was gathered."""

    store: Path
    """The copy."""
    good: int = 0
    bad: int = 0
    """Thumbs and scores, corrections not counted."""
    corrections: int = 0
    redacted: Counter[str] = field(default_factory=Counter)
    """Secrets taken out, by kind."""
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def labels(self) -> int:
        """Conversations that people have said something of."""
        return self.good + self.bad + self.corrections

    def choose_kind(self, asked: Literal["auto", "kto", "dpo"]) -> FeedbackKind:
        """What to learn by: `dpo` where most are corrections, unless asked; checked either way."""
        kind: FeedbackKind = "dpo" if self.corrections >= max(1, self.good + self.bad) else "kto"
        kind = kind if asked == "auto" else asked
        if kind == "dpo" and not self.corrections:
            raise UserError(
                f"{self.store.name} has {self.labels} thumbs and scores and no corrections, and "
                "dpo learns from corrections; take --kind kto"
            )
        if kind == "kto" and not self.corrections and not (self.good and self.bad):
            called = "good" if self.good else "bad"
            raise UserError(
                f"all {self.labels} labels of the traffic say {called}, and kto needs some of "
                "each; gather feedback of the other kind, or corrections"
            )
        return kind


def gather_traffic(
    source: Path,
    copy: Path,
    *,
    base: str,
    fingerprint: str,
    where: str = SAID,
    tested: Collection[TaskKey] = (),
) -> Traffic:
    """Copy the conversations that can be learned from, with their labels and tasks.

    Args:
        source: The store that traffic was recorded in.
        copy: A new store.
        base: Name of the model that is served, without its adapter.
        fingerprint: Of the served version; traces of another base model are left out. Empty where
            it is not known: then the name decides.
        where: Which traces, in the words of `practicum traces list --where`.
        tested: Tasks that the models are to be compared on, and so must not be learned from.
    """
    found, redactor = Traffic(store=copy), Redactor()
    with SqliteTraceStore(source, read_only=True) as old:
        if not old.count_where(not_evaluated(SAID)):
            raise UserError(
                f"{source} has {old.count()} traces and no labels; send feedback to the server "
                "(POST /feedback), or label them with: practicum traces label"
            )
        said: dict[str, list[Label]] = {}
        for label in old.labels(suggestions=False):
            said.setdefault(label.episode_id, []).append(label)
        with SqliteTraceStore(copy) as new:
            batch: list[Episode] = []
            for episode in old.query(not_evaluated(where)):
                if not _is_own(episode, base, fingerprint):
                    found.left_out.add(FOREIGN, episode.trace.id)
                    continue
                if (episode.trace.env, episode.trace.task_id) in tested:
                    found.left_out.add(TESTED, episode.trace.id)
                    continue
                _count(found, said.get(episode.trace.id, []))
                named = replace(episode, trace=replace(episode.trace, model=base))
                batch.append(redactor.episode(named))
                if len(batch) == BATCH:
                    _keep(old, new, batch, said, redactor)
                    batch = []
            _keep(old, new, batch, said, redactor)
    found.redacted = redactor.counts
    if not found.labels:
        raise UserError(_why_nothing(source, where, found, fingerprint))
    return found


def traffic_environments(source: Path, where: str = SAID) -> list[str]:
    """The environments of a store's traffic, the most frequent first."""
    with SqliteTraceStore(source, read_only=True) as store:
        counts = store.counts_by("env", not_evaluated(where))
    return [str(name) for name in counts if name and name != CONVERSATIONS]


def _is_own(episode: Episode, base: str, fingerprint: str) -> bool:
    """Whether the served base model sampled it, with whichever adapter."""
    sampled = {one.partition("+")[0] for one in episode.trace.fingerprints}
    if fingerprint and sampled:
        return sampled == {fingerprint.partition("+")[0]}
    return episode.trace.model.partition(" + ")[0] == base


def _count(found: Traffic, labels: list[Label]) -> None:
    if not labels:
        return
    if any(label.correction for label in labels):
        found.corrections += 1
    elif labels[-1].is_good:
        found.good += 1
    else:
        found.bad += 1


def _keep(
    old: SqliteTraceStore,
    new: SqliteTraceStore,
    episodes: list[Episode],
    said: dict[str, list[Label]],
    redactor: Redactor,
) -> None:
    if not episodes:
        return
    names = {(episode.trace.env, episode.trace.task_id) for episode in episodes}
    known = (old.task(*name) for name in names)
    tasks: list[Task] = [redactor.task(task) for task in known if task is not None]
    new.add_many(episodes, attempt=1, step=0, purpose=PURPOSE, tasks=tasks)
    labels = (label for episode in episodes for label in said.get(episode.trace.id, []))
    new.add_labels(redactor.label(label) for label in labels)


def _why_nothing(source: Path, where: str, found: Traffic, fingerprint: str) -> str:
    foreign = found.left_out.counts.get(FOREIGN, 0)
    if foreign:
        return (
            f"all {foreign} labelled traces of {source} were sampled by another model than the "
            f"served one ({fingerprint.partition('+')[0] or 'another name'}); name the model that "
            "they are of: --model served/NAME"
        )
    return f"no trace of {source} matches {where!r} and has a label; take another --where"
