"""`Redactor`: removes secrets from traces before they are stored.

A pattern is tried only where one of its literal signs is in the text, so that clean text is cheap.
Placeholders, types and code that fetches a secret are not redacted.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.core.task import JSON, Task
from practicum.core.trace import UNTOKENISED, Message, Node, Trace


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret; only the group `secret` is replaced."""

    kind: str
    signs: tuple[str, ...]
    """Lower-case substrings, of which every such secret or its context has one."""
    expression: re.Pattern[str]


def _pattern(kind: str, signs: str, expression: str) -> Pattern:
    return Pattern(kind, tuple(signs.split()), re.compile(expression))


def _token(kind: str, sign: str, expression: str) -> Pattern:
    """A secret with a known prefix."""
    return _pattern(kind, sign, rf"(?<![A-Za-z0-9_-])(?P<secret>{expression})(?![A-Za-z0-9_])")


SECRET_NAME = (
    r"(?:password|passwd|passphrase|secret|secret[_-]?key|api[_-]?key|access[_-]?key|account[_-]?key"
    r"|client[_-]?secret|private[_-]?key|(?:auth|access|refresh|api|bot)[_-]?token|credentials?)"
)
NAME_SIGNS = "password passwd passphrase secret key token credential"

PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        "private-key",
        "private",
        r"(?P<secret>-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[\s\S]*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|[\s\S]*))",
    ),
    _token("jwt", "eyj", r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
    _token("anthropic-key", "sk-ant-", r"sk-ant-[\w-]{20,}"),
    _token(
        "api-key",
        "sk-",
        r"sk-(?:[A-Za-z0-9]{1,10}-){0,3}(?=[\w-]*\d)[A-Za-z0-9_]{16,}[\w-]*",
    ),
    _token(
        "github-token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{22,}",
    ),
    _token("gitlab-token", "glpat-", r"glpat-[\w-]{20,}"),
    _token("slack-token", "xox", r"xox[abeoprs]-(?=[A-Za-z-]*\d)[A-Za-z0-9-]{10,}"),
    _pattern(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/services/(?P<secret>T\w+/B\w+/\w{16,})",
    ),
    _token("aws-key", "akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    _token("google-key", "aiza", r"AIza[\w-]{35}"),
    _token("google-token", "ya29. gocspx-", r"ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}"),
    _token("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    _token("stripe-key", "k_live_ k_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _token("sendgrid-key", "sg.", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    _token("twilio-key", "sk", r"SK[0-9a-f]{32}"),
    _token("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _token("package-index-token", "pypi-", r"pypi-AgE[\w-]{20,}"),
    _token("api-key", "gsk_ xai- nvapi- r8_", r"(?:gsk_|xai-|nvapi-|r8_)(?=[\w-]*\d)[\w-]{30,}"),
    _pattern(
        "bearer-token",
        "bearer",
        r"(?i:\bbearer)\s+(?P<secret>(?=[^\s\"']*\d)[A-Za-z0-9._~+/-]{16,}=*)",
    ),
    _pattern(
        "basic-login",
        "basic",
        r"(?i:\bauthorization\b[\"']?\s*[:=]\s*[\"']?basic)\s+(?P<secret>[A-Za-z0-9+/]{8,}=*)",
    ),
    _pattern(
        "password", "://", r"[A-Za-z][\w+.-]*://[^\s:/@\"']*:(?P<secret>[^\s@/\"'<>${}*]{1,256})@"
    ),
    # In quotes, anything but a placeholder counts as the secret.
    _pattern(
        "password",
        NAME_SIGNS,
        rf"(?i:{SECRET_NAME})[\"']?\s*(?:=>|:=|[:=])\s*(?P<quote>[\"'])"
        r"(?P<secret>(?![$<{*%\[])[^\"'\n]{6,512})(?P=quote)",
    ),
    # Without quotes: only values of shell variables, or values with a digit that are not code.
    _pattern(
        "password",
        NAME_SIGNS,
        r"\b[A-Z0-9_]*(?:PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_?KEY|TOKEN)="
        r"(?P<secret>(?![$<{*%\[(\"'])[^\s\"'`;&|()<>]{6,512})",
    ),
    _pattern(
        "password",
        NAME_SIGNS,
        rf"(?i:{SECRET_NAME})[\"']?\s*[:=]\s*"
        r"(?P<secret>(?![$<{*%\[(\"'])(?=[^\s\"',;]*\d)[^\s\"',;()\[\]{}<>]{6,512})(?![(\[])",
    ),
)
SECRET_FIELD = re.compile(rf"(?i:(?:.*[^a-z])?|.*){SECRET_NAME}\Z", re.IGNORECASE)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def marker(kind: str) -> str:
    """The replacement of a secret.

    >>> marker("github-token")
    '[redacted:github-token]'
    """
    return f"[redacted:{kind}]"


def patterns_for(text: str) -> tuple[Pattern, ...]:
    """The patterns that may match in a text or any part of it."""
    lowered = text.lower()
    return tuple(p for p in PATTERNS if any(sign in lowered for sign in p.signs))


def redact_text(text: str, patterns: tuple[Pattern, ...] | None = None) -> tuple[str, list[str]]:
    """The text without its secrets, and the kinds of those found.

    Args:
        text: Any text.
        patterns: `patterns_for` the text, where known already.

    >>> redact_text("export TOKEN=abc123def456")
    ('export TOKEN=[redacted:password]', ['password'])
    """
    found: list[str] = []
    for pattern in patterns_for(text) if patterns is None else patterns:
        text = pattern.expression.sub(partial(_replaced, pattern, found), text)
    return text, found


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret.

    >>> [is_secret_name(name) for name in ("dbPassword", "api-key", "max_tokens", "keyboard")]
    [True, True, False, False]
    """
    return SECRET_FIELD.match(CAMEL.sub("_", name)) is not None


def _replaced(pattern: Pattern, found: list[str], match: re.Match[str]) -> str:
    secret = match["secret"]
    if secret.startswith("[redacted:") or "redacted" in secret.lower():
        return match[0]
    found.append(pattern.kind)
    start, end = match.start("secret") - match.start(), match.end("secret") - match.start()
    return match[0][:start] + marker(pattern.kind) + match[0][end:]


SHORTEST = 4
"""Fewest characters of a value that is redacted because of its field's name."""


class Redactor:
    """Removes secrets from records, and counts them by kind."""

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
        """A JSON value without its secrets; in a field with a secret name all text goes."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if isinstance(value, Mapping):
            return self.fields(value)
        return value

    def fields(self, values: Mapping[str, JSON]) -> dict[str, JSON]:
        """An object without its secrets."""
        return {name: self._field(name, value) for name, value in values.items()}

    def episode(self, episode: Episode) -> Episode:
        """An episode without its secrets.

        If any was found in the trace, its token ids are removed too: they still spell the secret.
        """
        outcome = episode.outcome
        if outcome is not None and outcome.evidence:
            outcome = replace(outcome, evidence=self.fields(outcome.evidence))
        return replace(episode, trace=self._trace(episode.trace), outcome=outcome)

    def task(self, task: Task) -> Task:
        """A task without its secrets."""
        return replace(task, instruction=self.text(task.instruction), data=self.fields(task.data))

    def label(self, label: Label) -> Label:
        """A label without the secrets of its note and its correction."""
        if not label.note and not label.correction:
            return label
        note, correction = self.text(label.note), self.text(label.correction)
        return replace(label, note=note, correction=correction)

    def _field(self, name: str, value: JSON) -> JSON:
        if isinstance(value, str) and len(value) >= SHORTEST and is_secret_name(name):
            if value.startswith(("$", "<", "{", "[redacted:")):
                return value
            self.counts["password"] += 1
            return marker("password")
        return self.value(value)

    def _trace(self, trace: Trace) -> Trace:
        before = self.counts.total()
        # Find the patterns once for the whole trace, not for each message.
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
