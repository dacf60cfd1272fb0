"""Turns of an episode that writes a given text, and those of the reference."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from practicum.core.task import Task
from practicum_envs.writing.brief import Brief

HAND_IN = "hand_in"
IN_TWO = 0.5
"""How often the last sentence of a short text is added in a turn of its own."""


def reference_turns(task: Task) -> list[str]:
    """The turns that earn full marks."""
    data: Mapping[str, Any] = task.data
    if data["repairs"]:
        return [*(_repair(old, new) for old, new in data["repairs"]), HAND_IN]
    texts: Sequence[str] = data["reference"]
    if len(texts) == 1 and random.Random(task.id).random() < IN_TWO:
        first, _, last = texts[0].rstrip(".").rpartition(". ")
        if first:
            return [f"write_paragraph {first}.", f"add_details {last}.", HAND_IN]
    return turns_for(task, texts)


def turns_for(task: Task, texts: Sequence[str]) -> list[str]:
    """The turns that plan as the reference does, write some paragraphs, and hand them in."""
    brief = Brief.of(task.data["brief"])  # type: ignore[arg-type]
    if brief.draft:
        whole = " ".join(brief.draft)
        return [f"edit_content {whole} => {' '.join(texts)}", HAND_IN]
    return [*plan_turns(task), *(f"write_paragraph {text}" for text in texts), HAND_IN]


def plan_turns(task: Task) -> list[str]:
    """The turns before the first paragraph."""
    data: Mapping[str, Any] = task.data
    brief = Brief.of(data["brief"])
    labels = {fact.key: fact.label for fact in brief.facts}
    turns = []
    if brief.notes_hidden:
        turns.append(f"brainstorm_ideas {' | '.join(labels.values())}")
    if brief.needs_outline:
        points = [" and ".join(labels[key] for key in keys) for keys in data["points"]]
        turns.append(f"create_outline {' | '.join(points)}")
    return turns


def _repair(old: str, new: str) -> str:
    return f"edit_content {old} => {new}".rstrip() if old else f"add_details {new}"
