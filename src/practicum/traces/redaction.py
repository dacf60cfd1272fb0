"""`Redactor`: removes secrets from traces before they are stored.

Every text of a record is looked through, wherever it is: messages, names and ids of calls, keys of
objects, descriptions and defaults of tools, evidence, failures; and where one message ends and the
next begins, since a token may be cut in two there. Placeholders, types and code that fetches a
secret stay.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, TypeVar

from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.core.task import JSON, Task
from practicum.core.trace import UNTOKENISED, Node, Trace
from practicum.traces.secret_rules import SECRET_NAME, Found, Rule, rules_for

Record = TypeVar("Record")

SECRET_FIELD = re.compile(rf"(?:.*[^a-z]|){SECRET_NAME}s?\Z|.*(?:{SECRET_NAME})\Z", re.IGNORECASE)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
LONGEST_NAME = 64
"""Characters at the end of a field's name that are looked at."""
VALUE_WORDS = frozenset({"default", "example", "examples", "const", "enum", "value", "values"})
"""Keys of a JSON schema that hold values of the field it describes."""
SHORTEST = 4
"""Fewest characters of a value that is redacted because of its field's name."""
MOST_SECRETS = 5_000
"""A text with more of them is made of them, or to cost time: nothing of it is kept."""
TOO_MANY = ["text-of-secrets"]
PROBE = 1 << 22
"""Bytes of a text from which a quarter of so many characters is tried first for that."""
SEAM = 256
"""Characters on either side of the place where one message ends and the next begins."""


def marker(kind: str) -> str:
    """The replacement of a secret.

    >>> marker("github-token")
    '[redacted:github-token]'
    """
    return f"[redacted:{kind}]"


