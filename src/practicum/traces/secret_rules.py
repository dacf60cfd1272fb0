"""Rules that find secrets in text: vendors' formats from gitleaks, and passwords.

`gitleaks_rules.toml` holds gitleaks' own rules as data. The rules here are for what those leave
out: passwords in commands, files and addresses, and tokens that vendors give out in more shapes.

All expressions are RE2's, which takes time in proportion to the text whatever the text is. One pass
over a text finds which keywords it has, and a rule is tried only where one of its own is.
"""

import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

MEMORY_BYTES = 64 << 20
"""What RE2 may use for the states of one expression or set."""
LARGE = 1 << 16
"""Bytes of a text from which the rules that match anywhere in it are found together first."""
SETS = 20
"""Sets that the rules are shared out to for that: one of all would have too many states."""

Check = Callable[[bytes, "Found"], bool]


class Found(NamedTuple):
    """A secret's place in a text, in bytes."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of secret: the first group that matched, or the whole match."""

    kind: str
    keywords: tuple[str, ...]
    """Lower case; a text without any of them has no such secret."""
    expression: str
    check: Check | None = None
    """Whether a match is a secret indeed."""
    is_token: bool = True
    """Whether its form alone makes it a secret, so that it is found when cut in two."""

    def matches(self, text: bytes) -> bool:
        """Whether its expression matches somewhere, before any check."""
        return compiled(self.expression).search(text) is not None

    def find(self, text: bytes) -> Iterator[Found]:
        """All secrets of this kind in a text."""
        expression = compiled(self.expression)
        groups = range(1, expression.groups + 1)
        for match in expression.finditer(text):
            spans = (span for n in groups if (span := match.span(n))[0] < span[1])
            found = Found(self.kind, *next(spans, match.span()))
            if self.check is None or self.check(text, found):
                yield found


@cache
def compiled(expression: str) -> Any:
    """An expression of RE2 over bytes."""
    import re2

    return re2.compile(expression.encode(), _options())


def _options(**changes: bool) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = MEMORY_BYTES
    options.log_errors = False
    for name, value in changes.items():
        setattr(options, name, value)
    return options


def _set_of(expressions: list[str], **changes: bool) -> Any:
    """A set that says in one pass which of the expressions match somewhere."""
    import re2

    made = re2.Set.SearchSet(_options(never_capture=True, **changes))
    for expression in expressions:
        made.Add(expression)
    made.Compile()
    return made


def entropy(secret: bytes) -> float:
    """Shannon entropy in bits a byte.

    >>> entropy(b"aaaa"), entropy(b"abcd")
    (0.0, 2.0)
    """
    shares = [n / len(secret) for n in Counter(secret).values()]
    return max(0.0, -sum(share * math.log2(share) for share in shares))


DIGITS = frozenset(b"0123456789")
WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
PLACEHOLDERS = (b"$", b"<", b"{", b"*", b"%", b"[", b"(", b"...")


def _ends_there(text: bytes, found: Found) -> bool:
    return found.end >= len(text) or text[found.end] not in WORD


def _random(text: bytes, found: Found) -> bool:
    """Random letters and digits, and no words with a number behind them."""
    secret = text[found.start : found.end]
    digits = sum(one in DIGITS for one in secret)
    is_mixed = digits >= 4 or (digits and any(65 <= one <= 90 for one in secret))
    return bool(is_mixed) and entropy(secret) >= 3.0 and _ends_there(text, found)


def _password(text: bytes, found: Found) -> bool:
    """Neither a placeholder nor masked, and not longer than a password may be."""
    secret = text[found.start : found.end]
    is_hidden = secret.startswith(PLACEHOLDERS) or set(secret) <= set(b"*xX.#-")
    return not is_hidden and len(secret) <= 512


def _unquoted(text: bytes, found: Found) -> bool:
    """The same where no quotes say that it is a text: with a digit, and neither code nor a type."""
    secret = text[found.start : found.end]
    is_code = text[found.end : found.end + 1] in (b"(", b"[")
    return not is_code and any(one in DIGITS for one in secret) and _password(text, found)


def _has_digit(text: bytes, found: Found) -> bool:
    return any(one in DIGITS for one in text[found.start : found.end]) and _password(text, found)


