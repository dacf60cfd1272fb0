"""Importer of OpenPipe ART trajectories as JSON lines, single or in groups.

    {"messages_and_choices": [...], "reward": 1.0, "metrics": {}, "metadata": {}, "logs": []}
    {"trajectories": [{...}, {...}]}

A choice is a turn of ART's model; a plain assistant message was part of its input.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from practicum.core.json_values import as_json
from practicum.core.task import JSON
from practicum.core.trace import Message, Node, RecordedTree
from practicum.traces.importers.json_files import parts_of_rows
from practicum.traces.importers.lenient_json import as_list, as_map, as_number, as_seconds, as_text
from practicum.traces.importers.openai_messages import read_message, read_tools
from practicum.traces.importers.records import Draft, Imported, Malformed, Part

SOURCE = "art"
SUCCESS_METRICS = ("success", "solved", "correct", "task_completed")
TASK_KEYS = ("task_id", "scenario_id", "scenario", "task")


def read(path: Path, skip: int) -> Iterator[Part]:
    """A trajectory or a group per line or item."""
    return parts_of_rows(path, skip, convert)


def convert(value: Any) -> tuple[Imported, ...]:
    """The trajectories of a line."""
    row = as_map(value, "the line")
    if "trajectories" in row:
        group = as_list(row["trajectories"], "trajectories")
        shared = as_map(row.get("metadata"), "metadata")
        return tuple(_trajectory(as_map(one, "a trajectory"), shared) for one in group)
    return (_trajectory(row, {}),)


def _trajectory(row: dict[str, Any], shared: dict[str, Any]) -> Imported:
    if "messages_and_choices" not in row:
        raise Malformed('it has no "messages_and_choices"')
    metadata = {**shared, **as_map(row.get("metadata"), "metadata")}
    metrics = as_map(row.get("metrics"), "metrics")
    reward = as_number(row.get("reward"), "reward")
    more = as_list(row.get("additional_histories"), "additional_histories")
    histories = [row, *(as_map(one, "a history") for one in more)]
    messages, given = _messages(row["messages_and_choices"])
    evidence = {name: as_json(row[name]) for name in ("metrics", "logs") if row.get(name)}
    if metadata:
        evidence["metadata"] = as_json(metadata)
    draft = Draft(
        source=SOURCE,
        messages=messages,
        given=given,
        nodes=_branches(histories) if more else (),
        tools=read_tools(row.get("tools")),
        task_id=next((as_text(metadata[k]) for k in TASK_KEYS if k in metadata), ""),
        env=as_text(metadata.get("env")),
        model=as_text(metadata.get("model")),
        started_at=as_seconds(row.get("start_time")),
        success=_success(metrics),
        rewards={} if reward is None else {"reward": reward},
        evidence=evidence,
    )
    return draft.finish()


def _messages(entries: Any) -> tuple[list[Message], set[int]]:
    """All messages, and the indices of those that are not choices."""
    messages: list[Message] = []
    given: set[int] = set()
    for number, entry in enumerate(as_list(entries, "messages_and_choices"), 1):
        one = as_map(entry, f"entry {number}")
        is_choice = "message" in one and "role" not in one
        messages.append(read_message(one["message"] if is_choice else one, number))
        if not is_choice:
            given.add(number - 1)
    return messages, given


def _branches(histories: list[dict[str, Any]]) -> tuple[Node, ...]:
    """Several histories of one trajectory as one tree."""
    tree = RecordedTree()
    for history in histories:
        messages, given = _messages(history.get("messages_and_choices"))
        for index, message in enumerate(messages):
            if message.role == "assistant" and index not in given:
                tree.turn(messages[:index], message)
        tree.given(messages)
    return tree.nodes


def _success(metrics: dict[str, JSON]) -> bool | None:
    for name in SUCCESS_METRICS:
        if metrics.get(name) in (True, False):
            return bool(metrics[name])
    return None
