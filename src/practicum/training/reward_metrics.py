"""What a step's rewards were made of, and the signs by which a gamed reward is known."""

from collections.abc import Sequence
from statistics import fmean

from practicum.core.repetition import repeated_share, words_of
from practicum.core.sample import Episode, Group
from practicum.core.task import JSON
from practicum.core.trace import Trace

__all__ = ["reward_metrics"]


def reward_metrics(groups: Sequence[Group]) -> dict[str, JSON]:
    """Means over the usable episodes of a step.

    `reward_NAME` is a component before its weight. `decides_NAME` is the component's share of the
    differences within groups, which are all that is learned from: with the weight w and c less its
    group's mean, the sum of |w c| over the sum of that for all components. `response_tokens` are
    the tokens sampled for an episode, `repetition` the share of what was written that is said
    again.
    """
    usable = [episode for group in groups for episode in group.usable]
    if not usable:
        return {}
    labels = sorted({label for episode in usable for label in episode.score.components})
    metrics: dict[str, JSON] = {
        f"reward_{label}": fmean(
            c for e in usable if (c := e.score.components.get(label)) is not None
        )
        for label in labels
    }
    differences = {label: sum(_difference(g.usable, label) for g in groups) for label in labels}
    total = sum(differences.values())
    if len(labels) > 1 and total > 0.0:
        metrics |= {f"decides_{label}": differences[label] / total for label in labels}
    metrics["response_tokens"] = fmean(e.trace.sampled_tokens for e in usable)
    metrics["repetition"] = fmean(repeated_share(_words(e.trace)) for e in usable)
    return metrics


def _difference(episodes: Sequence[Episode], label: str) -> float:
    values = [
        episode.score.weights.get(label, 1.0) * component
        for episode in episodes
        if (component := episode.score.components.get(label)) is not None
    ]
    mean = fmean(values) if values else 0.0
    return sum(abs(value - mean) for value in values)


def _words(trace: Trace) -> list[str]:
    said = (m.content for t in trace.turns for m in trace.nodes[t].messages)
    return words_of("\n".join(said))
