"""Messages and tools in the form that chat templates read."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from practicum.core.trace import Message, ToolCall, ToolSpec

__all__ = ["CALL_SHAPES", "CallShape", "tool_as_dict"]

SHORT_ID = 9
"""Characters of a call's id where a template takes no other."""


@dataclass(frozen=True, slots=True)
class CallShape:
    """What a template wants calls to look like; it cannot be asked, only tried."""

    arguments_as_text: bool = False
    """It pastes the arguments as they are, so they must be JSON already."""
    short_ids: bool = False
    """It refuses ids that are not nine letters and digits."""

    def message(self, message: Message) -> dict[str, Any]:
        """A message as the template reads it."""
        result: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.reasoning:
            result["reasoning_content"] = message.reasoning
        if message.tool_calls:
            result["tool_calls"] = [self.call(call) for call in message.tool_calls]
        needs_id = self.short_ids and message.role == "tool"
        if message.tool_call_id is not None or needs_id:
            result["tool_call_id"] = self._id(message.tool_call_id or "")
        return result

    def call(self, call: ToolCall) -> dict[str, Any]:
        """A tool call as the template reads it."""
        arguments: Any = dict(call.arguments)
        if self.arguments_as_text:
            arguments = json.dumps(arguments, ensure_ascii=False)
        function = {"name": call.name, "arguments": arguments}
        return {"type": "function", "id": self._id(call.id), "function": function}

    def _id(self, given: str) -> str:
        if not self.short_ids or (len(given) == SHORT_ID and given.isalnum()):
            return given
        return hashlib.blake2b(given.encode()).hexdigest()[:SHORT_ID]


CALL_SHAPES = tuple(
    CallShape(arguments_as_text=as_text, short_ids=short)
    for short in (False, True)
    for as_text in (False, True)
)
"""In the order they are tried."""


def tool_as_dict(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the form that chat templates read."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}
