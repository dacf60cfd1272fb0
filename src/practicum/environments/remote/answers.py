"""What a server said, checked before anything is made of it.

A reward that is no number, a message without text, an episode that is over and goes on: each is the
server's fault, and none may become a reward.
"""

import math
from collections.abc import Mapping
from typing import Any, get_args

from practicum.core.errors import EnvironmentFailure
from practicum.core.task import Outcome, Split, Task
from practicum.core.trace import Message, Role, ToolSpec

__all__ = ["finite", "read_messages", "read_outcome", "read_task", "read_tools", "texts"]


def finite(value: Any, what: str) -> float | None:
    """A number or nothing. True and False count 1 and 0, as OpenEnv allows."""
    if value is None:
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise EnvironmentFailure(f"the server gave {value!r} as {what}, which is no number")
    return float(value)


def texts(value: Any, what: str) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise EnvironmentFailure(f"the server gave no list of texts as {what}")
    return tuple(value)


def read_messages(value: Any) -> list[Message]:
    """What the policy is shown; at least one message."""
    if not isinstance(value, list) or not value:
        raise EnvironmentFailure("the server showed no messages")
    return [_message(one) for one in value]


def _message(value: Any) -> Message:
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    role: Any = fields.get("role")
    content, call = fields.get("content"), fields.get("tool_call_id")
    if role not in get_args(Role) or not isinstance(content, str):
        raise EnvironmentFailure(f"the server's message {str(value)[:80]!r} cannot be read")
    return Message(role=role, content=content, tool_call_id=call if isinstance(call, str) else None)


def read_tools(value: Any) -> list[ToolSpec]:
    """The tools of an episode."""
    tools = []
    for one in value if isinstance(value, list) else [None]:
        fields: Mapping[str, Any] = one if isinstance(one, Mapping) else {}
        name, about = fields.get("name"), fields.get("description", "")
        parameters = fields.get("parameters", {})
        if not isinstance(name, str) or not isinstance(parameters, dict):
            raise EnvironmentFailure(f"the server's tool {str(one)[:80]!r} cannot be read")
        tools.append(ToolSpec(name=name, description=str(about), parameters=parameters))
    return tools


def read_outcome(value: Mapping[str, Any]) -> Outcome:
    """The evidence of an episode."""
    success, rewards = value.get("success"), value.get("turn_rewards")
    evidence = value.get("evidence")
    known = success is None or isinstance(success, bool)
    if not known or not isinstance(rewards, list) or not isinstance(evidence, dict):
        raise EnvironmentFailure(f"the server's outcome {str(value)[:80]!r} cannot be read")
    paid = [finite(reward, "a turn's reward") for reward in rewards]
    if None in paid:
        raise EnvironmentFailure("the server's outcome has a turn without a reward")
    return Outcome(
        success=success, turn_rewards=tuple(p for p in paid if p is not None), evidence=evidence
    )


def read_task(value: Any, env: str) -> Task:
    """A task as a Practicum server gives it."""
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    split: Split = "heldout" if fields.get("split") == "heldout" else "train"
    level, data = fields.get("level"), fields.get("data")
    named = isinstance(fields.get("id"), str) and isinstance(fields.get("instruction"), str)
    if not named or not isinstance(level, int) or not isinstance(data, dict):
        raise EnvironmentFailure(f"the server's task {str(value)[:80]!r} cannot be read")
    return Task(
        id=fields["id"],
        env=env,
        split=split,
        level=level,
        instruction=fields["instruction"],
        data=data,
    )
