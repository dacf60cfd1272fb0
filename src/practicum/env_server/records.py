"""Core records as JSON values, and back: what goes over the wire."""

import json
from collections.abc import Mapping
from typing import Any

from practicum.core.interfaces import Observation
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Message, ToolSpec
from practicum.env_server.refusals import Refusal

__all__ = [
    "message_json",
    "observation_json",
    "outcome_json",
    "task_from",
    "task_json",
    "tool_json",
]


def message_json(message: Message) -> dict[str, JSON]:
    """A message: who says it, and what."""
    shown: dict[str, JSON] = {"role": message.role, "content": message.content}
    if message.tool_call_id is not None:
        shown["tool_call_id"] = message.tool_call_id
    return shown


def tool_json(tool: ToolSpec) -> dict[str, JSON]:
    """A tool the policy may call."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


def observation_json(seen: Observation) -> dict[str, JSON]:
    """What a turn was answered with."""
    return {"message": message_json(seen.message), "paid": seen.reward}


def outcome_json(outcome: Outcome) -> dict[str, JSON]:
    """The evidence of an episode; a pay that is no number must not travel as one."""
    found: dict[str, JSON] = {
        "success": outcome.success,
        "turn_rewards": list(outcome.turn_rewards),
        "evidence": dict(outcome.evidence),
    }
    try:
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Refusal.failed(f"the evidence cannot be sent: {error}") from None
    return found


def task_json(task: Task) -> dict[str, JSON]:
    """A task, whole: enough to open it again on a server that has never seen it."""
    return {
        "id": task.id,
        "split": task.split,
        "level": task.level,
        "instruction": task.instruction,
        "data": dict(task.data),
    }


def task_from(values: Any, env: str) -> Task:
    """The task that `task_json` wrote; it is opened here, so it is of this environment."""
    fields: Mapping[str, Any] = values if isinstance(values, Mapping) else {}
    wanted = {"id": str, "split": str, "level": int, "instruction": str, "data": dict}
    wrong = [name for name, kind in wanted.items() if not isinstance(fields.get(name), kind)]
    if wrong or fields["split"] not in ("train", "heldout"):
        raise Refusal.invalid(
            f"the task has no usable {', '.join(wrong) or 'split'}; "
            "send one as GET /tasks gives it, whole"
        )
    return Task(env=env, **{name: fields[name] for name in wanted})
