"""Whole episodes without the secrets that were said in them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from practicum.core.label import Label
from practicum.core.recorded import UNTOKENISED
from practicum.core.sample import Episode
from practicum.core.task import JSON, Task
from practicum.core.trace import Message, Node, Trace
from practicum.redaction.patterns import (
    Pattern,
    is_secret_name,
    marker,
    patterns_for,
    redact_text,
)

__all__ = ["Redactor"]

SHORTEST = 4
"""Characters of a value that is taken for a secret because of its field's name."""


class Redactor:
    """Takes secrets out of episodes, and counts what it took, by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._patterns: tuple[Pattern, ...] | None = None

    def text(self, text: str) -> str:
        """A text without its secrets."""
        if not text or self._patterns == ():
            return text
        clean, found = redact_text(text, self._patterns)
        self.counts.update(found)
        return clean if found else text

    def value(self, value: JSON) -> JSON:
        """A JSON value without its secrets; a field named like one loses its text whole."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if isinstance(value, Mapping):
            return self.fields(value)
        return value

    def fields(self, values: Mapping[str, JSON]) -> dict[str, JSON]:
        """The same of an object."""
        return {name: self._field(name, value) for name, value in values.items()}

    def episode(self, episode: Episode) -> Episode:
        """An episode without its secrets.

        Where something had to be taken out of a trace whose tokens are known, the tokens go too:
        they would still spell it.
        """
        outcome = episode.outcome
        if outcome is not None and outcome.evidence:
            outcome = replace(outcome, evidence=self.fields(outcome.evidence))
        return replace(episode, trace=self._trace(episode.trace), outcome=outcome)

    def task(self, task: Task) -> Task:
        """A task without its secrets."""
        return replace(task, instruction=self.text(task.instruction), data=self.fields(task.data))

    def label(self, label: Label) -> Label:
        """A label without the secrets of its note."""
        return replace(label, note=self.text(label.note)) if label.note else label

    def _field(self, name: str, value: JSON) -> JSON:
        if isinstance(value, str) and len(value) >= SHORTEST and is_secret_name(name):
            if value.startswith(("$", "<", "{", "[redacted:")):
                return value
            self.counts["password"] += 1
            return marker("password")
        return self.value(value)

    def _trace(self, trace: Trace) -> Trace:
        before = self.counts.total()
        # Looked for once in all that was said, not once in each message.
        self._patterns = patterns_for("\n".join(map(_all_text, trace.messages())))
        nodes = tuple(self._node(node) for node in trace.nodes)
        self._patterns = None
        if self.counts.total() > before:
            nodes = tuple(_without_tokens(node) for node in nodes)
        failure = trace.failure
        if failure is not None:
            failure = replace(failure, message=self.text(failure.message))
        return replace(trace, nodes=nodes, failure=failure)

    def _node(self, node: Node) -> Node:
        return replace(node, messages=tuple(self._message(m) for m in node.messages))

    def _message(self, message: Message) -> Message:
        if not self._patterns and not message.tool_calls:
            return message
        calls = tuple(
            replace(call, arguments=self.fields(call.arguments)) for call in message.tool_calls
        )
        return replace(
            message,
            content=self.text(message.content),
            tool_calls=calls,
            reasoning=self.text(message.reasoning) if message.reasoning else "",
        )


def _without_tokens(node: Node) -> Node:
    return replace(node, token_ids=(), sampled=UNTOKENISED if node.sampled else None)


def _all_text(message: Message) -> str:
    calls = " ".join(str(dict(call.arguments)) for call in message.tool_calls)
    return f"{message.content}\n{message.reasoning}\n{calls}"
