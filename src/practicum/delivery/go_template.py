"""Writes a form of turns in Go's `text/template`, for the TEMPLATE of an Ollama Modelfile.

Ollama hands `.Messages` and `.Tools` to the template. Its own JSON has no spaces, escapes `<` and
has other keys first, while chat templates write what Python's `json.dumps` does: so values are
written out here, piece by piece, by templates that call each other.
"""

import json

from practicum.core.errors import UserError
from practicum.delivery.turn_form import ASSISTANT, SYSTEM, TOOL, USER, ToolForm, TurnForm

DEEPEST = 3
"""Levels of a tool's parameters that are indented; deeper ones are written in a line."""

TEXT = (
    '{{ define "text" }}{{ $quoted := printf "%q" . }}{{ $json := json . }}'
    "{{ if eq $quoted $json }}{{ $json }}{{ else }}{{ $text := . }}{{ $escapes := false }}"
    "{{ range $at := len . }}{{ $byte := index $text $at }}"
    "{{ if or (eq $byte 38) (eq $byte 60) (eq $byte 62) }}{{ $escapes = true }}{{ end }}{{ end }}"
    "{{ if $escapes }}{{ $quoted }}{{ else }}{{ $json }}{{ end }}{{ end }}{{ end }}"
)
"""A JSON string. Go's JSON escapes `&`, `<` and `>`, its quotes escape what is not printable: a
text with both is escaped, and still the same text for whoever reads the JSON."""
VALUE = (
    '{{ define "value" }}{{ $kind := printf "%T" . }}'
    '{{ if eq $kind "string" }}{{ template "text" . }}'
    '{{ else if eq $kind "map[string]interface {}" }}{{ template "object" . }}'
    '{{ else if eq $kind "[]interface {}" }}{{ "[" }}{{ range $at, $item := . }}'
    '{{ if $at }}{{ ", " }}{{ end }}{{ template "value" $item }}{{ end }}{{ "]" }}'
    "{{ else }}{{ json . }}{{ end }}{{ end }}"
    '{{ define "object" }}{{ "{" }}{{ $comma := "" }}{{ range $name, $value := . }}{{ $comma }}'
    '{{ template "text" $name }}{{ ": " }}{{ template "value" $value }}{{ $comma = ", " }}'
    '{{ end }}{{ "}" }}{{ end }}'
)
SPACES = (9, 10, 11, 12, 13, 28, 29, 30, 31, 32)
"""Bytes that Python counts as white space."""
TRIMMED = (
    '{{ define "trimmed" }}{{ $text := . }}{{ range len . }}{{ $byte := index $text 0 }}'
    "{{ if IS_SPACE }}{{ $text = slice $text 1 }}{{ else }}{{ break }}{{ end }}{{ end }}"
    # There is no subtraction: what is one shorter is the length of all but the first byte.
    "{{ range len $text }}{{ $last := len (slice $text 1) }}{{ $byte := index $text $last }}"
    "{{ if IS_SPACE }}{{ $text = slice $text 0 $last }}{{ else }}{{ break }}{{ end }}{{ end }}"
    "{{ $text }}{{ end }}"
).replace("IS_SPACE", "or " + " ".join(f"(eq $byte {byte})" for byte in SPACES))


def write_go(form: TurnForm) -> str:
    """A form in Go's `text/template`, for a conversation that the assistant goes on with.

    Raises:
        UserError: its marks cannot stand in a Modelfile.
    """
    tools = form.tools
    defined = TRIMMED if form.is_trimmed else ""
    if tools is not None:
        defined += TEXT + VALUE + ToolWriter(tools.indent).define()
    written = defined + _head(form) + _turns(form) + _go(form.prompt)
    if '"""' in written or not written.replace("\n", "").isprintable():
        raise UserError(
            "the model's chat template has marks that a Modelfile cannot hold; export the file "
            "alone with --to gguf, whose template llama.cpp uses"
        )
    return written


def _go(text: str) -> str:
    """A text as an action that prints it, so that no white space is trimmed away."""
    return f"{{{{ {json.dumps(text, ensure_ascii=False)} }}}}" if text else ""


def _content(form: TurnForm, of: str = ".Content") -> str:
    return f'{{{{ template "trimmed" {of} }}}}' if form.is_trimmed else f"{{{{ {of} }}}}"


