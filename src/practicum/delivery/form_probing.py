"""Finds out what a chat template does by trying it, and refuses one that does more than that.

Short conversations of marks show what stands between them. Whether the template does no more than
that is tried on many conversations: one that does is refused instead of being written almost right.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from practicum.core.errors import UserError
from practicum.delivery.sample_conversations import sample_conversations
from practicum.delivery.turn_form import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Messages,
    ToolForm,
    Tools,
    TurnForm,
)

Render = Callable[[Messages, Tools, bool], str]
"""Messages, tools, and whether the assistant's next turn is begun, to a text."""

MARKS = {SYSTEM: "QXSYSTEMXQ", USER: "QXUSERXQ", ASSISTANT: "QXASSISTANTXQ", "last": "QXLASTXQ"}
RESULTS = ("QXRESULTXQ", "QXFOLLOWINGXQ")
INDENTS = (None, 2, 4)
FEWEST = 150
"""Conversations that have to come out the same."""


def find_form(render: Render, source: str = "") -> TurnForm:
    """What a chat template does.

    Args:
        render: Renders conversations with it.
        source: Its text.

    Raises:
        UserError: the template does something that cannot be written for Go.
    """
    if "strftime_now" in source:
        raise _refused("writes the date of the day")
    guarded = _guarded(render)
    try:
        form = _try(guarded)
    except ValueError as error:
        raise _refused("does more than put marks around each turn") from error
    compared = 0
    for messages, tools in sample_conversations():
        if form.tools is None and (tools or any(m["role"] == TOOL for m in messages)):
            continue  # Ollama hands tools to no template that does not name them
        try:
            expected = guarded(messages, tools, True)
        except ValueError:
            continue  # the template refuses the conversation
        if any(m["role"] == SYSTEM for m in messages[1:]) and SYSTEM not in form.openings:
            raise _refused("places a later system message otherwise than others")
        if form.render(messages, tools) != expected:
            what = "changes tools, calls or results" if tools else "changes what is in the messages"
            raise _refused(what)
        compared += 1
    if compared < FEWEST:
        raise _refused("refuses most conversations")
    return form


def _refused(what: str) -> UserError:
    return UserError(
        f"the model's chat template {what}, and a TEMPLATE for it might say wrongly; export the "
        "file alone with --to gguf, whose template llama.cpp uses"
    )


def _guarded(render: Render) -> Render:
    """The same, with one kind of error for whatever a template raises."""

    def guarded(messages: Messages, tools: Tools, begin_turn: bool) -> str:
        try:
            return render(messages, tools, begin_turn)
        except Exception as error:
            raise ValueError(str(error)) from error

    return guarded


