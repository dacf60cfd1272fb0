"""The `--where` language: parsed to SQL with bound parameters, so that no injection is possible.

    success and score >= 0.5
    source = openhands-v0 and not (label = none)
    task ~ "chmod" or created >= 2026-01-31

A condition is a field, an operator and a value. Conditions are combined by `and`, `or`, `not` and
parentheses. An unknown value (no score, no label) matches no comparison but `= none`. Unlike SQL's
NULL, `not` and `!=` are exact opposites: each episode matches a condition or its negation.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple, NoReturn

from practicum.core.errors import UserError
from practicum.core.trace import StopReason

Kind = Literal["text", "number", "truth", "time"]


class Field(NamedTuple):
    """A field of the language: its SQL expression, type and meaning."""

    sql: str
    kind: Kind
    meaning: str
    values: tuple[str, ...] = ()
    """All there can be, where they are few."""


_LABEL = (
    "(SELECT l.value FROM labels AS l WHERE l.episode_id = e.id AND l.is_suggestion = {} "
    "ORDER BY l.row DESC LIMIT 1)"
)
FIELDS: dict[str, Field] = {
    "success": Field("e.success", "truth", "whether the task was done"),
    "score": Field("e.score", "number", "what it scored"),
    "env": Field("e.env", "text", "its environment"),
    "source": Field("e.source", "text", "what recorded it"),
    "model": Field("e.model", "text", "the model that acted"),
    "task": Field("e.task_id", "text", "the id of its task"),
    "level": Field("e.level", "number", "its task's difficulty, where the task is stored"),
    "id": Field("e.id", "text", "its own id"),
    "purpose": Field("e.purpose", "text", "train, eval, import, record or traffic"),
    "stop": Field("e.stop", "text", "why it ended", tuple(StopReason)),
    "label": Field(_LABEL.format(0), "number", "the newest label a person gave, 0 to 1"),
    "suggested": Field(_LABEL.format(1), "number", "the newest label that was suggested"),
    "turns": Field("e.n_turns", "number", "how many turns the model took"),
    "tokens": Field("e.sampled_tokens", "number", "how many tokens it sampled"),
    "step": Field("e.step", "number", "the training step it was made in"),
    "created": Field("e.created_at", "time", "when it began, or was stored"),
}
"""All fields, as SQL over `current_episodes AS e`."""

TOKEN = re.compile(
    r"""\s*(?:
        (?P<bracket>[()])
      | (?P<operator><=|>=|!=|==|=|<|>|~)
      | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<word>[^\s()<>=!~"']+)
    )""",
    re.VERBOSE,
)
ALLOWED: dict[Kind, tuple[str, ...]] = {
    "text": ("=", "!=", "~"),
    "truth": ("=", "!="),
    "number": ("=", "!=", "<", "<=", ">", ">="),
    "time": ("=", "!=", "<", "<=", ">", ">="),
}
JOINS = ("and", "or", "not")
MAX_DEPTH = 50
"""Nested parentheses; the parser is recursive."""


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL with placeholders, and the values to bind."""

    sql: str
    values: tuple[str | float, ...] = ()


def parse_where(text: str) -> Condition:
    """Parse a condition; an empty text matches every episode.

    >>> parse_where("score >= 0.5 and env = math")
    Condition(sql='(e.score >= ? AND e.env = ?)', values=(0.5, 'math'))

    Raises:
        UserError: One sentence with the place in the text.
    """
    return _Parser(text).whole() if text.strip() else Condition("1")


def not_evaluated(where: str) -> str:
    """The condition without evaluation episodes, which must not be trained on.

    >>> not_evaluated("success or score > 0")
    '(success or score > 0) and purpose != eval'
    """
    return f"({where}) and purpose != eval" if where.strip() else "purpose != eval"


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._read()
        self._next = 0
        self._depth = 0

    def whole(self) -> Condition:
        condition = self._any()
        if (left := self._peek()) is not None:
            self._fail(left, "write and, or between two conditions")
        return condition

    def _read(self) -> list[_Token]:
        tokens, at = [], 0
        text = self._text.rstrip()
        while at < len(text):
            match = TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                rest = text[at:].lstrip()
                raise UserError(
                    f"--where {self._text!r} cannot be read at {rest[:20]!r}; put texts with "
                    "spaces or signs into double quotes"
                )
            tokens.append(
                _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
            )
            at = match.end()
        return tokens

    def _any(self) -> Condition:
        parts = [self._all()]
        while self._takes("or"):
            parts.append(self._all())
        return _join(parts, "OR")

    def _all(self) -> Condition:
        parts = [self._one()]
        while self._takes("and"):
            parts.append(self._one())
        return _join(parts, "AND")

    def _one(self) -> Condition:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UserError(
                f"--where has more than {MAX_DEPTH} brackets inside each other; use less"
            )
        try:
            if self._takes("not"):
                inner = self._one()
                return Condition(f"NOT COALESCE({inner.sql}, 0)", inner.values)
            token = self._peek()
            if token is not None and token.text == "(" and token.kind == "bracket":
                self._next += 1
                inner = self._any()
                closing = self._peek()
                if closing is None or closing.text != ")":
                    self._fail(closing, "a bracket is not closed; add )")
                self._next += 1
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Condition:
        name = self._take_or_fail("name a field: " + ", ".join(FIELDS))
        field = FIELDS.get(name.text.lower()) if name.kind == "word" else None
        if field is None:
            self._fail(name, "there is no such field; the fields are " + ", ".join(FIELDS))
        sign = self._peek()
        if sign is None or sign.kind != "operator":
            if field.kind == "truth":
                return Condition(f"{field.sql} = ?", (1,))
            self._fail(sign, f"compare {name.text}, as in {name.text} = VALUE")
        self._next += 1
        operator = "=" if sign.text == "==" else sign.text
        value = self._take_or_fail(f"give the value that {name.text} is compared with")
        if value.kind not in ("word", "quoted"):
            self._fail(value, f"give the value that {name.text} is compared with")
        is_none = value.kind == "word" and value.text.lower() == "none"
        allowed = ("=", "!=") if is_none else ALLOWED[field.kind]
        if operator not in allowed:
            what = "none" if is_none else f"{name.text} ({field.meaning})"
            self._fail(sign, f"{what} is compared with {' or '.join(allowed)}")
        if is_none:
            return Condition(f"{field.sql} IS {'NOT ' if operator == '!=' else ''}NULL")
        if operator != "~" and field.values and _unquoted(value) not in field.values:
            self._fail(value, f"{name.text} is one of {', '.join(field.values)}")
        return _compare(field, operator, self._value(field, name.text, value))

    def _value(self, field: Field, name: str, token: _Token) -> str | float:
        text = _unquoted(token)
        if field.kind == "text":
            return text
        if field.kind == "truth":
            if text.lower() not in TRUTHS:
                self._fail(token, f"{name} is true, false or none")
            return TRUTHS[text.lower()]
        try:
            return _seconds(text) if field.kind == "time" else float(text)
        except ValueError:
            example = "a day such as 2026-01-31" if field.kind == "time" else "a number"
            self._fail(token, f"{name} is compared with {example}, or none")

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _takes(self, word: str) -> bool:
        token = self._peek()
        found = token is not None and token.kind == "word" and token.text.lower() == word
        self._next += found
        return found

    def _take_or_fail(self, advice: str) -> _Token:
        token = self._peek()
        if token is None or (token.kind == "word" and token.text.lower() in JOINS):
            self._fail(token, advice)
        self._next += 1
        return token

    def _fail(self, token: _Token | None, advice: str) -> NoReturn:
        place = f"at {token.text!r} (character {token.at + 1})" if token else "at its end"
        raise UserError(f"--where {self._text!r} cannot be read {place}: {advice}")


TRUTHS = {"true": 1, "yes": 1, "1": 1, "false": 0, "no": 0, "0": 0}


def _join(parts: list[Condition], word: str) -> Condition:
    if len(parts) == 1:
        return parts[0]
    sql = f" {word} ".join(part.sql for part in parts)
    return Condition(f"({sql})", tuple(value for part in parts for value in part.values))


def _compare(field: Field, operator: str, value: str | float) -> Condition:
    if operator == "!=":  # IS NOT also matches NULL, as the opposite of = should
        return Condition(f"{field.sql} IS NOT ?", (value,))
    if operator == "~":
        return Condition(f"INSTR(LOWER({field.sql}), LOWER(?)) > 0", (value,))
    return Condition(f"{field.sql} {operator} ?", (value,))


def _unquoted(token: _Token) -> str:
    return re.sub(r"\\(.)", r"\1", token.text[1:-1]) if token.kind == "quoted" else token.text


def _seconds(text: str) -> float:
    """An ISO date or time as seconds since the epoch; UTC unless it has an offset."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