def redact_text(text: str, rules: Sequence[Rule] | None = None) -> tuple[str, list[str]]:
    """The text without its secrets, and the kinds of those found.

    Args:
        text: Any text.
        rules: `rules_for` the text or one that it is part of, where known already.

    >>> redact_text("export TOKEN=abc123def456")
    ('export TOKEN=[redacted:password]', ['password'])
    """
    raw = _raw(text)
    if len(raw) > PROBE and redact_text(text[: PROBE // 4], rules)[1] == TOO_MANY:
        return marker(*TOO_MANY), TOO_MANY
    kinds: list[str] = []
    for rule in rules_for(raw) if rules is None else rules:
        new = (one for one in rule.find(raw) if not _is_marked(raw, one))
        found = list(islice(new, MOST_SECRETS + 1))
        if found:
            kinds += [rule.kind] * len(found)
            if len(kinds) > MOST_SECRETS:
                return marker(*TOO_MANY), TOO_MANY
            raw = _cut(raw, found)
    return (raw.decode("utf-8", "surrogatepass"), kinds) if kinds else (text, [])


def _is_marked(raw: bytes, found: Found) -> bool:
    """Whether it is a marker, or a part of one, that stands where a secret was."""
    begin = raw.rfind(b"[redacted:", max(0, found.start - LONGEST_NAME), found.end)
    return begin >= 0 and raw.find(b"]", begin) >= found.start


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _cut(raw: bytes, found: Sequence[Found]) -> bytes:
    """The text with a marker in the place of each secret; they are in order and do not overlap."""
    pieces, at = [], 0
    for secret in found:
        pieces += [raw[at : secret.start], marker(secret.kind).encode()]
        at = secret.end
    return b"".join([*pieces, raw[at:]])


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret.

    >>> [is_secret_name(name) for name in ("dbPassword", "api-key", "max_tokens", "keyboard")]
    [True, True, False, False]
    """
    return SECRET_FIELD.match(CAMEL.sub("_", name[-LONGEST_NAME:])) is not None


class Redactor:
    """Removes secrets from records, and counts them by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._rules: Sequence[Rule] | None = None
        """Those that may match in the record under way."""

    def text(self, text: str) -> str:
        """A text without its secrets."""
        if not text or self._rules == ():
            return text
        clean, found = redact_text(text, self._rules)
        self.counts.update(found)
        return clean

    def episode(self, episode: Episode) -> Episode:
        """An episode without its secrets.

        If any was found in the trace, its token ids are removed too: they still spell the secret.
        """
        before = self.counts.total()
        seams = _seams(episode.trace)
        clean = self._record(episode, "\n".join(seams))
        if seams and self._may_be_cut(seams):
            clean = replace(clean, trace=self._without_cut_tokens(clean.trace))
        if self.counts.total() > before:
            nodes = tuple(_without_tokens(node) for node in clean.trace.nodes)
            clean = replace(clean, trace=replace(clean.trace, nodes=nodes))
        return clean

    def task(self, task: Task) -> Task:
        """A task without its secrets."""
        return self._record(task)

    def label(self, label: Label) -> Label:
        """A label without its secrets."""
        return self._record(label)

    def _record(self, record: Record, besides: str = "") -> Record:
        """A record with every text in it redacted; itself where nothing matches."""
        texts = [besides]
        has_secret_names = _gather(record, texts)
        together = _raw("\n".join(texts))
        self._rules = tuple(rule for rule in rules_for(together) if rule.matches(together))
        try:
            clean: Record = self._redacted(record) if self._rules or has_secret_names else record
            return clean
        finally:
            self._rules = None

    def value(self, value: JSON) -> JSON:
        """A JSON value without its secrets; in a field with a secret name all text goes."""
        redacted: JSON = self._redacted(value)
        return redacted

    def fields(self, values: Mapping[str, JSON]) -> dict[str, JSON]:
        """An object without its secrets, its keys too."""
        return {self.text(name): self._field(name, value) for name, value in values.items()}

    def _redacted(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is list or kind is tuple:
            if not value or isinstance(value[0], int | float):
                return value  # token ids and numbers
            return kind(self._redacted(one) for one in value)
        if isinstance(value, Mapping):
            return self.fields(value)
        changes = {}
        for name in _names(kind):
            old = getattr(value, name)
            clean = self._redacted(old) if old else old
            if clean is not old:
                changes[name] = clean
        return replace(value, **changes) if changes else value

    def _field(self, name: str, value: JSON) -> JSON:
        if not is_secret_name(name):
            return self.value(value)
        if isinstance(value, Mapping):
            # A schema of the field, or an object whose own keys say which of its values are secret.
            return {
                self.text(key): self._hidden(one) if key in VALUE_WORDS else self._field(key, one)
                for key, one in value.items()
            }
        return self._hidden(value)

    def _hidden(self, value: JSON) -> JSON:
        """A value that is secret for its name."""
        if isinstance(value, list):
            return [self._hidden(one) for one in value]
        if isinstance(value, Mapping):
            return self.fields(value)
        if isinstance(value, bool) or value is None or len(str(value)) < SHORTEST:
            return value
        if str(value).startswith(("$", "<", "{", "[redacted:")):
            return value
        self.counts["password"] += 1
        return marker("password")

    def _may_be_cut(self, seams: Sequence[str]) -> bool:
        return any(rule.is_token for rule in rules_for(_raw("\n".join(seams))))

    def _without_cut_tokens(self, trace: Trace) -> Trace:
        """The trace without both parts of each token that two messages hold together."""
        contents = [message.content for node in trace.nodes for message in node.messages]
        for number in range(len(contents) - 1):
            left, right = contents[number].rstrip(), contents[number + 1].lstrip()
            tail, head = _raw(left[-SEAM:]), _raw(right[:SEAM])
            for found in _across(tail, head):
                self.counts[found.kind] += 1
                kept = len(_raw(left)) - len(tail) + found.start
                contents[number] = _part(left, 0, kept) + marker(found.kind)
                contents[number + 1] = marker(found.kind) + _part(right, found.end - len(tail))
                break
        told = iter(contents)
        nodes = tuple(
            replace(node, messages=tuple(replace(m, content=next(told)) for m in node.messages))
            for node in trace.nodes
        )
        return replace(trace, nodes=nodes)


def _across(tail: bytes, head: bytes) -> Iterator[Found]:
    """Tokens that begin in the one and end in the other."""
    joined = tail + head
    for rule in rules_for(joined):
        if rule.is_token:
            for found in rule.find(joined):
                if (
                    found.start < len(tail) < found.end
                    and b"[redacted:" not in joined[found.start : found.end]
                ):
                    yield found


def _part(text: str, start: int, end: int | None = None) -> str:
    """A part of a text by its bytes."""
    return _raw(text)[start:end].decode("utf-8", "replace")


def _seams(trace: Trace) -> list[str]:
    """The end of each message with the beginning of the next."""
    contents = [message.content for node in trace.nodes for message in node.messages]
    return [
        one.rstrip()[-SEAM:] + two.lstrip()[:SEAM] for one, two in pairwise(contents) if one and two
    ]


def _gather(value: Any, texts: list[str]) -> bool:
    """Add every text in a record, keys of objects too; whether a key names a secret."""
    kind = type(value)
    if kind is str:
        texts.append(value)
        return False
    named = False
    if isinstance(value, Mapping):
        for key, one in value.items():
            texts.append(key)
            named = is_secret_name(key) or named
            if one:
                named = _gather(one, texts) or named
    elif kind is tuple or kind is list:
        if not isinstance(value[0], int | float):
            for one in value:
                if one:
                    named = _gather(one, texts) or named
    else:
        for name in _names(kind):
            if one := getattr(value, name):
                named = _gather(one, texts) or named
    return named


NO_TEXT = frozenset({"token_ids", "sampled", "role", "stop"})
"""Fields of records that hold no free text."""


_names_of: dict[type[Any], tuple[str, ...]] = {}


def _names(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a record that may hold text; none of what is no record."""
    if kind not in _names_of:
        known = fields(kind) if is_dataclass(kind) else ()
        _names_of[kind] = tuple(field.name for field in known if field.name not in NO_TEXT)
    return _names_of[kind]


def _without_tokens(node: Node) -> Node:
    return replace(node, token_ids=(), sampled=UNTOKENISED if node.sampled else None)
