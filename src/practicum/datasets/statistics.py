"""A training set in figures."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from practicum.core.example import Example
from practicum.datasets.build import Built, Unit
from practicum.datasets.content import answer_text, asked_text, task_key

__all__ = ["describe", "describe_side"]


def describe(built: Built) -> dict[str, Any]:
    """Everything there is to know about a training set without reading it, as JSON values."""
    return {
        "kind": built.kind,
        "train": describe_side(built.train),
        "heldout": describe_side(built.heldout),
        "split": {
            "clusters_of_tasks": built.split.clusters,
            "largest_cluster": built.split.largest,
        },
        "left_out": {
            "total": built.left_out.total,
            "reasons": built.left_out.counts,
            "for_example": built.left_out.named,
        },
        "notes": _notes(built),
    }


def _notes(built: Built) -> list[str]:
    """What a reader of the figures should not overlook."""
    labels = {example.label for unit in built.train for example in unit}
    notes = []
    if built.kind == "kto" and len(labels) == 1:
        which, other = ("good", "bad") if True in labels else ("bad", "good")
        notes.append(f"all answers are {which}; KTO learns more where some are {other}")
    return notes


def describe_side(units: Sequence[Unit]) -> dict[str, Any]:
    """Rows, tasks, classes, lengths, turns of one side of the split."""
    examples = [example for unit in units for example in unit]
    if not examples:
        return {"rows": 0, "examples": 0, "tasks": 0}
    return {
        "rows": len(units),
        "examples": len(examples),
        "tasks": len({task_key(example) for example in examples}),
        "classes": _classes(examples),
        "turns": _spread([_turns(example) for example in examples]),
        "prompt_characters": _spread([len(asked_text(example)) for example in examples]),
        "answer_characters": _spread([len(answer_text(example)) for example in examples]),
        "weight": _spread([example.weight for example in examples]),
        "reward": _spread([e.reward for e in examples if e.reward is not None]),
        "with_own_tokens": sum(bool(example.token_ids) for example in examples),
    }


def _classes(examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """How many of each class, and what they weigh together."""
    counts: Counter[str] = Counter()
    weights: Counter[str] = Counter()
    for example in examples:
        name = _class_of(example)
        counts[name] += 1
        weights[name] += example.weight  # type: ignore[assignment]  # a Counter adds floats too
    return {n: {"examples": counts[n], "weight": round(weights[n], 6)} for n in sorted(counts)}


def _class_of(example: Example) -> str:
    if example.chosen is not None:
        return "chosen" if example.chosen else "rejected"
    return {True: "good", False: "bad", None: "unlabelled"}[example.label]


def _turns(example: Example) -> int:
    return sum(message.role == "assistant" for message in example.completion)


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    """The least, the middle, the 95th hundredth and the most; None of nothing."""
    if not values:
        return None
    low, middle, high, top = np.quantile(np.asarray(values, np.float64), [0, 0.5, 0.95, 1])
    figures = {"min": low, "median": middle, "p95": high, "max": top, "mean": np.mean(values)}
    return {name: round(float(value), 6) for name, value in figures.items()}
