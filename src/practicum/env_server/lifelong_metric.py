"""Figures over finished episodes, in the shape a LifelongAgentBench client stores."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from practicum.env_server.lifelong_records import EvaluationOutcome, MetricRow, SampleStatus

__all__ = ["calculate_metric"]

Figures = dict[str, dict[str, float]]

NO_RATE = -1.0
"""The rate of a skill that no episode has: that project's own sign for it."""


def calculate_metric(
    rows: Sequence[MetricRow],
    skills_of: Callable[[MetricRow], Sequence[str]],
    level_of: Callable[[MetricRow], int],
    all_skills: Iterable[str],
) -> dict[str, Figures]:
    """Success by skill, by difficulty and overall, and how often each ending came.

    A sample counts for every skill it has, and every skill of it counts as effective.
    """
    by_skill = _success(rows, skills_of, sorted(set(all_skills)))
    effective = {f"effective_{name}": dict(figures) for name, figures in by_skill.items()}
    levels = sorted({level_of(row) for row in rows})
    by_level = _success(rows, lambda row: [str(level_of(row))], [str(level) for level in levels])
    return {
        "skill": {**by_skill, **effective},
        "difficulty_level": by_level,
        "overall": _overall(rows),
    }


def _success(
    rows: Sequence[MetricRow],
    labels_of: Callable[[MetricRow], Sequence[str]],
    labels: Sequence[str],
) -> Figures:
    count: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for row in rows:
        found = labels_of(row)
        count.update(found)
        if row.evaluation_record.outcome == EvaluationOutcome.CORRECT:
            correct.update(found)
    return {
        "count_dict": {label: float(count[label]) for label in labels},
        "correct_count_dict": {label: float(correct[label]) for label in labels},
        "correct_rate_dict": {
            label: correct[label] / count[label] if count[label] else NO_RATE for label in labels
        },
    }


def _overall(rows: Sequence[MetricRow]) -> Figures:
    figures: Figures = {"basic": {"session_count": float(len(rows))}}
    if rows:
        outcomes = Counter(str(row.evaluation_record.outcome) for row in rows)
        statuses = Counter(str(row.sample_status) for row in rows)
        figures["evaluation_outcome"] = _shares(outcomes, [str(o) for o in EvaluationOutcome])
        figures["sample_status"] = _shares(statuses, [str(s) for s in SampleStatus])
    return figures


def _shares(counts: Mapping[str, int], labels: Sequence[str]) -> dict[str, float]:
    total = sum(counts.values())
    return {label: counts.get(label, 0) / total for label in labels}
