"""A chat template in which each turn is a mark, the content and an end: found out, and rewritten.

Ollama renders conversations with Go's `text/template`, not with Jinja. What a Jinja template does
is found out by trying it, and whether it does no more than that is tried on many conversations; a
template that does more is refused instead of being written almost right.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from practicum.core.errors import UserError

Conversation = Sequence[Mapping[str, str]]
Render = Callable[[Conversation, bool], str]
"""Messages with role and content, and whether the assistant's next turn is begun, to a text."""

SYSTEM, USER, ASSISTANT = "system", "user", "assistant"
MARKS = {SYSTEM: "QXSYSTEMXQ", USER: "QXUSERXQ", ASSISTANT: "QXASSISTANTXQ", "last": "QXLASTXQ"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnForm:
    """What stands around the contents of a conversation."""

    lead: str
    """Before the first turn where no system message comes first."""
    openings: Mapping[str, str]
    """By role; the system's includes what begins a conversation."""
    closings: Mapping[str, str]
    prompt: str
    """What begins the assistant's next turn."""

    def render(self, messages: Conversation, begin_turn: bool) -> str:
        """The text of a conversation."""
        has_system = bool(messages) and messages[0]["role"] == SYSTEM
        turns = [
            self.openings[m["role"]] + m["content"] + self.closings[m["role"]] for m in messages
        ]
        lead = "" if has_system else self.lead
        return lead + "".join(turns) + (self.prompt if begin_turn else "")

    def as_go(self) -> str:
        """The same in Go's `text/template`, for a conversation that the assistant goes on with."""
        roles = list(self.openings)
        branches = "{{ else }}".join(
            f'{{{{ if eq .Role "{role}" }}}}{_go(self.openings[role])}{{{{ .Content }}}}'
            f"{_go(self.closings[role])}"
            for role in roles
        )
        turns = "{{ range .Messages }}" + branches + "{{ end }}" * len(roles) + "{{ end }}"
        lead = ""
        if self.lead:
            first = '(eq (index .Messages 0).Role "system")'
            lead = f"{{{{ if not (and .Messages {first}) }}}}{_go(self.lead)}{{{{ end }}}}"
        return lead + turns + _go(self.prompt)


def _go(text: str) -> str:
    """A text as an action that prints it, so that no white space is trimmed away."""
    return f"{{{{ {json.dumps(text, ensure_ascii=False)} }}}}" if text else ""


def find_form(render: Render) -> TurnForm:
    """What a chat template does, found out by trying it; refused where it does something else.

    Raises:
        UserError: the template cannot be written so.
    """
    try:
        form = _try(render)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(REFUSED) from error
    for messages in conversations():
        if _rendered(render, messages) != form.render(messages, True):
            raise UserError(REFUSED)
    return form


REFUSED = (
    "the model's chat template does more than put marks around each turn, and a TEMPLATE for it "
    "might say wrongly; export the file alone with --to gguf, whose template llama.cpp uses"
)


def _try(render: Render) -> TurnForm:
    def turn(role: str, mark: str | None = None) -> dict[str, str]:
        return {"role": role, "content": MARKS[mark or role]}

    full = render([turn(SYSTEM), turn(USER), turn(ASSISTANT), turn(USER, "last")], True)
    before, after_system, after_user, after_assistant, end = _split(full, list(MARKS.values()))
    ended = render([turn(USER), turn(ASSISTANT), turn(USER, "last")], False)
    closing_user = ended.partition(MARKS["last"])[2]
    closing_assistant = render([turn(USER), turn(ASSISTANT)], False).partition(MARKS[ASSISTANT])[2]
    opening_user = _without_start(after_assistant, closing_assistant)
    without_system = render([turn(USER)], False).partition(MARKS[USER])[0]
    return TurnForm(
        lead=_without_end(without_system, opening_user),
        openings={
            SYSTEM: before,
            USER: opening_user,
            ASSISTANT: _without_start(after_user, closing_user),
        },
        closings={
            SYSTEM: _without_end(after_system, opening_user),
            USER: closing_user,
            ASSISTANT: closing_assistant,
        },
        prompt=_without_start(end, closing_user),
    )


def _split(text: str, marks: Sequence[str]) -> list[str]:
    pieces = []
    for mark in marks:
        piece, found, text = text.partition(mark)
        if not found or mark in text:
            raise ValueError(f"{mark} is not there once")
        pieces.append(piece)
    return [*pieces, text]


def _without_start(text: str, start: str) -> str:
    if not text.startswith(start):
        raise ValueError(f"{text!r} does not begin with {start!r}")
    return text[len(start) :]


def _without_end(text: str, end: str) -> str:
    if not text.endswith(end):
        raise ValueError(f"{text!r} does not end with {end!r}")
    return text[: len(text) - len(end)]


def _rendered(render: Render, messages: Conversation) -> str | None:
    """None where the template refuses the conversation."""
    try:
        return render(messages, True)
    except (ValueError, TypeError, KeyError):
        return None


CONTENTS = (
    "Solve 3x + 7 = 16.",
    "  space around  ",
    "two\nlines\n",
    "",
    'quotes " and \\ and {{ braces }} and {% signs %}',
    "ünïcödé 漢字 🙂",
    '<tool_call>\n{"name": "bash"}\n</tool_call>',
    "<think>\nI wonder.\n</think>\n\nYes.",
)
"""Contents that templates are known to change: they trim, drop thinking, or read calls."""


def conversations() -> Iterator[list[dict[str, str]]]:
    """Conversations on which a template must do what its form says, some hundreds of them."""
    for turns, has_system in itertools.product(range(1, 7), (False, True)):
        for shift in range(3 * len(CONTENTS)):
            roles = [SYSTEM] * has_system + [USER, ASSISTANT] * turns
            roles = roles[: has_system + 2 * turns - 1]
            yield [
                {"role": role, "content": CONTENTS[(shift + at * (1 + shift // 8)) % len(CONTENTS)]}
                for at, role in enumerate(roles)
            ]