def _head(form: TurnForm) -> str:
    """What stands before the first turn that is not the system's."""
    first = _content(form, "(index .Messages 0).Content")
    is_system = f'{{{{ if and .Messages (eq (index .Messages 0).Role "{SYSTEM}") }}}}'
    plain = (
        is_system
        + _go(form.system)
        + first
        + _go(form.closings[SYSTEM])
        + "{{ else }}"
        + _go(form.lead)
        + "{{ end }}"
    )
    tools = form.tools
    if tools is None:
        return plain
    listed = (
        "{{ range $at, $tool := .Tools }}{{ if $at }}"
        + _go(tools.between)
        + '{{ end }}{{ template "tool" $tool }}{{ end }}'
    )
    begun = is_system + _go(tools.opening) + first + _go(tools.before)
    begun += "{{ else }}" + _go(tools.lead) + "{{ end }}"
    return (
        "{{ if .Tools }}" + begun + listed + _go(tools.after) + "{{ else }}" + plain + "{{ end }}"
    )


def _turns(form: TurnForm) -> str:
    tools = form.tools
    branches = []
    if tools is not None:
        branches.append((TOOL, _result(tools)))
        branches.append((ASSISTANT, _assistant(form, tools)))
    for role in form.openings:
        if tools is None or role != ASSISTANT:
            branches.append((role, _plain(form, role)))
    said = "{{ else }}".join(f'{{{{ if eq .Role "{role}" }}}}{go}' for role, go in branches)
    said += "{{ end }}" * len(branches)
    closed = ""
    if tools is not None:
        is_over = f'{{{{ if and (eq $previous "{TOOL}") (ne .Role "{TOOL}") }}}}'
        closed = is_over + _go(tools.result_closing) + "{{ end }}"
    turns = (
        '{{ $previous := "" }}{{ range $at, $message := .Messages }}'
        f'{{{{ if not (and (eq $at 0) (eq .Role "{SYSTEM}")) }}}}'
        + closed
        + said
        + "{{ end }}{{ $previous = .Role }}{{ end }}"
    )
    if tools is not None:
        turns += f'{{{{ if eq $previous "{TOOL}" }}}}' + _go(tools.result_closing) + "{{ end }}"
    return turns


def _plain(form: TurnForm, role: str) -> str:
    opening = _go(form.openings[role])
    if role == USER and form.tools is not None and form.tools.joins_user:
        # The first turn follows the tools.
        is_first = f'(or (eq $previous "") (and (eq $at 1) (eq $previous "{SYSTEM}")))'
        opening = f"{{{{ if not (and $.Tools {is_first}) }}}}{opening}{{{{ end }}}}"
    return opening + _content(form) + _go(form.closings[role])


def _result(tools: ToolForm) -> str:
    opening = f'{{{{ if ne $previous "{TOOL}" }}}}{_go(tools.result_opening)}{{{{ end }}}}'
    content = '{{ template "text" .Content }}' if tools.quotes_results else "{{ .Content }}"
    return opening + _go(tools.result_before) + content + _go(tools.result_after)


def _assistant(form: TurnForm, tools: ToolForm) -> str:
    """An assistant's turn, with calls or without.

    Ollama takes what the model writes for a call if it begins as the first text after
    `if .ToolCalls` does: so that is written as plain text.
    """
    if "{{" in tools.start or tools.start.endswith("{"):
        raise UserError(
            f"calls that begin with {tools.start!r} cannot be written for Ollama; export the file "
            "alone with --to gguf, whose template llama.cpp uses"
        )
    opened = _go(tools.without_content)
    if tools.shows_content:
        shown = _content(form)
        opened = "{{ if .Content }}" + _go(tools.with_content) + shown + "{{ else }}" + opened
        opened += "{{ end }}"
    return (
        "{{ $calls := len .ToolCalls }}{{ if $calls }}"
        + opened
        + "{{ else }}"
        + _plain(form, ASSISTANT)
        + "{{ end }}{{ if .ToolCalls }}{{ range .ToolCalls }}"
        + tools.start
        + "{{ .Function.Name }}"
        + _go(tools.middle)
        + '{{ template "object" .Function.Arguments }}'
        + _go(tools.end)
        + "{{ end }}"
        + _go(tools.closing)
        + "{{ end }}"
    )


