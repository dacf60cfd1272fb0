"""How old the weights are that sampled what is learned from."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from practicum.batching import walks
from practicum.core.sample import Batch, Bools, Group
from practicum.core.task import JSON
from practicum.core.trace import SampledSpan, Trace

__all__ = ["RecentWeights", "mark_present", "staleness_metrics"]


class RecentWeights:
    """The present weights and those before each of the last few updates, by fingerprint."""

    def __init__(self, staleness: int, present: str) -> None:
        self._known = deque([present], maxlen=staleness + 1)

    @property
    def present(self) -> str:
        """Those that an update would start from."""
        return self._known[-1]

    @property
    def accepted(self) -> frozenset[str]:
        """All whose tokens may be learned from now."""
        return frozenset(self._known)

    def updated(self, fingerprint: str) -> None:
        """An update is done; the oldest weights drop out."""
        self._known.append(fingerprint)

    def age(self, fingerprint: str) -> int:
        """Updates since these weights were the present ones; unnamed ones count as present."""
        newest_first = list(self._known)[::-1]
        return newest_first.index(fingerprint) if fingerprint else 0


def mark_present(batches: Sequence[Batch], groups: Iterable[Group], present: str) -> list[Batch]:
    """The batches, knowing which of their terms the present weights have sampled."""
    traces = [episode.trace for group in groups for episode in group.usable]
    by_sample = {
        f"{trace.id}#{number}" if number else trace.id: _present(trace, fresh, present)
        for trace in traces
        for number, (_, fresh) in enumerate(walks(trace))
    }
    return [_marked(batch, [by_sample[key] for key in batch.sample_ids]) for batch in batches]


def _present(trace: Trace, turns: Iterable[int], present: str) -> Bools:
    """For each loss token of some turns, in their order, whether the present weights drew it."""
    spans = [span for i in turns if (span := trace.nodes[i].sampled) is not None]
    return np.repeat(
        [span.fingerprint in ("", present) for span in spans], [sum(s.loss_mask) for s in spans]
    )


def _marked(batch: Batch, by_sample: Sequence[Bools]) -> Batch:
    checked = np.zeros(batch.term_decision.size, np.bool_)
    for number, of_sample in enumerate(by_sample):
        checked[batch.term_sample == number] = of_sample
    return replace(batch, term_checked=checked)


def staleness_metrics(groups: Iterable[Group], weights: RecentWeights) -> dict[str, JSON]:
    """How many updates the tokens that are learned from lie back, and the share that does not.

    A turn is as old as its first token.
    """
    ages = np.zeros(0, np.int64)
    tokens = np.zeros(0, np.int64)
    for span in _spans(groups):
        ages = np.append(ages, weights.age(span.fingerprint))
        tokens = np.append(tokens, sum(span.loss_mask))
    ages, tokens = ages[tokens > 0], tokens[tokens > 0]
    if not tokens.size:
        return {}
    return {
        "staleness_mean": float((ages * tokens).sum() / tokens.sum()),
        "staleness_max": int(ages.max()),
        "present_share": float(tokens[ages == 0].sum() / tokens.sum()),
    }


def _spans(groups: Iterable[Group]) -> Iterator[SampledSpan]:
    for group in groups:
        for episode in group.usable:
            for turn in episode.trace.turns:
                span = episode.trace.nodes[turn].sampled
                assert span is not None
                yield span
