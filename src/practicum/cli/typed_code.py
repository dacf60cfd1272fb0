"""Code that is named on the command line itself, which is the user's own word."""

import os
from collections.abc import Sequence

OTHERS = ("agent", ".command", ".score", "key_file", "key_variable", "key_env")
"""How keys end that name code or secrets; other words that do have a colon."""


def trust_typed(words: Sequence[str]) -> None:
    """Remember the code that words name: `mine.py:Env`, `agent=mine.py:act`, `agent.command=[...]`.

    So is what they send somewhere: `env.url=http://10.0.0.7:8000 env.key_file=key`.

    Nothing is remembered for `practicum trust` itself, nor of words that Practicum gave a process
    of its own: these may come out of a config.
    """
    named = [word for word in words if ":" in word or word.partition("=")[0].endswith(OTHERS)]
    if not named or "trust" in words[:1]:
        return
    from practicum.core.config.parse_config import apply_overrides
    from practicum.core.errors import UserError
    from practicum.core.trusted_code import NOT_TYPED, remember
    from practicum.core.user_code import consents_to

    if os.environ.get(NOT_TYPED):
        return
    settings = [word for word in words if "=" in word and not word.startswith("-")]
    for word in named:
        if word not in settings:  # `--env=mine.py:Env`, or a word of its own
            remember(consents_to(_read(word.partition("=")[2] if "=" in word else word)))
    try:
        remember(consents_to(apply_overrides({}, settings)))  # together: an address and its key
    except UserError:  # the verb says what is wrong with one; the others count
        for key, _, value in (word.partition("=") for word in settings):
            remember(consents_to({key.rpartition(".")[2]: _read(value)}))


def _read(value: str) -> object:
    """A value as YAML; one that is none is the text itself, and the verb says what is wrong."""
    from practicum.core.config.parse_config import apply_overrides
    from practicum.core.errors import UserError

    try:
        return apply_overrides({}, [f"value={value}"])["value"]
    except UserError:
        return value