def _turn(role: str, mark: str | None = None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": MARKS[mark or role], **more}


def _try(render: Render) -> TurnForm:
    system, user, assistant, last = (
        _turn(SYSTEM),
        _turn(USER),
        _turn(ASSISTANT),
        _turn(USER, "last"),
    )
    full = render([system, user, assistant, last], (), True)
    before, after_system, after_user, after_assistant, end = _split(full, list(MARKS.values()))
    ended = render([user, assistant, last], (), False)
    closing_user = ended.partition(MARKS["last"])[2]
    closing_assistant = render([user, assistant], (), False).partition(MARKS[ASSISTANT])[2]
    opening_user = _without_start(after_assistant, closing_assistant)
    without_system = render([user], (), False).partition(MARKS[USER])[0]
    openings = {USER: opening_user, ASSISTANT: _without_start(after_user, closing_user)}
    closings = {
        SYSTEM: _without_end(after_system, opening_user),
        USER: closing_user,
        ASSISTANT: closing_assistant,
    }
    shown = render([user, {**assistant, "reasoning_content": "QXTHOUGHTXQ"}, last], (), True)
    told = render([user, {**assistant, "thinking": "QXTHOUGHTXQ"}, last], (), True)
    if "QXTHOUGHTXQ" in shown + told:
        raise _refused("writes thinking in a form of its own")
    form = TurnForm(
        lead=_without_end(without_system, opening_user),
        system=before,
        openings=openings,
        closings=closings,
        prompt=_without_start(end, closing_user),
        is_trimmed=_trims(render),
    )
    later = _later_opening(render, form)
    openings |= {} if later is None else {SYSTEM: later}
    return replace(form, openings=openings, tools=_try_tools(render, form))


def _trims(render: Render) -> bool:
    spaced = render([{"role": USER, "content": f" \n{MARKS[USER]}\n "}], (), True)
    return spaced == render([_turn(USER)], (), True)


def _later_opening(render: Render, form: TurnForm) -> str | None:
    """What stands before a system message that does not come first; None where it is refused."""
    try:
        text = render([_turn(USER), _turn(ASSISTANT), _turn(SYSTEM), _turn(USER, "last")], (), True)
        between = text.partition(MARKS[ASSISTANT])[2].partition(MARKS[SYSTEM])[0]
        return _without_start(between, form.closings[ASSISTANT])
    except ValueError:
        return None


def _tool(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    return {
        "type": "function",
        "function": {"name": name, "description": "Does.", "parameters": parameters},
    }


def _call(name: str, key: str) -> dict[str, Any]:
    return {
        "id": "call00001",
        "type": "function",
        "function": {"name": name, "arguments": {key: 1}},
    }


def _try_tools(render: Render, form: TurnForm) -> ToolForm | None:
    tools = [_tool("qxone"), _tool("qxtwo")]
    user = _turn(USER)
    with_tools = render([_turn(SYSTEM), user], tools, True)
    if with_tools == render([_turn(SYSTEM), user], (), True):
        return None
    for indent in INDENTS:
        listed = [json.dumps(tool, ensure_ascii=False, indent=indent) for tool in tools]
        if all(text in with_tools for text in listed):
            break
    else:
        raise _refused("writes tools otherwise than as JSON")
    opening, before, between, after, _ = _split(with_tools, [MARKS[SYSTEM], *listed, MARKS[USER]])
    lead = render([user], tools, True).partition(listed[0])[0]
    joins_user = not after.endswith(form.openings[USER])
    return ToolForm(
        lead=lead,
        opening=opening,
        before=before,
        between=between,
        after=after if joins_user else _without_end(after, form.openings[USER]),
        indent=indent,
        joins_user=joins_user,
        **_try_calls(render, form),
        **_try_results(render, form),
    )


def _try_calls(render: Render, form: TurnForm) -> dict[str, Any]:
    """The fields of `ToolForm` that write calls."""
    names, keys = ("qxfirst", "qxsecond"), ("qxa", "qxb")
    calls = [_call(name, key) for name, key in zip(names, keys, strict=True)]
    told = [f'{{"{key}": 1}}' for key in keys]

    def turn(content: str, calls: Sequence[Mapping[str, Any]]) -> str:
        message = {"role": ASSISTANT, "content": content, "tool_calls": calls}
        text = render([_turn(USER), message, _turn(USER, "last")], (), True)
        head = form.lead + form.openings[USER] + MARKS[USER] + form.closings[USER]
        tail = form.openings[USER] + MARKS["last"] + form.closings[USER] + form.prompt
        return _without_end(_without_start(text, head), tail)

    alone = turn("", calls[:1])
    begin, middle, finish = _split(alone, [names[0], told[0]])
    try:
        both = _split(turn("", calls), [names[0], told[0], names[1], told[1]])
    except ValueError:  # one call at a time
        end, start = "", begin[len(_common(begin, form.openings[ASSISTANT])) :]
    else:
        end = _common(both[2], finish)
        start = _without_start(both[2], end)
    beside = turn(MARKS[ASSISTANT], calls[:1])
    shows_content = MARKS[ASSISTANT] in beside
    if shows_content:
        with_content, after, _ = _split(beside, [MARKS[ASSISTANT], names[0]])
        if after != start:
            raise ValueError(f"calls begin with {after!r} and with {start!r}")
    return {
        "shows_content": shows_content,
        "with_content": with_content if shows_content else "",
        "without_content": _without_end(begin, start),
        "start": start,
        "middle": middle,
        "end": end,
        "closing": _without_start(finish, end),
    }


def _try_results(render: Render, form: TurnForm) -> dict[str, Any]:
    """The fields of `ToolForm` that write results."""
    calls = [_call("qxfirst", "qxa")]
    asked = [_turn(USER), {"role": ASSISTANT, "content": "", "tool_calls": calls}]

    def after(*results: str) -> str:
        answers = [{"role": TOOL, "content": r, "tool_call_id": "call00001"} for r in results]
        text = render([*asked, *answers, _turn(USER, "last")], (), True)
        rest = _without_start(text, render(asked, (), False))
        return rest.partition(form.openings[USER] + MARKS["last"])[0]

    opening, between, closing = _split(after(*RESULTS), list(RESULTS))
    first, last = _split(after(RESULTS[0]), [RESULTS[0]])
    if (first, last) != (opening, closing):
        raise ValueError("one result is written otherwise than two")
    # Between two results stands the end of one and the beginning of the next.
    result_after = _common(between, closing)
    result_before = _without_start(between, result_after)
    quotes = result_before.endswith('"') and result_after.startswith('"')
    return {
        "result_opening": _without_end(opening, result_before),
        "result_before": result_before.removesuffix('"') if quotes else result_before,
        "result_after": result_after.removeprefix('"') if quotes else result_after,
        "result_closing": _without_start(closing, result_after),
        "quotes_results": quotes,
    }


def _common(left: str, right: str) -> str:
    """The beginning that two texts share."""
    at = 0
    while at < min(len(left), len(right)) and left[at] == right[at]:
        at += 1
    return left[:at]


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