class ToolWriter:
    """Writes the JSON of a tool as Ollama keeps it, in a line or indented."""

    def __init__(self, indent: int | None) -> None:
        self._indent = indent

    def define(self) -> str:
        """The template `tool`, and those that it calls."""
        parameters = self._object(
            2,
            ('"type": ', '{{ template "text" .Function.Parameters.Type }}', ""),
            ('"properties": ', self._properties(".Function.Parameters.Properties", 3), ""),
            (
                '"required": ',
                self._list(".Function.Parameters.Required", 3, '{{ template "text" $item }}'),
                ".Function.Parameters.Required",
            ),
        )
        function = self._object(
            1,
            ('"name": ', '{{ template "text" .Function.Name }}', ""),
            ('"description": ', '{{ template "text" .Function.Description }}', ""),
            ('"parameters": ', parameters, ""),
        )
        tool = self._object(
            0, ('"type": ', '{{ template "text" .Type }}', ""), ('"function": ', function, "")
        )
        called = "" if self._indent else f'{{{{ define "property" }}}}{self._property(0, 1)}{END}'
        return f'{called}{{{{ define "tool" }}}}{tool}{END}'

    def _line(self, level: int) -> str:
        return "" if self._indent is None else "\n" + " " * self._indent * level

    def _comma(self, level: int) -> str:
        return ", " if self._indent is None else "," + self._line(level)

    def _object(self, level: int, *entries: tuple[str, str, str]) -> str:
        """Key, value and the field without which it is left out; braces around all of them."""
        written = _go("{" + self._line(level + 1)) + "{{ $comma := `` }}"
        for key, value, needs in entries:
            entry = "{{ $comma }}" + _go(key) + value
            entry += f"{{{{ $comma = {json.dumps(self._comma(level + 1))} }}}}"
            written += f"{{{{ if {needs} }}}}{entry}{END}" if needs else entry
        return written + _go(self._line(level) + "}")

    def _properties(self, of: str, level: int, depth: int = DEEPEST) -> str:
        """A map of parameters by name."""
        one = '{{ template "property" $property }}'
        if self._indent is not None:
            one = f"{{{{ with $property }}}}{self._property(level + 1, depth)}{END}"
        listed = (
            f"{{{{ $comma := `` }}}}{{{{ range $name, $property := {of} }}}}"
            '{{ $comma }}{{ template "text" $name }}{{ ": " }}'
            + one
            + f"{{{{ $comma = {json.dumps(self._comma(level + 1))} }}}}{END}"
        )
        whole = _go("{" + self._line(level + 1)) + listed + _go(self._line(level) + "}")
        return f'{{{{ if {of} }}}}{whole}{{{{ else }}}}{{{{ "{{}}" }}}}{END}'

    def _list(self, of: str, level: int, item: str) -> str:
        inner = (
            f"{{{{ range $at, $item := {of} }}}}{{{{ if $at }}}}{_go(self._comma(level + 1))}{END}"
            + item
            + END
        )
        return _go("[" + self._line(level + 1)) + inner + _go(self._line(level) + "]")

    def _property(self, level: int, depth: int) -> str:
        """One parameter."""
        many = self._list(".Type", level + 1, '{{ template "text" $item }}')
        kind = '{{ if eq (len .Type) 1 }}{{ template "text" (index .Type 0) }}{{ else }}'
        entries = [
            ('"type": ', kind + many + END, ".Type"),
            ('"description": ', '{{ template "text" .Description }}', ".Description"),
            ('"enum": ', self._list(".Enum", level + 1, '{{ template "value" $item }}'), ".Enum"),
            ('"items": ', self._any(".Items", level + 1, depth), ".Items"),
        ]
        if depth > 0:
            nested = self._properties(".Properties.ToMap", level + 1, depth - 1)
            entries.append(('"properties": ', nested, ".Properties"))
            needed = self._list(".Required", level + 1, '{{ template "text" $item }}')
            entries.append(('"required": ', needed, ".Required"))
        return self._object(level, *entries)

    def _any(self, of: str, level: int, depth: int) -> str:
        """A value of any kind, which is a map mostly."""
        if self._indent is None or depth == 0:
            return f'{{{{ template "value" {of} }}}}'
        value = (
            '{{ if eq (printf "%T" $value) "map[string]interface {}" }}'
            + self._any("$value", level + 1, depth - 1)
            + '{{ else }}{{ template "value" $value }}'
            + END
        )
        return (
            _go("{" + self._line(level + 1))
            + f"{{{{ $comma := `` }}}}{{{{ range $name, $value := {of} }}}}"
            + '{{ $comma }}{{ template "text" $name }}{{ ": " }}'
            + value
            + f"{{{{ $comma = {json.dumps(self._comma(level + 1))} }}}}{END}"
            + _go(self._line(level) + "}")
        )


END = "{{ end }}"
