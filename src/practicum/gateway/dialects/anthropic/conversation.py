"""Messages and tools of the Anthropic API as the gateway's own."""

from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.gateway.dialects.fields import Fields, refuse

__all__ = ["messages_of", "tools_of"]


def messages_of(body: Fields) -> tuple[Message, ...]:
    """The conversation: the system prompt and then the messages, tool results as their own."""
    found: list[Message] = []
    if body.has("system"):
        found.append(Message(role="system", content=_words(body, "system")))
    given = body.items("messages")
    for message in given:
        role = message.text("role")
        if role == "assistant":
            found.append(_assistant(message))
        elif role == "user":
            found += _user(message)
        else:
            place = message.named("role")
            raise refuse(f"{place} is {role!r:.60}; it must be user or assistant", place)
    if not given:
        raise refuse("messages is empty; it must hold at least one message", "messages")
    if found[-1].role == "assistant":
        raise refuse(
            "the last message is the assistant's; a turn that the client begins is not supported: "
            "end with a message of the user",
            "messages",
        )
    return tuple(found)


def _user(message: Fields) -> list[Message]:
    """Tool results, each a message of its own, and what the user says beside them."""
    if isinstance(message.values.get("content"), str):
        return [Message(role="user", content=message.text("content"))]
    found: list[Message] = []
    words: list[str] = []

    def spoken() -> list[Message]:
        said = [Message(role="user", content="\n\n".join(words))] if words else []
        words.clear()
        return said

    for block in message.items("content"):
        kind = block.text("type")
        if kind == "text":
            words.append(block.text("text"))
        elif kind == "tool_result":
            found += spoken()
            found.append(
                Message(
                    role="tool",
                    content=_words(block, "content"),
                    tool_call_id=block.text("tool_use_id"),
                    is_error=block.truth("is_error", False),
                )
            )
        else:
            raise refuse(
                f"{block.where} is {kind!r:.60}; the model reads text and tool_result", block.where
            )
    found += spoken()
    if not found:
        place = message.named("content")
        raise refuse(f"{place} is empty; it must say something", place)
    return found


def _assistant(message: Fields) -> Message:
    if isinstance(message.values.get("content"), str):
        return Message(role="assistant", content=message.text("content"))
    words: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for block in message.items("content"):
        kind = block.text("type")
        if kind == "text":
            words.append(block.text("text"))
        elif kind == "thinking":
            thoughts.append(block.text("thinking"))
        elif kind == "tool_use":
            calls.append(
                ToolCall(
                    id=block.text("id"), name=block.text("name"), arguments=block.schema("input")
                )
            )
        else:
            raise refuse(
                f"{block.where} is {kind!r:.60}; an assistant's blocks are text, thinking and "
                "tool_use",
                block.where,
            )
    return Message(
        role="assistant",
        content="".join(words),
        reasoning="".join(thoughts),
        tool_calls=tuple(calls),
    )


def _words(holder: Fields, name: str) -> str:
    """A text, or a list of blocks that are all text; nothing is an empty text."""
    if isinstance(holder.values.get(name), str):
        return holder.text(name)
    words: list[str] = []
    for block in holder.items(name):
        if block.text("type") != "text":
            kind = block.text("type")
            raise refuse(f"{block.where} is {kind!r:.60}; the model reads text only", block.where)
        words.append(block.text("text"))
    return "\n\n".join(words)


def tools_of(body: Fields) -> tuple[ToolSpec, ...]:
    """The tools of the client's own; those that Anthropic runs or knows by name are refused."""
    found: list[ToolSpec] = []
    for tool in body.items("tools"):
        kind = tool.text("type", "custom")
        if kind != "custom":
            raise refuse(
                f"{tool.where} is {kind!r:.60}; only tools with an input_schema can be offered "
                "here",
                tool.named("type"),
            )
        found.append(
            ToolSpec(
                name=tool.text("name"),
                description=tool.text("description", ""),
                parameters=tool.schema("input_schema"),
            )
        )
    return tuple(found)
