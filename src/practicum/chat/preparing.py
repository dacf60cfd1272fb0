"""Conversations as a template can take them: what it does not know is said in what it knows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from practicum.chat.as_dicts import CallShape
from practicum.chat.habits import Habits
from practicum.chat.literals import Disguise
from practicum.core.conversing import SampledTurn
from practicum.core.tool_calls import tools_as_text, write_tool_call
from practicum.core.trace import Message, ToolSpec

__all__ = ["Entry", "Preparing", "with_calls_as_text"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A message, and how it was sampled where that is known."""

    message: Message
    turn: SampledTurn | None = None
    was_tool: bool = False
    """Whether a tool answered it, though the template is told that the user did."""


class Preparing:
    """Rewrites messages for a template with these habits."""

    def __init__(self, habits: Habits, disguise: Disguise) -> None:
        self._habits = habits
        self._disguise = disguise

    def conversation(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        turns: Mapping[int, SampledTurn],
    ) -> list[Entry]:
        """A whole conversation, tools told as text where the template does not show them."""
        habits = self._habits
        told = bool(tools) and not habits.takes_tools
        as_text = told or habits.call_shape is None
        entries = [Entry(message, turns.get(index)) for index, message in enumerate(messages)]
        if told:
            entries = _told(entries, tools_as_text(tools))
        known = [self._known(entry, calls_as_text=as_text) for entry in entries]
        return self._fold_system(self._joined(known))

    def following(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Messages that follow a completion."""
        as_text = not self._habits.takes_tools or self._habits.call_shape is None
        known = [self._known(Entry(message), calls_as_text=as_text) for message in messages]
        return [self.as_dict(entry.message) for entry in self._joined(known)]

    def as_dict(self, message: Message) -> dict[str, Any]:
        """A message as the template reads it, its words disguised."""
        shape = self._habits.call_shape or CallShape()
        plain: dict[str, Any] = self._disguise.put_on(shape.message(message))
        return self.with_thinking(plain)

    def with_thinking(self, said: dict[str, Any]) -> dict[str, Any]:
        """Reasoning in the content, where that is its place."""
        tags = self._habits.thinking
        if not self._habits.thinks_in_content or tags is None or "reasoning_content" not in said:
            return said
        reasoning = tags.around(said["reasoning_content"])
        others = {key: value for key, value in said.items() if key != "reasoning_content"}
        return {**others, "content": reasoning + said["content"]}

    def _known(self, entry: Entry, *, calls_as_text: bool) -> Entry:
        """A tool's answer from the user, and calls as text, where the template knows neither."""
        message, habits = entry.message, self._habits
        if message.role == "tool" and calls_as_text and not habits.takes_tools:
            return Entry(Message(role="user", content=message.content), was_tool=True)
        too_many = len(message.tool_calls) > 1 and not habits.takes_many_calls
        if message.tool_calls and (calls_as_text or too_many):
            return replace(entry, message=with_calls_as_text(message))
        return entry

    def _joined(self, entries: Sequence[Entry]) -> list[Entry]:
        """Answers of tools in one message of the user, where the template takes no two in a row."""
        if self._habits.takes_runs:
            return list(entries)
        joined: list[Entry] = []
        for entry in entries:
            last = joined[-1] if joined else None
            is_run = last is not None and last.message.role == entry.message.role == "user"
            if last is not None and is_run and (last.was_tool or entry.was_tool):
                together = f"{last.message.content}\n{entry.message.content}"
                joined[-1] = Entry(Message(role="user", content=together), was_tool=True)
            else:
                joined.append(entry)
        return joined

    def _fold_system(self, entries: list[Entry]) -> list[Entry]:
        """The system's words at the head of the user's, where the template takes no system."""
        if self._habits.takes_system or not entries or entries[0].message.role != "system":
            return entries
        system, *others = entries
        content = system.message.content
        if others and others[0].message.role == "user":
            content = f"{content}\n\n{others[0].message.content}"
            others = others[1:]
        return [Entry(Message(role="user", content=content)), *others]


def with_calls_as_text(message: Message) -> Message:
    """The message with its calls in the form that `tools_as_text` asks for."""
    calls = [write_tool_call(call) for call in message.tool_calls]
    content = "\n".join([message.content, *calls] if message.content else calls)
    return replace(message, content=content, tool_calls=())


def _told(entries: list[Entry], told: str) -> list[Entry]:
    """The entries with the tools described in the system message."""
    if entries and entries[0].message.role == "system":
        system, *others = entries
        words = f"{system.message.content}\n\n{told}"
        return [Entry(Message(role="system", content=words)), *others]
    return [Entry(Message(role="system", content=told)), *entries]
