"""Secrets as they look in text, and what they are replaced by.

A pattern is tried only where one of its signs is in the text, so that clean text costs next to
nothing. What only looks like a secret (a placeholder, a type, a call that fetches one) stays.
"""

import re
from dataclasses import dataclass
from functools import lru_cache, partial

__all__ = ["Pattern", "is_secret_name", "marker", "patterns_for", "redact_text"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret; only the group `secret` is replaced."""

    kind: str
    signs: tuple[str, ...]
    """In lower case; one of them is in every text that has such a secret."""
    expression: re.Pattern[str]


def _pattern(kind: str, signs: str, expression: str) -> Pattern:
    return Pattern(kind, tuple(signs.split()), re.compile(expression))


def _token(kind: str, sign: str, expression: str) -> Pattern:
    """A secret that is known by how it begins."""
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
    # In quotes anything but a placeholder is taken for the secret itself.
    _pattern(
        "password",
        NAME_SIGNS,
        rf"(?i:{SECRET_NAME})[\"']?\s*(?:=>|:=|[:=])\s*(?P<quote>[\"'])"
        r"(?P<secret>(?![$<{*%\[])[^\"'\n]{6,512})(?P=quote)",
    ),
    # Without quotes it must be the value of a shell variable, or have a digit and no code in it.
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
    """What stands where a secret stood.

    >>> marker("github-token")
    '[redacted:github-token]'
    """
    return f"[redacted:{kind}]"


def patterns_for(text: str) -> tuple[Pattern, ...]:
    """The patterns whose signs are in a text: no other can be found in any part of it."""
    lowered = text.lower()
    return tuple(p for p in PATTERNS if any(sign in lowered for sign in p.signs))


def redact_text(text: str, patterns: tuple[Pattern, ...] | None = None) -> tuple[str, list[str]]:
    """The text without its secrets, and the kinds of those that were in it.

    Args:
        text: Any text.
        patterns: Those that may be in it, where the caller has looked already.

    >>> redact_text("export TOKEN=abc123def456")
    ('export TOKEN=[redacted:password]', ['password'])
    """
    found: list[str] = []
    for pattern in patterns_for(text) if patterns is None else patterns:
        text = pattern.expression.sub(partial(_replaced, pattern, found), text)
    return text, found


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether what a field of this name holds is a secret by its name alone.

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