def _token(kind: str, keywords: str, expression: str, check: Check = _ends_there) -> Rule:
    """A secret with a known beginning."""
    return Rule(
        kind=kind,
        keywords=tuple(keywords.split()),
        expression=rf"(?:^|[^A-Za-z0-9_-])({expression})",
        check=check,
    )


def _in_context(kind: str, keywords: str, expression: str, check: Check = _password) -> Rule:
    """A secret that is told by what is before it."""
    return Rule(
        kind=kind,
        keywords=tuple(keywords.split()),
        expression=expression,
        check=check,
        is_token=False,
    )


SECRET_NAME = (
    r"(?:password|passwd|passphrase|secret|secret[_-]?key|api[_-]?key|access[_-]?key|account[_-]?key"
    r"|client[_-]?secret|private[_-]?key|(?:auth|access|refresh|api|bot)[_-]?token|credentials?)"
)
NAMED = "password passwd passphrase secret key token credential"
UNTIL_SPACE = r"(?:\"([^\"\n]{4,})\"|'([^'\n]{4,})'|([^\s\"'|;&<>]{4,}))"
"""A word of a command line, in quotes or without."""

OWN_RULES: tuple[Rule, ...] = (
    Rule(
        kind="private-key",
        keywords=("private",),
        expression=(
            r"(-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?s:.*?)-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|(?s:.*)))"
        ),
    ),
    _token("jwt", "eyj", r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
    _token("anthropic-key", "sk-ant-", r"sk-ant-[\w-]{20,}"),
    _token("api-key", "sk-", r"sk-[\w-]{20,}", _random),
    _token(
        "github-token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{22,}",
    ),
    _token("gitlab-token", "gl", r"gl(?:pat|dt|rt|ptt|ft|soat|cbt|agent|oas|imt)-[\w-]{20,}"),
    _token("slack-token", "xox xapp-", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}", _has_digit),
    _in_context(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{20,})",
    ),
    _in_context(
        "discord-webhook", "webhooks/", r"discord(?:app)?\.com/api/webhooks/\d+/([\w-]{30,})"
    ),
    _in_context(
        "teams-webhook", "webhook.office", r"webhook\.office\.com/webhookb2/([\w@/-]{40,})"
    ),
    _token("telegram-token", "aa", r"\d{8,10}:AA[\w-]{32,36}"),
    _token("aws-key", "akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    _token("google-key", "aiza", r"AIza[\w-]{35}"),
    _token(
        "google-token", "ya29. gocspx- 1//0", r"ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|1//0[\w-]{38,}"
    ),
    _token("huggingface-token", "hf_ api_org_", r"(?:hf_|api_org_)[A-Za-z0-9]{30,}"),
    _token(
        "stripe-key", "k_live_ k_test_ whsec_", r"(?:[srp]k_(?:live|test)_|whsec_)[A-Za-z0-9]{16,}"
    ),
    _token("sendgrid-key", "sg.", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    _token("twilio-key", "sk ac", r"(?:SK|AC)[0-9a-f]{32}"),
    _token("mailgun-key", "key-", r"key-[0-9a-f]{32}"),
    _token("mailchimp-key", "-us", r"[0-9a-f]{32}-us\d{1,2}"),
    _token("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _token("package-index-token", "pypi-", r"pypi-AgE[\w-]{20,}"),
    _token("rubygems-key", "rubygems_", r"rubygems_[0-9a-f]{48}"),
    _token("crates-token", "cio", r"cio[A-Za-z0-9]{32}"),
    _token("docker-token", "dckr_", r"dckr_(?:pat|oat)_[\w-]{20,}"),
    _token("square-token", "sq0 eaaa", r"sq0(?:atp|csp)-[\w-]{22,}|EAAA[\w-]{60,}"),
    _token("shopify-token", "shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _token("digitalocean-token", "do", r"do[opr]_v1_[0-9a-f]{64}"),
    _token(
        "grafana-token", "glsa_ glc_", r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|glc_[A-Za-z0-9+/]{32,}=*"
    ),
    _token("new-relic-key", "nr", r"NR(?:AK|II|JS)-[A-Z0-9-]{19,}", _random),
    _token("atlassian-token", "atatt3 atbb atctt3", r"(?:ATATT3|ATCTT3|ATBB)[\w=-]{20,}"),
    _token(
        "api-key",
        "gsk_ xai- nvapi- r8_ pplx- csk- fw_ tgp_v1_ jina_ voyage pa- wandb_",
        r"(?:gsk_|xai-|nvapi-|r8_|pplx-|csk-|fw_|tgp_v1_|jina_|pa-|wandb_v1_)[\w-]{30,}",
        _random,
    ),
    _in_context(
        "azure-key",
        "accountkey sharedaccesskey sharedaccesssignature sig=",
        r"(?i:AccountKey|SharedAccessKey|[?&]sig)=([A-Za-z0-9+/%]{20,}={0,2})",
    ),
    _in_context(
        "bearer-token",
        "bearer",
        r"(?i:\bbearer)\s+([A-Za-z0-9._~+/-]{16,}=*)",
        _has_digit,
    ),
    _in_context(
        "basic-login",
        "basic",
        r"(?i:\bauthorization\b[\"']?\s*[:=]\s*[\"']?basic)\s+([A-Za-z0-9+/]{8,}=*)",
    ),
    _in_context("password", "://", r"[A-Za-z][\w+.-]*://[^\s:/@\"']*:([^\s@/\"'<>${}*]+)@"),
    # In quotes, anything but a placeholder counts as the secret.
    _in_context(
        "password",
        NAMED,
        rf"(?i:{SECRET_NAME})[\"']?\s*(?:=>|:=|[:=])\s*(?:\"([^\"\n]{{6,}})\"|'([^'\n]{{6,}})')",
    ),
    # Without quotes: only values of shell variables, or values with a digit that are not code.
    _in_context(
        "password",
        NAMED,
        r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|API_?KEY|ACCESS_?KEY|TOKEN|PWD)="
        r"([^\s\"'`;&|()<>/][^\s\"'`;&|()<>]{5,})",
    ),
    _in_context(
        "password",
        NAMED,
        rf"(?i:{SECRET_NAME})[\"']?\s*[:=]\s*([^\s\"',;()\[\]{{}}<>]{{6,}})",
        _unquoted,
    ),
    # Commands and files that take a password by place.
    _in_context(
        "password",
        "password passwd passphrase token secret key",
        r"(?i:--[a-z-]*(?:password|passwd|passphrase|token|secret|api-?key))(?:=|\s+)"
        + UNTIL_SPACE,
    ),
    _in_context(
        "password",
        "sshpass mysql mariadb mongo login redis-cli useradd usermod",
        r"(?:sshpass\s+-p\s*|(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;]*\s-p"
        r"|(?:mongo|mongosh|mongodump|(?:docker|podman|az|registry)\s+login)\b[^\n|;]*\s-p\s+"
        r"|redis-cli\b[^\n|;]*\s-a\s+|user(?:add|mod)\b[^\n|;]*\s-p\s+)" + UNTIL_SPACE,
    ),
    _in_context(
        "password",
        "curl wget http smbclient ldap",
        r"(?:curl|wget|http|https|ldap\w+)\b[^\n|;]*\s(?:-u|--user|-a|--auth|-w)\s*[\"']?"
        r"(?:[^\s:\"']{1,128}:)([^\s\"'|;&]{4,})",
    ),
    _in_context(
        "password", "smbclient mount.cifs rpcclient", r"\s-U\s*[\"']?[^\s%\"']+%([^\s\"']{4,})"
    ),
    _in_context("password", "ldap", r"\bldap\w+\b[^\n|;]*\s-w\s+" + UNTIL_SPACE),
    _in_context(
        "password",
        "chpasswd",
        r"[\"']?[a-z_][a-z0-9_-]*:([^\s\"'|:]{4,})[\"']?\s*\|\s*(?:sudo\s+)?chpasswd",
    ),
    _in_context(
        "password",
        "passwd",
        r"(?:echo|printf)\s+(?:-\w+\s+)*[\"']?([^\s\"'|\\]{4,})[^|\n]{0,80}\|\s*(?:sudo\s+)?passwd\b",
    ),
    _in_context(
        "password",
        "htpasswd",
        r"htpasswd\s(?:\S+\s+)*?-\w*b\w*\s+(?:-\w+\s+)*[^\s-]\S*\s+\S+\s+" + UNTIL_SPACE,
    ),
    _in_context(
        "password",
        "sudo",
        r"(?:echo|printf)\s+(?:-\w+\s+)*[\"']?([^\s\"'|\\]{4,})[\"']?\s*\|\s*sudo\s+-S",
    ),
    _in_context("password", "pass:", r"(?:-pass(?:in|out)?|-k)\s+pass:([^\s\"']{4,})"),
    _in_context("password", "net user", r"(?i:\bnet\s+user\s+)[^\s/]+\s+([^\s/]{4,})"),
    _in_context(
        "password",
        "identified password",
        r"(?i:IDENTIFIED\s+(?:WITH\s+\S+\s+)?BY|(?:WITH|SET)\s+(?:ENCRYPTED\s+)?PASSWORD|\bPASSWORD)\s+=?\s*'([^'\n]{4,})'",
    ),
    _in_context("password", "login", r"\blogin\s+\S+\s+password\s+([^\s]{4,})"),
    _in_context(
        "password", "requirepass masterauth", r"\b(?:requirepass|masterauth)\s+[\"']?([^\s\"']{4,})"
    ),
    _in_context("password", "psk=", r"\bpsk=\"?([^\s\"]{8,63})"),
    _in_context(
        "password", "</", r"(?i:<(?:password|passwd|secret|api-?key|token)>)\s*([^<\s]{4,})\s*</"
    ),
    _in_context(
        "password",
        ":$ :!$",
        r"(?m:^[a-z_][a-z0-9_-]*:)!?(\$(?:1|2[abxy]|5|6|7|y|gy)\$[^\s:]{12,})",
        _ends_there,
    ),
    _in_context(
        "password",
        "5432: 3306: 1433:",
        r"(?m:^[\w.*-]+:(?:5432|3306|1433|\*):[\w*]+:[\w.-]+:)(\S{4,})$",
    ),
    _in_context(
        "password",
        "password is password's passwort",
        r"(?i:\bpass(?:word|wort|phrase)\s+(?:is|ist|was|will\s+be|to)\s*:?\s+)[\"'`]?([^\s\"'`,;]{6,})",
        _has_digit,
    ),
)


@cache
def all_rules() -> tuple[Rule, ...]:
    """The rules of this file, and then gitleaks'."""
    data = tomllib.loads(
        (files("practicum.traces") / "gitleaks_rules.toml").read_text(encoding="utf-8")
    )
    return OWN_RULES + tuple(_from_gitleaks(row) for row in data["rules"])


def _from_gitleaks(row: dict[str, Any]) -> Rule:
    least = row.get("entropy", 0.0)

    def check(text: bytes, found: Found) -> bool:
        return entropy(text[found.start : found.end]) >= least and _password(text, found)

    return Rule(
        kind=row["id"], keywords=tuple(row["keywords"]), expression=row["regex"], check=check
    )


@cache
def _keywords() -> tuple[Any, list[tuple[int, ...]]]:
    """The set of all keywords, and for each of them the numbers of its rules."""
    rules_of: dict[str, list[int]] = {}
    for number, rule in enumerate(all_rules()):
        for keyword in rule.keywords:
            rules_of.setdefault(keyword, []).append(number)
    made = _set_of(list(rules_of), literal=True, case_sensitive=False)
    return made, [tuple(numbers) for numbers in rules_of.values()]


@cache
def _rule_sets() -> tuple[tuple[Any, tuple[int, ...]], ...]:
    numbers = range(len(all_rules()))
    shares = [tuple(numbers[n::SETS]) for n in range(SETS)]
    return tuple((_set_of([all_rules()[n].expression for n in s]), s) for s in shares)


def rules_for(text: bytes) -> tuple[Rule, ...]:
    """The rules that may find something in a text or any part of it."""
    keywords, rules_of = _keywords()
    candidates = {number for hit in keywords.Match(text) or () for number in rules_of[hit]}
    if len(text) >= LARGE and len(candidates) > SETS:
        matched = {share[hit] for found, share in _rule_sets() for hit in found.Match(text) or ()}
        candidates &= matched
    return tuple(all_rules()[number] for number in sorted(candidates))
