"""Recorded traffic and what people said of it, copied out of the store that a server writes to.

The copy is what a run learns from: what comes in meanwhile does not change it, secrets are taken
out once more, and it holds only conversations that the model to be trained has had itself. No key
has more than its share of it, see `most_of_a_key`, and none that the others contradict has any, see
`contradicted_keys`.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

from practicum.core.errors import UserError
from practicum.core.model_names import model_name
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.core.task import Task
from practicum.store.trace_store import SqliteTraceStore, TaskKey
from practicum.store.where import not_evaluated
from practicum.traces.contradicted_keys import MOST_LOOKED_AT, contradicted_keys
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
CONTRADICTED = "the key that labelled it says the opposite of what the others say of such answers"
OVER_SHARE = "the key that labelled it has more labels than the share of one key"

LEAST_BOUND, GREATEST_BOUND = Fraction(1, 10), Fraction(1, 2)
"""Bounds of the share that the labels of one key may be of all that are learned from."""

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
    authors: dict[str, str] = field(default_factory=dict)
    """Who labelled each conversation, a key (`feedback/NAME`) or a person; empty where nobody."""
    redacted: Counter[str] = field(default_factory=Counter)
    """Secrets taken out, by kind."""
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def labels(self) -> int:
        """Conversations that people have said something of."""
        return self.good + self.bad + self.corrections

    @property
    def keys(self) -> int:
        """How many keys and people stand behind the labels."""
        return len(set(self.authors.values()) - {""})

    @property
    def counted_keys(self) -> str:
        """As people say it."""
        return "1 key or person" if self.keys == 1 else f"{self.keys} keys or people"

    def choose_kind(self, asked: Literal["auto", "kto", "dpo"]) -> FeedbackKind:
        """What to learn by: `dpo` where most are corrections, unless asked; checked either way."""
        kind: FeedbackKind = "dpo" if self.corrections >= max(1, self.good + self.bad) else "kto"
        kind = kind if asked == "auto" else asked
        if kind == "dpo" and not self.corrections:
            raise UserError(
                f"the traffic has {self.labels} thumbs and scores and no corrections, and dpo "
                "learns from corrections; take --kind kto"
            )
        if kind == "kto" and not self.corrections and not (self.good and self.bad):
            called = "good" if self.good else "bad"
            raise UserError(
                f"all {self.labels} labels of the traffic say {called}, and kto needs some of "
                "each; gather feedback of the other kind, or corrections"
            )
        return kind


def most_of_a_key(labelled: Collection[int]) -> int:
    """The most conversations that one key can have labelled and that count, of how many each has.

    One key's are at most a tenth of all that count; where fewer than twenty keys have said
    something, two equal shares; and never more than half, but where there is one key only.

    >>> most_of_a_key([50] * 19 + [1000])
    105
    >>> most_of_a_key([3, 900]), most_of_a_key([900])
    (3, 900)
    """
    count, most = len(labelled), max(labelled, default=0)
    if count < 2:
        return most
    bound = min(GREATEST_BOUND, max(LEAST_BOUND, Fraction(2, count)))
    # What all may have together grows ever more slowly with what one may have: those that are
    # within the bound are all numbers up to one.
    within, beyond = 1, most + 1
    while beyond - within > 1:
        tried = (within + beyond) // 2
        if tried <= bound * sum(min(one, tried) for one in labelled):
            within = tried
        else:
            beyond = tried
    return within


def within_share(authors: Mapping[str, str]) -> set[str]:
    """The conversations that count, of those that each key has labelled: drawn by their ids."""
    by_author: dict[str, list[str]] = {}
    for name, author in authors.items():
        by_author.setdefault(author, []).append(name)
    most = most_of_a_key([len(names) for names in by_author.values()])
    return {name for names in by_author.values() for name in sorted(names, key=_draw)[:most]}


def _draw(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


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
        said = _said(old)

        def why_not(episode: Episode) -> str:
            if not _is_own(episode, base, fingerprint):
                return FOREIGN
            return TESTED if (episode.trace.env, episode.trace.task_id) in tested else ""

        found.authors = _choose(old, where, said, why_not, found.left_out)
        with SqliteTraceStore(copy) as new:
            batch: list[Episode] = []
            for episode in old.query(not_evaluated(where)):
                if episode.trace.id not in found.authors:
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


def _said(store: SqliteTraceStore) -> dict[str, list[Label]]:
    """What whoever spoke last of each conversation has said of it, oldest first."""
    said: dict[str, list[Label]] = {}
    for label in store.labels(suggestions=False):
        said.setdefault(label.episode_id, []).append(label)
    return {
        name: [one for one in labels if one.author == labels[-1].author]
        for name, labels in said.items()
    }


def _choose(
    store: SqliteTraceStore,
    where: str,
    said: Mapping[str, list[Label]],
    why_not: Callable[[Episode], str],
    left_out: LeftOut,
) -> dict[str, str]:
    """The conversations to learn from, and who labelled each; empty where nobody has."""
    found: dict[str, str] = {}
    for episode in store.query(not_evaluated(where)):
        name = episode.trace.id
        if reason := why_not(episode):
            left_out.add(reason, name)
        else:
            found[name] = said[name][-1].author if name in said else ""
    labelled = {name: author for name, author in found.items() if author}
    lying = _contradicted(store, labelled, said)
    denied = {name for name, author in labelled.items() if author in lying}
    labelled = {name: author for name, author in labelled.items() if name not in denied}
    beyond = labelled.keys() - within_share(labelled)
    for reason, names in ((CONTRADICTED, denied), (OVER_SHARE, beyond)):
        for name in sorted(names):
            left_out.add(reason, name)
    return {name: author for name, author in found.items() if name not in denied | beyond}


def _contradicted(
    store: SqliteTraceStore, authors: Mapping[str, str], said: Mapping[str, list[Label]]
) -> set[str]:
    """The keys whose thumbs and scores those of the others contradict."""
    thumbs = {
        name: author
        for name, author in authors.items()
        if not any(label.correction for label in said[name])
    }
    drawn = sorted(within_share(thumbs), key=_draw)[:MOST_LOOKED_AT]
    traces = [episode.trace for name in drawn if (episode := store.get(name)) is not None]
    names = [trace.id for trace in traces]
    return contradicted_keys(
        traces, [said[name][-1].is_good for name in names], [thumbs[name] for name in names]
    )


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
    return model_name(episode.trace.model.partition(" + ")[0]) == model_name(base)


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
