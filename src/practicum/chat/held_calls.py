"""Turns that must call a tool, in the form in which the model's own template shows calls.

The template cannot be asked for that form, but it can be made to show a call, and all that it
writes around the arguments is the form. Where it shows none with arguments as JSON, the call is
written in another form that is read as one.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

from practicum.chat.rendering import REMEMBERED
from practicum.core.errors import UserError
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.core.turn_forms import CallForm, CallsForm, Spelling

__all__ = ["THOUGHT", "HeldCalls", "Writing"]

Writing = Callable[[Sequence[ToolCall]], str]
"""The text of a turn that makes these calls, after thinking `THOUGHT` where the model thinks."""

THOUGHT = "?"

ARGUMENT = "some_argument"
ARGUMENTS = re.compile(rf'\{{\s*"{ARGUMENT}"\s*:\s*""\s*\}}')
"""The arguments of a call that is made to see what stands around them."""

SOME_TOOL = ToolSpec(name="some_tool", parameters={"properties": {ARGUMENT: {"type": "string"}}})
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "maxProperties": 0}
OTHER_ARGUMENTS = frozenset(
    {
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "patternProperties",
        "unevaluatedProperties",
    }
)
"""Words by which a schema says something about arguments that it does not list."""


class HeldCalls:
    """Finds out the form of calls.

    Args:
        writings: Ways to write calls, the likeliest first; one may raise `UserError`.
        read: A turn's text as a message, if it calls one of some tools.
        spell: A turn's text as its added tokens and the plain text between them.
        thought_ends: What closes thinking; empty where the model does not think.
    """

    def __init__(
        self,
        writings: Sequence[Writing],
        read: Callable[[str, Sequence[ToolSpec]], Message],
        spell: Callable[[str], Spelling],
        thought_ends: str,
    ) -> None:
        self._writings = tuple(writings)
        self._read = read
        self._spell = spell
        self._thought_ends = thought_ends
        self._spelled = lru_cache(maxsize=REMEMBERED)(self._spell_name)

    def form(self, tools: Sequence[ToolSpec], *, many: bool) -> CallsForm:
        """The form of a turn that calls one of the tools, or several with `many`.

        Raises:
            UserError: no call that the template shows can be read.
        """
        return CallsForm(
            calls=tuple(self._call(tool) for tool in tools),
            closing=self._closing,
            many=many and self._joins,
        )

    def _call(self, tool: ToolSpec) -> CallForm:
        first, later = self._spelled(tool.name)
        return CallForm(first=first, later=later, arguments=_arguments(tool))

    def _spell_name(self, name: str) -> tuple[Spelling, Spelling]:
        """What stands before the arguments of a tool's call, first in a turn and behind another."""
        tool = ToolSpec(name=name)
        is_plain = self._spell(name) == (name,)  # the words of a special token would become one
        if not is_plain or not self._is_read(self._writing, [tool]):
            raise UserError(
                f"this model's chat template cannot show a call of a tool named {name!r:.80}; "
                "name it with letters, digits, _ and -"
            )
        before, _ = self._pieces(tool)
        between = self._pieces(SOME_TOOL, tool)[1] if self._joins else ""
        return self._spell(self._behind_thought(before)), self._spell(between)

    def _behind_thought(self, text: str) -> str:
        if self._thought_ends and self._thought_ends in text:
            text = text.partition(self._thought_ends)[2]
        return text.lstrip()

    def _pieces(self, *tools: ToolSpec) -> list[str]:
        """What stands around the arguments when these tools are called in a turn."""
        return ARGUMENTS.split(self._writing(_calls(tools)))

    @cached_property
    def _writing(self) -> Writing:
        """The first way to write a call that is read as that call."""
        for writing in self._writings:
            if self._is_read(writing, [SOME_TOOL]):
                return writing
        raise UserError(
            "this model's chat template shows no call that could be read again; "
            "leave the choice of a tool to the model"
        )

    @cached_property
    def _closing(self) -> Spelling:
        return self._spell(self._pieces(SOME_TOOL)[-1])

    @cached_property
    def _joins(self) -> bool:
        """Whether calls can follow each other: each is read, and none is known by its place."""
        two = [SOME_TOOL, SOME_TOOL]
        if not self._is_read(self._writing, two):
            return False
        alike = self._writing(_calls(two)) == self._writing(_calls(two, first_id=2))
        return alike and self._pieces(*two)[-1] == self._pieces(SOME_TOOL)[-1]

    def _is_read(self, writing: Writing, tools: Sequence[ToolSpec]) -> bool:
        try:
            text = writing(_calls(tools))
        except UserError:
            return False
        if len(ARGUMENTS.findall(text)) != len(tools):
            return False
        said = self._read(text, tools)
        called = [(call.name, dict(call.arguments)) for call in said.tool_calls]
        asked = [(call.name, dict(call.arguments)) for call in _calls(tools)]
        return called == asked and not said.content.strip()


def _arguments(tool: ToolSpec) -> dict[str, Any]:
    """The schema of a tool's arguments: those it lists, unless it says that there are others.

    >>> _arguments(ToolSpec(name="look", parameters={"properties": {"at": {}}}))
    {'properties': {'at': {}}, 'additionalProperties': False}
    """
    schema: dict[str, Any] = dict(tool.parameters or NO_ARGUMENTS)
    if "properties" in schema and not OTHER_ARGUMENTS & schema.keys():
        schema["additionalProperties"] = False
    return schema


def _calls(tools: Sequence[ToolSpec], first_id: int = 0) -> list[ToolCall]:
    return [
        ToolCall(name=tool.name, arguments={ARGUMENT: ""}, id=f"call_{number}")
        for number, tool in enumerate(tools, first_id)
    ]
