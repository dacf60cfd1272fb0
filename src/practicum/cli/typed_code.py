"""Code that is named on the command line itself, which is the user's own word."""

import os
from collections.abc import Sequence

COMMANDS = ("agent", ".command", ".score")
"""How keys end whose values may be commands; other words that name code have a colon."""


def trust_typed(words: Sequence[str]) -> None:
    """Remember the code that words name: `mine.py:Env`, `agent=mine.py:act`, `agent.command=[...]`.

    Nothing is remembered for `practicum trust` itself, nor of words that Practicum gave a process
    of its own: these may come out of a config.
    """
    named = [word for word in words if ":" in word or word.partition("=")[0].endswith(COMMANDS)]
    if not named or "trust" in words[:1]:
        return
    from practicum.core.trusted_code import NOT_TYPED, remember
    from practicum.core.user_code import consents_to

    if os.environ.get(NOT_TYPED):
        return
    for word in named:
        key, equals, value = word.partition("=")
        remember(consents_to({key: _read(value)} if equals else _read(word)))


def _read(value: str) -> object:
    """A value as YAML; one that is none is the text itself, and the verb says what is wrong."""
    from practicum.core.config.parse_config import apply_overrides
    from practicum.core.errors import UserError

    try:
        return apply_overrides({}, [f"value={value}"])["value"]
    except UserError:
        return value
