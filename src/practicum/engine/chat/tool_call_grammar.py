"""The format of turns that must call a tool (`tool_choice: required`), for constrained sampling.

`ToolCallGrammar` finds the format by letting the template show a call: what it writes around the
arguments is the format. If it shows no call with its arguments as JSON, another format that the
parser reads as a call is used.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from practicum.core.byte_bound_cache import ByteBoundCache
from practicum.core.errors import UserError
from practicum.core.sampling import CallForm, CallsForm, Spelling
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.engine.chat.chat_template import CACHE_BYTES

CallWriter = Callable[[Sequence[ToolCall]], str]
"""The text of a turn that makes these calls, after `DUMMY_REASONING` if the model thinks."""

DUMMY_REASONING = "?"

ARGUMENT = "some_argument"
ARGUMENTS = re.compile(rf'\{{\s*"{ARGUMENT}"\s*:\s*""\s*\}}')
"""The JSON of the arguments of the calls that are written to find the text around them."""

SOME_TOOL = ToolSpec(name="some_tool", parameters={"properties": {ARGUMENT: {"type": "string"}}})
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "maxProperties": 0}
COMBINATIONS = {"$ref", "allOf", "anyOf", "oneOf"}
OTHER_ARGUMENTS = {"additionalProperties", "patternProperties", "unevaluatedProperties"}
"""Keywords with which a JSON schema describes arguments beside those in its `properties`."""


class ToolCallGrammar:
    """Finds the format in which a model's calls are written and read.

    Args:
        writers: Functions that write calls, the likeliest format first; one may raise `UserError`.
        read: Parses the text of a turn in which the given tools may be called.
        spell: Turns text into ids of added tokens and the plain text between them.
        thinking_end: The tag that closes thinking; empty if the model does not think.
    """

    def __init__(
        self,
        writers: Sequence[CallWriter],
        read: Callable[[str, Sequence[ToolSpec]], Message],
        spell: Callable[[str], Spelling],
        thinking_end: str,
    ) -> None:
        self._writers = tuple(writers)
        self._read = read
        self._spell = spell
        self._thinking_end = thinking_end
        self._spelled: Callable[[str], tuple[Spelling, Spelling]] = ByteBoundCache(
            self._spell_name, lambda name, _: 1000 + 20 * len(name), most_bytes=CACHE_BYTES // 8
        )

    def form(self, tools: Sequence[ToolSpec], *, many: bool) -> CallsForm:
        """The format of a turn that calls one of the tools, or several with `many`.

        Raises:
            UserError: No call that the template shows can be read.
        """
        return CallsForm(
            calls=tuple(self._call(tool) for tool in tools),
            closing=self._closing,
            many=many and self._takes_many,
        )

    @cached_property
    def is_bare(self) -> bool:
        """Whether a call is a JSON object without tags around it."""
        before, *_ = self._pieces(SOME_TOOL)
        return self._after_thinking(before).startswith("{")

    def _call(self, tool: ToolSpec) -> CallForm:
        first, later = self._spelled(tool.name)
        return CallForm(first=first, later=later, arguments=_arguments(tool))

    def _spell_name(self, name: str) -> tuple[Spelling, Spelling]:
        """What is written before a tool's arguments: as the first call, and as a later one."""
        tool = ToolSpec(name=name)
        is_plain = self._spell(name) == (name,)  # not so if it contains a special token's text
        if not is_plain or not self._is_read(self._writer, [tool]):
            raise UserError(
                f"this model's chat template cannot show a call of a tool named {name!r:.80}; "
                "name it with letters, digits, _ and -"
            )
        before, _ = self._pieces(tool)
        between = self._pieces(SOME_TOOL, tool)[1] if self._takes_many else ""
        return self._spell(self._after_thinking(before)), self._spell(between)

    def _after_thinking(self, text: str) -> str:
        if self._thinking_end and self._thinking_end in text:
            text = text.partition(self._thinking_end)[2]
        return text.lstrip()

    def _pieces(self, *tools: ToolSpec) -> list[str]:
        """The texts around the arguments when these tools are called in one turn."""
        return ARGUMENTS.split(self._writer(_calls(tools)))

    @cached_property
    def _writer(self) -> CallWriter:
        """The first writer whose call is read back as that call."""
        for writer in self._writers:
            if self._is_read(writer, [SOME_TOOL]):
                return writer
        raise UserError(
            "this model's chat template shows no call that could be read again; "
            "leave the choice of a tool to the model"
        )

    @cached_property
    def _closing(self) -> Spelling:
        return self._spell(self._pieces(SOME_TOOL)[-1])

    @cached_property
    def _takes_many(self) -> bool:
        """Whether a turn may hold several calls: all are read back, and no text has a number."""
        two = [SOME_TOOL, SOME_TOOL]
        if not self._is_read(self._writer, two):
            return False
        # Alike with other ids: a text that counts calls would differ from one call to the next.
        alike = self._writer(_calls(two)) == self._writer(_calls(two, first_id=2))
        return alike and self._pieces(*two)[-1] == self._pieces(SOME_TOOL)[-1]

    def _is_read(self, writer: CallWriter, tools: Sequence[ToolSpec]) -> bool:
        try:
            text = writer(_calls(tools))
        except UserError:
            return False
        if len(ARGUMENTS.findall(text)) != len(tools):
            return False
        parsed = self._read(text, tools)
        parsed_calls = [(call.name, dict(call.arguments)) for call in parsed.tool_calls]
        written_calls = [(call.name, dict(call.arguments)) for call in _calls(tools)]
        return parsed_calls == written_calls and not parsed.content.strip()


def _arguments(tool: ToolSpec) -> dict[str, Any]:
    """The schema of a tool's arguments; only listed ones are allowed unless it says otherwise.

    >>> _arguments(ToolSpec(name="look", parameters={"properties": {"at": {}}}))
    {'properties': {'at': {}}, 'additionalProperties': False}
    """
    schema: dict[str, Any] = dict(tool.parameters or NO_ARGUMENTS)
    if "properties" in schema and not (COMBINATIONS | OTHER_ARGUMENTS) & schema.keys():
        schema["additionalProperties"] = False
    return schema


def _calls(tools: Sequence[ToolSpec], first_id: int = 0) -> list[ToolCall]:
    return [
        ToolCall(name=tool.name, arguments={ARGUMENT: ""}, id=f"call_{number}")
        for number, tool in enumerate(tools, first_id)
    ]
