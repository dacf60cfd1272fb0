"""`Refusal`, the error of every protocol, and core records as JSON and back."""

import json
from collections.abc import Mapping
from typing import Any

from practicum.core.interfaces import Observation
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Message, ToolSpec


class Refusal(Exception):
    """A request that is not carried out; each protocol sends it in its own form."""

    def __init__(self, sentence: str, *, status: int, code: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status
        """HTTP status."""
        self.code = code
        """Error code of OpenEnv's WebSocket messages."""

    @classmethod
    def invalid(cls, sentence: str) -> "Refusal":
        """The request is malformed."""
        return cls(sentence, status=422, code="VALIDATION_ERROR")

    @classmethod
    def unknown(cls, sentence: str) -> "Refusal":
        """It names something that does not exist, or no longer."""
        return cls(sentence, status=404, code="SESSION_ERROR")

    @classmethod
    def conflict(cls, sentence: str) -> "Refusal":
        """It is not possible in the current state."""
        return cls(sentence, status=409, code="SESSION_ERROR")

    @classmethod
    def full(cls, most: int) -> "Refusal":
        """The server is at its limit of episodes."""
        return cls(
            f"{most} episodes are under way, which is the most this server holds; try again when "
            "one has ended, or serve with a larger --max-episodes",
            status=429,
            code="CAPACITY_REACHED",
        )

    @classmethod
    def failed(cls, sentence: str) -> "Refusal":
        """The environment failed: the episode says nothing about the policy."""
        return cls(sentence, status=502, code="EXECUTION_ERROR")


def message_json(message: Message) -> dict[str, JSON]:
    """A chat message."""
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
    """The observation of a turn; `paid` is its reward."""
    return {"message": message_json(seen.message), "paid": seen.reward}


def outcome_json(outcome: Outcome) -> dict[str, JSON]:
    """The outcome of an episode; a `Refusal` where it has NaN or anything else that is not JSON."""
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


def task_from(values: Any, env: str) -> Task:
    """The task that `Task.to_json` wrote; `env` is this server's environment."""
    fields: Mapping[str, Any] = values if isinstance(values, Mapping) else {}
    wanted = {"id": str, "split": str, "level": int, "instruction": str, "data": dict}
    wrong = [name for name, kind in wanted.items() if not isinstance(fields.get(name), kind)]
    if wrong or fields["split"] not in ("train", "heldout"):
        raise Refusal.invalid(
            f"the task has no usable {', '.join(wrong) or 'split'}; "
            "send one as GET /tasks gives it, whole"
        )
    return Task(env=env, **{name: fields[name] for name in wanted})
