"""What a chat template does to a conversation: marks around turns, tools, calls and results.

Ollama renders conversations with Go's `text/template`, not with Jinja. `form_probing` finds out by
trying which form a Jinja template has, and `go_template` writes the same form for Go.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]
"""Both as chat templates take them."""

SYSTEM, USER, ASSISTANT, TOOL = "system", "user", "assistant", "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolForm:
    """Where tools stand, and how calls and results are written."""

    lead: str
    """Before the first tool where no system message comes first."""
    opening: str
    """Before the content of the first system message where there are tools."""
    before: str
    """Between that content and the first tool."""
    between: str
    after: str
    """After the last tool."""
    indent: int | None
    """Of the tools' JSON."""
    joins_user: bool
    """Whether the first user's content follows the tools without an opening of its own."""
    shows_content: bool
    """Whether content is shown beside calls."""
    with_content: str
    """Before the content of a turn that has calls too."""
    without_content: str
    start: str
    """Before the name of each call."""
    middle: str
    """Between name and arguments."""
    end: str
    closing: str
    """After the last call."""
    result_opening: str
    """Before the first of the results that follow each other."""
    result_before: str
    result_after: str
    result_closing: str
    quotes_results: bool
    """Whether a result is written as a JSON string."""

    def head(self, system: str | None, tools: Tools) -> str:
        """What stands before the first turn that is not the system's."""
        listed = self.between.join(
            json.dumps(tool, ensure_ascii=False, indent=self.indent) for tool in tools
        )
        before = self.lead if system is None else self.opening + system + self.before
        return before + listed + self.after

    def calls(self, content: str, calls: Sequence[Mapping[str, Any]]) -> str:
        """An assistant's turn with calls."""
        shown = self.with_content + content if content and self.shows_content else ""
        written = [
            self.start
            + call["function"]["name"]
            + self.middle
            + json.dumps(call["function"]["arguments"], ensure_ascii=False)
            + self.end
            for call in calls
        ]
        return (shown or self.without_content) + "".join(written) + self.closing

    def result(self, content: str) -> str:
        """One result."""
        shown = json.dumps(content, ensure_ascii=False) if self.quotes_results else content
        return self.result_before + shown + self.result_after


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnForm:
    """What stands around the contents of a conversation."""

    lead: str
    """Before the first turn where no system message comes first."""
    system: str
    """Before a system message that comes first."""
    openings: Mapping[str, str]
    """By role; the system's is that of a later system message."""
    closings: Mapping[str, str]
    prompt: str
    """What begins the assistant's next turn."""
    is_trimmed: bool = False
    """Whether white space around contents is dropped."""
    tools: ToolForm | None = None
    """None where the template lists no tools."""

    def without_begin(self, text: str) -> "TurnForm":
        """The same without the token that llama.cpp puts before every prompt by itself."""
        tools = self.tools
        if tools is not None:
            tools = replace(
                tools, lead=tools.lead.removeprefix(text), opening=tools.opening.removeprefix(text)
            )
        return replace(
            self,
            lead=self.lead.removeprefix(text),
            system=self.system.removeprefix(text),
            tools=tools,
        )

    def render(self, messages: Messages, tools: Tools = ()) -> str:
        """The text of a conversation that the assistant goes on with."""
        system = self._shown(messages[0]) if messages and messages[0]["role"] == SYSTEM else None
        form = self.tools
        written = [self._head(system, tools)]
        previous = SYSTEM if system is not None else ""
        follows_tools = form is not None and bool(tools) and form.joins_user
        for message in messages[system is not None :]:
            role = message["role"]
            if form is not None and previous == TOOL != role:
                written.append(form.result_closing)
            if form is not None and role == TOOL:
                written += [form.result_opening] if previous != TOOL else []
                written.append(form.result(message["content"]))
            elif form is not None and message.get("tool_calls"):
                written.append(form.calls(self._shown(message), message["tool_calls"]))
            else:
                opening = "" if follows_tools else self.openings[role]
                written += [opening, self._shown(message), self.closings[role]]
            previous, follows_tools = role, False
        if form is not None and previous == TOOL:
            written.append(form.result_closing)
        return "".join([*written, self.prompt])

    def _head(self, system: str | None, tools: Tools) -> str:
        if self.tools is not None and tools:
            return self.tools.head(system, tools)
        return self.lead if system is None else self.system + system + self.closings[SYSTEM]

    def _shown(self, message: Mapping[str, Any]) -> str:
        content: str = message["content"]
        return content.strip() if self.is_trimmed else content
