"""Importer of conversations in OpenAI's chat and fine-tuning format, JSON lines.

    {"messages": [...], "tools": [...], "reward": 1.0, "label": true, "metadata": {...}}

Only `messages` is required. An assistant message with `"weight": 0` was not sampled by the model.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from practicum.core.json_values import as_json
from practicum.core.task import JSON
from practicum.traces.importers.json_files import parts_of_rows
from practicum.traces.importers.lenient_json import (
    as_list,
    as_map,
    as_number,
    as_seconds,
    as_text,
    as_truth,
)
from practicum.traces.importers.openai_messages import read_message, read_tools
from practicum.traces.importers.records import Draft, Imported, Malformed, Part, Verdict

SOURCE = "openai-chat"
KNOWN = frozenset(
    {
        "messages",
        "tools",
        "functions",
        "parallel_tool_calls",
        "reward",
        "score",
        "label",
        "success",
        "id",
        "task_id",
        "task",
        "env",
        "model",
        "created",
        "created_at",
        "duration_s",
        "metadata",
    }
)
"""Keys with a meaning; all others are stored as evidence."""


def read(path: Path, skip: int) -> Iterator[Part]:
    """One conversation per line or item."""
    return parts_of_rows(path, skip, convert)


def convert(value: Any) -> tuple[Imported, ...]:
    """One conversation."""
    row = as_map(value, "the line")
    if "messages" not in row:
        raise Malformed('it has no "messages"')
    given = as_list(row["messages"], "messages")
    metadata = as_map(row.get("metadata"), "metadata")
    facts = {**metadata, **{k: v for k, v in row.items() if v is not None}}
    reward = as_number(facts.get("reward", facts.get("score")), "reward")
    draft = Draft(
        source=SOURCE,
        messages=[read_message(message, n) for n, message in enumerate(given, 1)],
        given={i for i, m in enumerate(given) if m.get("weight") == 0},
        tools=read_tools(row.get("tools") or row.get("functions")),
        id=as_text(facts.get("id")),
        task_id=as_text(facts.get("task_id", facts.get("task"))),
        env=as_text(facts.get("env")),
        model=as_text(facts.get("model")),
        started_at=as_seconds(facts.get("created_at", facts.get("created"))),
        duration_s=as_number(facts.get("duration_s"), "duration_s") or 0.0,
        success=as_truth(facts.get("success"), "success"),
        rewards={} if reward is None else {"reward": reward},
        verdicts=_verdicts(row.get("label", metadata.get("label"))),
        evidence=_evidence(row, metadata),
    )
    return (draft.finish(),)


def _verdicts(label: Any) -> tuple[Verdict, ...]:
    if label is None:
        return ()
    if isinstance(label, float) and 0 <= label <= 1:
        return (Verdict(value=label, author=SOURCE),)
    return (Verdict(value=float(as_truth(label, "label") or 0), author=SOURCE),)


def _evidence(row: dict[str, Any], metadata: dict[str, Any]) -> dict[str, JSON]:
    """The other keys of a line, which rewards may read."""
    kept = {name: as_json(value) for name, value in row.items() if name not in KNOWN}
    return {**kept, **({"metadata": as_json(metadata)} if metadata else {})}
